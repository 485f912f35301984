// P2, L1: a process is killed at any boundary of saver, mover and sweeper. What it was told is durable is there, whatever is
// there is whole, every pointer leads somewhere, and its successor leaves no orphan.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { v6 as uuidv6 } from "uuid";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openBodyStore } from "../../src/bodies/open.js";
import { createSaver } from "../../src/checkpoint/saver.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { expectNoDanglingPointer, NOTHING, objectsOf, rowsOf } from "../helpers/moved.js";
import { seeded } from "../helpers/random.js";
import { createTestSavers, type TestSavers } from "../helpers/savers.js";
import { size, SOAK_MS } from "../helpers/soak.js";
import { checkpointOf, LARGE_FROM_BYTES, STEPS, valuesOf, versionsOf, WRITE_TASK, writesOf } from "./story.mjs";

const VICTIM = fileURLToPath(new URL("victim.mjs", import.meta.url));
const KILLS = size(8, 1_000);
/** Each with a database of its own, since a sweep is of everything. */
const LANES = 2;

type Lane = Readonly<{ database: TestDatabase; bodies: string; savers: TestSavers }>;
type Ended = Readonly<{ signal: NodeJS.Signals | null; lines: readonly string[] }>;

const lanes: Lane[] = [];
const waiting: ChildProcess[] = [];
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), "perdure-kills-"));
  for (let n = 0; n < LANES; n += 1) {
    const database = await createTestDatabase();
    const bodies = pathToFileURL(path.join(folder, `${n}`)).href;
    const savers = createTestSavers(database.db, openBodyStore(bodies), { largeBytes: LARGE_FROM_BYTES });
    lanes.push({ database, bodies, savers });
  }
});
afterAll(async () => {
  for (const child of waiting) child.kill("SIGKILL");
  for (const { database } of lanes) await database.close();
  await rm(folder, { recursive: true, force: true });
});

/** One that has loaded everything and waits for its job; another gets ready meanwhile. */
function nextVictim(): ChildProcess {
  while (waiting.length <= LANES)
    waiting.push(spawn(process.execPath, [VICTIM], { stdio: ["pipe", "pipe", "inherit"] }));
  return waiting.shift()!;
}

async function run(job: object): Promise<Ended> {
  const victim = nextVictim();
  const lines: string[] = [];
  createInterface(victim.stdout!).on("line", (line) => lines.push(line));
  const ended = new Promise<Ended>((resolve) => victim.on("close", (_, signal) => resolve({ signal, lines })));
  victim.stdin!.end(`${JSON.stringify(job)}\n`);
  return ended;
}

async function murder({ database, bodies, savers }: Lane, killAt: number, delayMs: number): Promise<Ended> {
  const threadId = crypto.randomUUID() as ThreadId;
  const key = { tenantId: DEFAULT_TENANT, threadId };
  const { deps } = savers;
  const ids = Array.from({ length: STEPS + 1 }, (_, step) => uuidv6({ msecs: Date.now() + step }));
  const lease = await savers.lease(threadId);
  const ended = await run({ databaseUrl: database.url, bodies, lease, ids, killAt, delayMs });

  // The server may still be at what a dead process sent last: from here on that is done, or refused.
  const next = await savers.lease(threadId);
  const put = ended.lines.filter((line) => line.startsWith("put ")).length;
  const stored = await checkpointsOf(savers, threadId);
  expect(stored.length, "what it was told is durable is there").toBeGreaterThanOrEqual(put);
  expectStory(stored, ids);
  await expectNoDanglingPointer(deps, key);
  // An hour is not over for anything it left.
  await sweepOrphans(deps, { graceMs: 3_600_000 });
  await expectNoDanglingPointer(deps, key);

  // Its successor: another attempt, which knows what it reads.
  const heir = savers.forLease(next, { large: true, bodies: savers.newReader() });
  const at = await heir.getTuple(root(threadId));
  const step = stored.length;
  if (at !== undefined) await heir.putWrites(at.config, writesOf(step - 1), WRITE_TASK, "~path");
  const { checkpoint, metadata, fresh } = checkpointOf(ids, step);
  const values = { ...valuesOf(step), ...at?.checkpoint.channel_values, log: valuesOf(step)["log"], step };
  await heir.put(at?.config ?? root(threadId), { ...checkpoint, channel_values: values }, metadata, fresh);
  await savers.settle(threadId);
  await moveThread(deps, key);
  await sweepOrphans(deps, { graceMs: 0 });

  expectStory(await checkpointsOf(savers, threadId), ids, step + 1);
  await expectNoDanglingPointer(deps, key);
  expect(await rowsOf(deps, key)).toEqual(NOTHING);
  const packs = await deps.db.query<{ key: string }>("select key from packs where thread_id = $1", [threadId]);
  expect((await objectsOf(deps, key)).sort(), "no object is an orphan").toEqual(
    packs.rows.map((row) => row.key).sort(),
  );
  return ended;
}

const root = (threadId: string): RunnableConfig => ({ configurable: { thread_id: threadId, checkpoint_ns: "" } });

/** Oldest first, as a process reads them that has nothing in memory. */
async function checkpointsOf(savers: TestSavers, threadId: string): Promise<CheckpointTuple[]> {
  const { db } = savers.deps;
  const reader = createSaver({ sql: db, tenantId: DEFAULT_TENANT, bodies: savers.newReader(), commit: null });
  const found: CheckpointTuple[] = [];
  for await (const tuple of reader.list(root(threadId))) found.unshift(tuple);
  return found;
}

function expectStory(tuples: readonly CheckpointTuple[], ids: readonly string[], length = tuples.length): void {
  expect(tuples.map(({ checkpoint }) => checkpoint.id)).toEqual(ids.slice(0, length));
  tuples.forEach((tuple, step) => {
    const { channel_values, channel_versions } = tuple.checkpoint;
    expect(isDeepStrictEqual(channel_values, valuesOf(step)), `values of step ${step}`).toBe(true);
    expect(channel_versions).toEqual(versionsOf(step));
    expect(tuple.parentConfig?.configurable?.["checkpoint_id"]).toBe(ids[step - 1]);
    const writes = writesOf(step).map(([channel, value]) => [WRITE_TASK, channel, value]);
    const isNewest = step === tuples.length - 1;
    // The newest may have no writes yet, or all of them: they are of one task.
    if (!isNewest || tuple.pendingWrites!.length > 0) {
      expect(isDeepStrictEqual(tuple.pendingWrites, writes), `writes of step ${step}`).toBe(true);
    }
  });
}

test(
  `a process killed at ${KILLS} boundaries of saver, mover and sweeper loses nothing and leaves no orphan`,
  async () => {
    const whole = await murder(lanes[0]!, -1, 0);
    const total = Number(whole.lines.at(-1)?.split(" ")[1]);
    expect(total).toBeGreaterThan(100);
    const random = seeded(7);
    let kills = 0;
    let next = 0;
    await Promise.all(
      lanes.map(async (lane) => {
        while (next < KILLS) {
          next += 1;
          const [killAt, delayMs] = [1 + Math.floor(random() * total), Math.floor(random() * 4)];
          const ended = await murder(lane, killAt, delayMs).catch((error: unknown) => {
            throw new Error(`killed at boundary ${killAt} after ${delayMs} ms`, { cause: error });
          });
          if (ended.signal === "SIGKILL") kills += 1;
        }
      }),
    );
    // A commit on its way may be answered before its process is killed, and the last boundaries come after it.
    expect(kills).toBeGreaterThan(KILLS / 2);
  },
  SOAK_MS,
);
