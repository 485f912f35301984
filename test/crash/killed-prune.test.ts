// D6 under kills: `perdure prune` killed at each of its steps leaves both heads readable and no pointer to nothing; the next one
// finishes, and the one after that finds nothing to do.
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { withEngine } from "../helpers/engine.js";
import { longGraph, longThread, seen } from "../helpers/long-thread.js";
import { expectNoDanglingPointer, objectsOf } from "../helpers/moved.js";
import { runProcess, startProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";

const CONFIG = fileURLToPath(new URL("graphs/langgraph.json", import.meta.url));
/** The server is shared with other tests. */
const HERE = "datname = current_database()";
/** More than once round by PERDURE_TEST_LONG. */
const ROUNDS = process.env.PERDURE_TEST_LONG === undefined ? 1 : 8;

test("a prune killed while it looks, deletes and packs anew breaks nothing, and the next one finishes", {
  timeout: 600_000,
}, async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), "perdure-killed-prune-"));
  try {
    const bodies = pathToFileURL(folder).href;
    await withEngine({ graphs: { long: longGraph() }, bodies }, async (t) => {
      const { db } = t.db;
      const env = { DATABASE_URL: t.db.url, PERDURE_BODIES: bodies };
      const count = async (what: string) =>
        (await db.query<{ n: number }>(`select count(*) as n from ${what}`)).rows[0]?.n ?? 0;
      for (let round = 0; round < ROUNDS; round++) {
        const { threadId, main, fork } = await longThread(t, 60);
        const key = { tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId };
        await moveThread(t.deps, key, { packBytes: 30_000 });
        const before = [await seen(t, threadId, main), await seen(t, threadId, fork)];
        const [packs, edits] = [await count("packs"), await count("runs where kind = 'edit'")];
        const args = ["prune", "--config", CONFIG, "--thread", threadId, "--keep-latest", "1"];
        const steps: (readonly [string, () => Promise<boolean>])[] = [
          [
            "it looks",
            async () => (await count(`pg_stat_activity where application_name = 'perdure cli' and ${HERE}`)) > 0,
          ],
          ["it holds the thread", async () => (await count("runs where kind = 'edit'")) > edits],
          ["it packs anew", async () => (await count("packs")) > packs],
          ["it gave packs up", async () => (await count("packs where status = 'doomed'")) > 0],
        ];
        for (const [step, reached] of steps) {
          const pruner = startProcess(args, { env });
          let ended = false;
          void pruner.exited.then(() => (ended = true));
          // What a former one did before it died isn't done again: then this one ends by itself.
          await until(step, async () => ended || (await reached()), { everyMs: 1 });
          await pruner.kill();
          await expectNoDanglingPointer(t.deps, key);
          await until("the thread is free", async () => {
            // As if the lease of the dead prune had run out.
            await db.query("update runs set lease_expires_at = clock_timestamp() where status = 'running'");
            await t.sweep();
            return (await t.client.threads.get(threadId)).status === "interrupted";
          });
          expect([await seen(t, threadId, main), await seen(t, threadId, fork)]).toEqual(before);
        }
        const last = await runProcess(args, { env });
        expect(last).toMatchObject({ code: 0 });
        await expectNoDanglingPointer(t.deps, key);
        const again = await runProcess([...args, "--json"], { env });
        expect(JSON.parse(again.stdout)).toMatchObject({
          dry_run: false,
          threads: [],
          total: { checkpoints: 0, bodies: 0 },
        });
        await sweepOrphans(t.deps, { graceMs: 0 });
        await db.query("update packs set delete_after = now() where status = 'doomed'");
        await sweepOrphans(t.deps, { graceMs: 0 });
        expect(await objectsOf(t.deps, key)).toHaveLength(await count(`packs where thread_id = '${threadId}'`));
        expect([await seen(t, threadId, main), await seen(t, threadId, fork)]).toEqual(before);
        expect(await t.client.threads.getHistory(threadId, { limit: 1_000 })).toHaveLength(2);
        expect(await t.client.runs.wait(threadId, "long", { command: { resume: "yes" } })).toMatchObject({
          answer: "yes",
        });
      }
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
