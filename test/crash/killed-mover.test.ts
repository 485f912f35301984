// P11, L1: movers killed at any moment, beside a sweep that never rests: every pointer leads to an object, nothing is lost, and
// what they left behind is swept once its grace time is over.
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openBodyStore } from "../../src/bodies/open.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { expectNoDanglingPointer, NOTHING, objectsOf, recordOf, rowsOf, smallThread } from "../helpers/moved.js";
import { startProcess } from "../helpers/processes.js";
import { searchTables } from "../helpers/search-tables.js";
import { rowDeps, setMoveTimer, stageNode } from "../helpers/thread-rows.js";
import { until } from "../helpers/wait.js";

const CONFIG = fileURLToPath(new URL("graphs/langgraph.json", import.meta.url));
const THREADS = 24;
const KILLS = 5;
const TIMEOUT_MS = 180_000;

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  database = await createTestDatabase();
  folder = await mkdtemp(path.join(os.tmpdir(), "perdure-killed-mover-"));
});
afterAll(async () => {
  await database.close();
  await rm(folder, { recursive: true, force: true });
});

test(
  "movers killed five times in the middle of their work leave no dangling pointer and lose nothing",
  async () => {
    const { db, url } = database;
    const bodies = pathToFileURL(folder).href;
    const deps = rowDeps(db, openBodyStore(bodies));
    const threads = await Promise.all(
      Array.from({ length: THREADS }, async (_, n) => {
        const thread = await smallThread(db, `kept ${n}`);
        for (let node = 0; node < 4; node++)
          await stageNode(db, thread.key, `kept ${n}.${node} ${"x".repeat(200_000)}`);
        await setMoveTimer(db, thread.key);
        return thread;
      }),
    );
    const packs = async () => (await db.query<{ n: number }>("select count(*) as n from packs")).rows[0]?.n ?? 0;
    const due = async () =>
      (await db.query<{ n: number }>("select count(*) as n from timers where status = 'due'")).rows[0]?.n ?? 0;
    const startMover = () => {
      const env = { DATABASE_URL: url, PERDURE_BODIES: bodies, PERDURE_POLL_MS: "50" };
      return startProcess(["worker", "--config", CONFIG, "--loops", "mover"], { env });
    };

    for (let kills = 0; kills < KILLS && (await due()) > 0; kills++) {
      // What a dead mover held is due again after a while; here at once.
      await db.query("update timers set due_at = now() where status = 'due'");
      const before = await packs();
      const mover = startMover();
      await until("the mover is at work", async () => (await packs()) > before, { everyMs: 1 });
      await until("it got a little further", async () => Math.random() < 0.3, { everyMs: 3 });
      await mover.kill();
      expect(await sweepOrphans(deps, { graceMs: 3_600_000 })).toBe(0);
      for (const { key } of threads) await expectNoDanglingPointer(deps, key);
    }
    await db.query("update timers set due_at = now() where status = 'due'");
    const last = startMover();
    await until("everything is moved", async () => (await due()) === 0);
    await last.kill();

    expect(await searchTables(db, "kept")).toEqual([]);
    await sweepOrphans(deps, { graceMs: 0 });
    for (const { key, first } of threads) {
      await expectNoDanglingPointer(deps, key);
      expect(await rowsOf(deps, key)).toEqual(NOTHING);
      expect(await recordOf(deps, key, first)).toMatchObject({ channels: ["messages"] });
      const { rowCount } = await db.query("select 1 from packs where thread_id = $1", [key.threadId]);
      expect(await objectsOf(deps, key)).toHaveLength(rowCount);
    }
  },
  TIMEOUT_MS,
);
