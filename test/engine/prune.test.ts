// D6: retention that doesn't break what is left. A pruned thread is compared with one that went the same way and was not pruned.
import { Client } from "@langchain/langgraph-sdk";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import { createBodyReader } from "../../src/checkpoint/body-reader.js";
import { createPackReader } from "../../src/checkpoint/pack-reader.js";
import type { BodyStore } from "../../src/core/deps.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { type PruneInput, type PruneStep, pruneThread } from "../../src/engine/commands/prune-thread.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { repackThread } from "../../src/engine/repack-thread.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { type LongThread, longGraph, longThread, seen } from "../helpers/long-thread.js";
import { expectNoDanglingPointer, objectsOf } from "../helpers/moved.js";
import { gateGraph, stepsGraph } from "../helpers/scripted-graphs.js";

const KEEP_ONE = { keepLatest: 1, olderThanMs: null, outcomes: null };
const TEXT = "lorem ipsum ".repeat(20);
const keyOf = (threadId: string) => ({ tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId });

function prune(t: TestEngine, threadId: string, more: Partial<PruneInput> = {}) {
  const input = { ...t.engine.edits, ...keyOf(threadId), policy: KEEP_ONE, thorough: true, dryRun: false, ...more };
  return pruneThread(t.deps, input);
}

/** A client of the same installation whose process holds nothing in memory yet. */
function coldClient({ engine, deps }: TestEngine): Pick<TestEngine, "client"> {
  const packs = createPackReader(deps.bodies);
  const bodyReader = createBodyReader({ sql: deps.db, bodies: deps.bodies, packs, cacheBytes: 1 << 20 });
  const app = createApp({ ...engine, bodyReader });
  const fetch: typeof globalThis.fetch = async (input, init) => app.fetch(new Request(input, init));
  return { client: new Client({ apiUrl: "http://perdure.test", callerOptions: { fetch, maxRetries: 0 } }) };
}

/** Everything that is stored of a thread, and where. */
async function stored({ db, deps }: TestEngine, threadId: string): Promise<unknown> {
  const rows: unknown[] = [await objectsOf(deps, keyOf(threadId))];
  for (const table of [
    "checkpoints",
    "checkpoint_writes",
    "channel_versions",
    "staged_bodies",
    "bodies",
    "packs",
    "runs",
  ])
    rows.push((await db.db.query(`select * from ${table} x where thread_id = $1 order by x::text`, [threadId])).rows);
  return rows;
}

/** What becomes of the two branches when they are gone on with. */
async function goOn({ client }: TestEngine, { threadId, main }: LongThread): Promise<unknown> {
  const answered = await client.runs.wait(threadId, "long", { command: { resume: "yes" } });
  const config = { recursion_limit: 300 };
  const forked = await client.runs.wait(threadId, "long", { input: { till: 101 }, checkpointId: main, config });
  return { answered, forked };
}

test("a thread of 100 checkpoints with a fork at #40 and a question at the head, pruned to one, goes on as if it were whole", async () => {
  await withEngine({ graphs: { long: longGraph() } }, async (t) => {
    const [whole, here, moved] = await Promise.all([longThread(t), longThread(t), longThread(t)]);
    await moveThread(t.deps, keyOf(moved.threadId), { packBytes: 100_000 });
    const expected = {
      main: await seen(t, whole.threadId, whole.main),
      fork: await seen(t, whole.threadId, whole.fork),
      after: await goOn(t, whole),
    };
    expect(expected.fork).toMatchObject({
      next: ["gate"],
      tasks: [{ asks: [{ question: "go on?" }], state: { next: ["put"] } }],
    });
    for (const thread of [here, moved]) {
      const { threadId } = thread;
      const before = await stored(t, threadId);
      const planned = await prune(t, threadId, { dryRun: true });
      expect(await stored(t, threadId)).toEqual(before);
      expect(planned).toMatchObject({
        checkpoints: expect.any(Number) as number,
        bodies: expect.any(Number) as number,
      });
      expect(planned?.checkpoints).toBeGreaterThan(150);
      expect(planned?.[thread === here ? "postgresBytes" : "storeBytes"]).toBeGreaterThan(20_000);
      expect(await prune(t, threadId)).toEqual(planned);

      const states = await t.client.threads.getHistory(threadId, { limit: 1_000 });
      expect(states.map(({ checkpoint }) => checkpoint.checkpoint_id)).toEqual([thread.fork, thread.main]);
      await expectNoDanglingPointer(t.deps, keyOf(threadId));
      expect(await prune(t, threadId)).toBeNull();
      await repackThread(t.deps, keyOf(threadId), { graceMs: 0 });
      await sweepOrphans(t.deps, { graceMs: 0 });
      await expectNoDanglingPointer(t.deps, keyOf(threadId));
      const settled = await stored(t, threadId);
      expect(await prune(t, threadId)).toBeNull();
      expect(await repackThread(t.deps, keyOf(threadId), { graceMs: 0 })).toEqual({ rewritten: 0, retired: 0 });
      expect(await stored(t, threadId)).toEqual(settled);

      const cold = coldClient(t);
      expect(await seen(cold, threadId, thread.main)).toEqual(expected.main);
      expect(await seen(cold, threadId, thread.fork)).toEqual(expected.fork);
      expect((await t.client.threads.get(threadId)).status).toBe("interrupted");
      if (thread === here) await moveThread(t.deps, keyOf(threadId));
      expect(await goOn(t, thread)).toEqual(expected.after);
    }
  });
});

test("what a pruned thread was made of is gone from the object store when the grace time is over", async () => {
  await withEngine({ graphs: { long: longGraph() } }, async (t) => {
    const { threadId } = await longThread(t, 50);
    await moveThread(t.deps, keyOf(threadId), { packBytes: 50_000 });
    const bytes = async () =>
      (await t.db.db.query<{ n: number }>("select sum(bytes)::int as n from packs where status = 'stored'")).rows[0]
        ?.n ?? 0;
    // Manifests are written anew and go at once: they name where things are.
    const packs = async () => (await objectsOf(t.deps, keyOf(threadId))).filter((key) => !key.endsWith(".json"));
    const [before, objects] = [await bytes(), await packs()];
    const pruned = await prune(t, threadId);
    const { retired } = await repackThread(t.deps, keyOf(threadId));
    expect(retired).toBeGreaterThan(1);
    expect(before - (await bytes())).toBeGreaterThan((pruned?.storeBytes ?? 0) / 2);
    // Readers that were on their way to an object find it for a while.
    expect(await sweepOrphans(t.deps, { graceMs: 0 })).toBe(0);
    expect(await packs()).toEqual(expect.arrayContaining(objects));
    await t.db.db.query("update packs set delete_after = now() where status = 'doomed'");
    expect(await sweepOrphans(t.deps, { graceMs: 0 })).toBe(retired);
    const { rowCount } = await t.db.db.query("select 1 from packs");
    expect(await objectsOf(t.deps, keyOf(threadId))).toHaveLength(rowCount);
  });
});

test("a thread that is busy is not pruned, and one that is being pruned keeps a new run waiting for a moment only", async () => {
  await withEngine({ graphs: { gate: gateGraph([]), steps: stepsGraph(4, () => {}) } }, async (t) => {
    const { thread_id: threadId } = await t.client.threads.create();
    await t.client.runs.wait(threadId, "steps", { input: { log: [] } });
    const delayed = await t.client.runs.create(threadId, "steps", { input: { log: [] }, afterSeconds: 3_600 });
    await expect(prune(t, threadId)).rejects.toMatchObject({ code: "thread_busy" });
    await t.client.runs.cancel(threadId, delayed.run_id);
    let runId = "";
    const reached = async (step: string) => {
      if (step !== "held") return;
      await expect(prune(t, threadId)).rejects.toMatchObject({ code: "thread_busy" });
      runId = (await t.client.runs.create(threadId, "steps", { input: { log: ["next"] } })).run_id;
    };
    const { updated_at } = await t.client.threads.get(threadId);
    expect(await prune(t, threadId, { reached })).toMatchObject({ checkpoints: 5 });
    expect(await t.client.runs.join(threadId, runId)).toMatchObject({
      log: expect.arrayContaining(["next"]) as string[],
    });
    expect(await prune(t, threadId)).toMatchObject({ checkpoints: 6 });
    expect((await t.client.threads.get(threadId)).status).toBe("idle");
    expect((await t.client.threads.get(threadId)).updated_at > updated_at).toBe(true);
  });
});

test("a run that ends between the look and the act is not lost", async () => {
  await withEngine({ graphs: { steps: stepsGraph(3, () => {}) } }, async (t) => {
    const { thread_id: threadId } = await t.client.threads.create();
    await t.client.runs.wait(threadId, "steps", { input: { log: [] } });
    const reached = async (step: string) => {
      if (step === "marked") await t.client.runs.wait(threadId, "steps", { input: { log: ["x".repeat(2_000)] } });
    };
    await prune(t, threadId, { reached });
    const { values } = await coldClient(t).client.threads.getState<{ log: string[] }>(threadId);
    expect(values.log).toEqual(["s1", "s2", "s3", "x".repeat(2_000), "s1", "s2", "s3"]);
    expect(await t.client.threads.getHistory(threadId)).toHaveLength(1);
  });
});

test("a prune whose process dies while it holds the thread changes nothing, and the sweeper frees the thread", async () => {
  await withEngine({ graphs: { gate: gateGraph([]) } }, async (t) => {
    const { thread_id: threadId } = await t.client.threads.create();
    await t.client.runs.wait(threadId, "gate", { input: { log: [] } });
    const history = await t.client.threads.getHistory(threadId);
    const reached = async (step: string) => {
      if (step !== "held") return;
      await t.db.db.query("update runs set lease_expires_at = now() - interval '1 s' where kind = 'edit'");
      expect(await t.sweep()).toBe(1);
    };
    await expect(prune(t, threadId, { reached })).rejects.toMatchObject({ code: "lease_lost" });
    expect(await t.client.threads.getHistory(threadId)).toEqual(history);
    expect((await t.client.threads.get(threadId)).status).toBe("interrupted");
    expect(await prune(t, threadId)).toMatchObject({ checkpoints: 1 });
    expect(await t.client.runs.wait(threadId, "gate", { command: { resume: "yes" } })).toMatchObject({
      log: ["q1:yes", "acted"],
    });
  });
});

test("a thread that others prune or delete while it is looked at isn't taken for damaged", async () => {
  await withEngine({ graphs: { steps: stepsGraph(3, () => {}) } }, async (t) => {
    const { thread_id: threadId } = await t.client.threads.create();
    for (let n = 0; n < 3; n++) {
      // As long as no text is, so that bodies name bodies.
      await t.client.runs.wait(threadId, "steps", { input: { log: Array.from({ length: 40 }, () => `${n} ${TEXT}`) } });
    }
    await moveThread(t.deps, keyOf(threadId));
    const { read } = t.deps.bodies;
    /** Prunes, and does `act` when it has begun to read. */
    const pruneBeside = async (act: () => Promise<unknown>, more: Partial<PruneInput>) => {
      let acts: Promise<unknown> | undefined;
      const reads: typeof read = async (...args) => {
        const bytes = await read.apply(t.deps.bodies, args);
        await (acts ??= (((t.deps.bodies as { read: typeof read }).read = read), act()));
        return bytes;
      };
      (t.deps.bodies as { read: typeof read }).read = reads;
      const pruned = prune(t, threadId, { policy: { ...KEEP_ONE, keepLatest: 8 }, ...more });
      await pruned.catch(() => {});
      expect(acts).toBeDefined();
      return pruned;
    };
    const others = () => prune(t, threadId);
    expect(await pruneBeside(others, { dryRun: true })).toBe(null);
    const deletes = () => t.client.threads.delete(threadId);
    await expect(pruneBeside(deletes, {})).rejects.toMatchObject({ code: "not_found" });
  });
});

test("a thread that is deleted while it is held and looked at isn't taken for damaged", async () => {
  await withEngine({ graphs: { steps: stepsGraph(3, () => {}) } }, async (t) => {
    const { thread_id: threadId } = await t.client.threads.create();
    const say = (text: string) =>
      t.client.runs.wait(threadId, "steps", { input: { log: Array.from({ length: 40 }, () => `${text} ${TEXT}`) } });
    for (const text of ["1", "2"]) await say(text);
    await moveThread(t.deps, keyOf(threadId));
    const bodies = t.deps.bodies as { read: BodyStore["read"] };
    const { read } = bodies;
    let deleting: Promise<unknown> | undefined;
    const reached = async (step: PruneStep) => {
      // It looks anew once it holds the thread.
      if (step === "marked") await say("3");
      if (step !== "held") return;
      bodies.read = async (...args) => {
        const bytes = await read.apply(t.deps.bodies, args);
        bodies.read = read;
        await (deleting ??= t.client.threads.delete(threadId));
        return bytes;
      };
    };
    await expect(prune(t, threadId, { reached })).rejects.toMatchObject({ code: "not_found" });
    expect(deleting).toBeDefined();
  });
});

test("a thread with a lost body is left alone", async () => {
  await withEngine({ graphs: { steps: stepsGraph(3, () => {}) } }, async (t) => {
    const { thread_id: threadId } = await t.client.threads.create();
    await t.client.runs.wait(threadId, "steps", { input: { log: ["x".repeat(2_000)] } });
    await t.db.db.query("delete from staged_bodies where thread_id = $1 and kind = 0", [threadId]);
    const before = await stored(t, threadId);
    await expect(prune(t, threadId)).rejects.toMatchObject({ code: "body_missing" });
    expect(await stored(t, threadId)).toEqual(before);
  });
});
