// A thread's time to live: it goes, or its old states do, when nothing has happened on it for as long; what comes meanwhile keeps it.
import { expect, test } from "vitest";
import { expireThread } from "../../src/engine/commands/expire-thread.js";
import { tickPruner } from "../../src/engine/loops/pruner.js";
import { claimTimers } from "../../src/schedule/timer-claims.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";

const MINUTE_MS = 60_000;
const graphs = { steps: stepsGraph(3, () => {}) };
const input = { log: [] };

/** Rounds of the pruner until it finds nothing to do. */
async function prune(t: TestEngine): Promise<void> {
  while ((await tickPruner(t.deps, { ...t.engine.edits, retention: null })) > 0);
  expect((await t.db.db.query("select kind, last_error from timers where last_error is not null")).rows).toEqual([]);
}

/** As the wire has it: the client's types know neither the answer nor the other strategy. */
const ttlOf = async ({ client }: TestEngine, id: string): Promise<unknown> =>
  ((await client.threads.get(id, { include: ["ttl"] })) as { ttl?: unknown }).ttl;
const keepLatest = (ttl: number) => ({ ttl, strategy: "keep_latest" as "delete" });

const isThere = ({ client }: TestEngine, id: string): Promise<boolean> =>
  client.threads.get(id).then(
    () => true,
    () => false,
  );

test("a thread says what its time to live is, and when it will be over", () =>
  withEngine({ graphs, workers: 0 }, async (t) => {
    const { client, app } = t;
    const { thread_id } = await client.threads.create({ ttl: 60 });
    const shown = await client.threads.get(thread_id);
    const expires_at = new Date(new Date(shown.updated_at).getTime() + 60 * MINUTE_MS).toISOString();
    expect(await ttlOf(t, thread_id)).toEqual({ strategy: "delete", ttl_minutes: 60, expires_at });
    await client.threads.update(thread_id, { ttl: keepLatest(5) });
    expect(await ttlOf(t, thread_id)).toMatchObject({ strategy: "keep_latest", ttl_minutes: 5 });
    expect(await client.threads.get(thread_id)).not.toHaveProperty("ttl");
    const other = await client.threads.create();
    expect(await ttlOf(t, other.thread_id)).toBeNull();
    for (const ttl of [0, -1, 1e9, "5", { ttl: 5, strategy: "x" }, {}]) {
      const refused = await app.request("/threads", { method: "POST", body: JSON.stringify({ ttl }) });
      expect([ttl, refused.status]).toEqual([ttl, 422]);
    }
  }));

test("it counts from the last change: a run, a label, an edit", () =>
  withEngine({ graphs, movable: true }, async (t) => {
    const { client } = t;
    const { thread_id } = await client.threads.create({ ttl: 60, graphId: "steps" });
    const changes = [
      () => client.runs.wait(thread_id, "steps", { input }),
      () => client.threads.update(thread_id, { metadata: { a: 1 } }),
      () => client.threads.updateState(thread_id, { values: { log: ["x"] }, asNode: "s1" }),
    ];
    for (const change of changes) {
      await t.advance(40 * MINUTE_MS);
      await prune(t);
      expect(await isThere(t, thread_id)).toBe(true);
      await change();
    }
    await t.advance(59 * MINUTE_MS);
    await prune(t);
    expect(await isThere(t, thread_id)).toBe(true);
    await t.advance(2 * MINUTE_MS);
    await prune(t);
    expect(await isThere(t, thread_id)).toBe(false);
    const { rows } = await t.db.db.query("select 1 from timers where kind = 'thread.ttl' and status = 'due'");
    expect(rows).toEqual([]);
  }));

test("keep_latest leaves the newest state, again after each time that something was added", () =>
  withEngine({ graphs, movable: true }, async (t) => {
    const { client } = t;
    const { thread_id } = await client.threads.create({ ttl: keepLatest(10) });
    for (let round = 0; round < 2; round += 1) {
      await client.runs.wait(thread_id, "steps", { input });
      expect((await client.threads.getHistory(thread_id)).length).toBeGreaterThan(1);
      await t.advance(11 * MINUTE_MS);
      await prune(t);
      expect(await client.threads.getHistory(thread_id)).toHaveLength(1);
      // Nothing is left to be done, however long nothing happens.
      const { rows } = await t.db.db.query("select 1 from timers where kind = 'thread.ttl' and status = 'due'");
      expect(rows).toEqual([]);
    }
    expect((await client.threads.getState<{ log: string[] }>(thread_id)).values.log).toHaveLength(6);
  }));

test("a run that has come before the time was over keeps the thread, also one that sleeps or is to begin later", () =>
  withEngine({ graphs, movable: true, workers: 0 }, async (t) => {
    const { client } = t;
    const { thread_id } = await client.threads.create({ ttl: 10 });
    const { run_id } = await client.runs.create(thread_id, "steps", { input, afterSeconds: 3_600 });
    await t.advance(30 * MINUTE_MS);
    await prune(t);
    expect(await client.runs.get(thread_id, run_id)).toMatchObject({ status: "pending" });
    await client.runs.cancel(thread_id, run_id);
    await t.advance(11 * MINUTE_MS);
    await prune(t);
    expect(await isThere(t, thread_id)).toBe(false);
  }));

test("a run that comes while the thread is about to be deleted keeps it", () =>
  withEngine({ graphs, movable: true, workers: 0 }, async (t) => {
    const { client, deps } = t;
    const { thread_id } = await client.threads.create({ ttl: 10 });
    await t.advance(11 * MINUTE_MS);
    const [timer] = await claimTimers(deps.db, { kind: "thread.ttl", limit: 1, forMs: MINUTE_MS });
    // Between the look and the delete, which are two transactions.
    let looks = 0;
    const db = {
      ...deps.db,
      tx: async <T>(work: Parameters<typeof deps.db.tx<T>>[0]) => {
        const done = await deps.db.tx(work);
        looks += 1;
        if (looks === 1) await client.runs.create(thread_id, "steps", { input });
        return done;
      },
    };
    expect(await expireThread({ ...deps, db }, timer!, t.engine.edits)).toBe("kept");
    expect(await client.runs.list(thread_id)).toMatchObject([{ status: "pending" }]);
    await prune(t);
    expect(await isThere(t, thread_id)).toBe(true);
  }));

test("a pruner that died over a thread leaves it to the next", () =>
  withEngine({ graphs, movable: true, workers: 0 }, async (t) => {
    const { thread_id } = await t.client.threads.create({ ttl: 10 });
    await t.advance(11 * MINUTE_MS);
    await claimTimers(t.deps.db, { kind: "thread.ttl", limit: 1, forMs: 30 * MINUTE_MS });
    await prune(t);
    expect(await isThere(t, thread_id)).toBe(true);
    await t.advance(31 * MINUTE_MS);
    await prune(t);
    expect(await isThere(t, thread_id)).toBe(false);
  }));

test("a run may say it of its thread; of one that goes with it there is nothing to say", () =>
  withEngine({ graphs }, async (t) => {
    const { client, app, db } = t;
    const post = (path: string, body: object) =>
      app.request(path, { method: "POST", body: JSON.stringify({ assistant_id: "steps", input, ...body }) });
    const { thread_id } = await client.threads.create();
    expect((await post(`/threads/${thread_id}/runs/wait`, { ttl: 7 })).status).toBe(200);
    expect(await ttlOf(t, thread_id)).toMatchObject({ ttl_minutes: 7 });
    const kept = await post("/runs", { on_completion: "keep", ttl: { ttl: 8, strategy: "keep_latest" } });
    const run = (await kept.json()) as { thread_id: string };
    expect(await ttlOf(t, run.thread_id)).toMatchObject({ ttl_minutes: 8 });
    const refused = await post("/runs", { ttl: 8 });
    expect([refused.status, await refused.text()]).toEqual([422, expect.stringContaining("ttl")]);
    const { rows } = await db.db.query("select 1 from threads where ephemeral and ttl_minutes is not null");
    expect(rows).toEqual([]);
  }));

test("the installation's default is for threads that clients make without saying", () =>
  withEngine({ graphs, threadTtl: { minutes: 30, strategy: "keep_latest" } }, async (t) => {
    const { client, app } = t;
    const { thread_id } = await client.threads.create();
    expect(await ttlOf(t, thread_id)).toMatchObject({ strategy: "keep_latest", ttl_minutes: 30 });
    const own = await client.threads.create({ ttl: 5 });
    expect(await ttlOf(t, own.thread_id)).toMatchObject({ strategy: "delete", ttl_minutes: 5 });
    const made = "00000000-0000-4000-8000-0000000000aa";
    await client.runs.wait(made, "steps", { input, ifNotExists: "create" });
    expect(await ttlOf(t, made)).toMatchObject({ ttl_minutes: 30 });
    const body = JSON.stringify({ assistant_id: "steps", input, on_completion: "keep" });
    const kept = (await (await app.request("/runs", { method: "POST", body })).json()) as { thread_id: string };
    expect(await ttlOf(t, kept.thread_id)).toMatchObject({ ttl_minutes: 30 });
  }));
