// Rollback: a run and what it stored are gone, and the thread is as it was before it; what others grew from it stays.
import { expect, test } from "vitest";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { tickPruner } from "../../src/engine/loops/pruner.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { expectNoDanglingPointer } from "../helpers/moved.js";
import { gateGraph, stepsGraph } from "../helpers/scripted-graphs.js";
import { searchTables } from "../helpers/search-tables.js";
import { until } from "../helpers/wait.js";

type Log = Readonly<{ log: string[] }>;
const keyOf = (threadId: string) => ({ tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId });
const logOf = async ({ client }: TestEngine, threadId: string) =>
  (await client.threads.getState<Log>(threadId)).values.log;
const wait = async ({ client }: TestEngine, threadId: string, text: string) => {
  let runId = "";
  await client.runs.wait(threadId, "steps", {
    input: { log: [text] },
    onRunCreated: ({ run_id }) => void (runId = run_id),
  });
  return runId;
};
const gone = (status = 404) => ({ status });

/** A door per run that a node waits at: it doesn't listen to signals. */
function doors() {
  const waiting: (() => void)[] = [];
  return { waiting, wait: () => new Promise<void>((open) => waiting.push(open)) };
}

test("a newer run takes the active and the queued ones back: their joins end, and it goes on from before them", async () => {
  const held = doors();
  let holds = false;
  const steps = stepsGraph(2, (node) => (holds && node === "s2" ? held.wait() : undefined));
  await withEngine({ graphs: { steps } }, async (t) => {
    const { client, db } = t;
    const { thread_id } = await client.threads.create();
    await wait(t, thread_id, "kept");
    holds = true;
    const first = await client.runs.create(thread_id, "steps", { input: { log: ["first"] } });
    const queued = await client.runs.create(thread_id, "steps", { input: { log: ["queued"] } });
    await until("the first run's second node", () => held.waiting.length === 1);
    const joins = [first, queued].map(({ run_id }) => client.runs.join(thread_id, run_id));
    const ended = Promise.allSettled(joins);
    let most = 0;
    const sample = setInterval(() => {
      const running = "select count(*) as n from runs where thread_id = $1 and status = 'running'";
      void db.db
        .query<{ n: number }>(running, [thread_id])
        .then(({ rows }) => (most = Math.max(most, rows[0]?.n ?? 0)));
    }, 20);
    const last = await client.runs.create(thread_id, "steps", {
      input: { log: ["last"] },
      multitaskStrategy: "rollback",
    });
    for (const result of await ended) expect(JSON.stringify(result)).toContain("not found");
    await expect(client.runs.get(thread_id, first.run_id)).rejects.toMatchObject(gone());
    await until("the last run's second node", () => held.waiting.length === 2);
    // The zombie goes on, and nothing of it is stored.
    for (const open of held.waiting) open();
    await client.runs.join(thread_id, last.run_id);
    clearInterval(sample);
    expect(most).toBe(1);
    expect(await logOf(t, thread_id)).toEqual(["kept", "s1", "s2", "last", "s1", "s2"]);
    expect((await client.runs.list(thread_id)).map(({ run_id }) => run_id)).toHaveLength(2);
    const { rows } = await db.db.query(
      "select 1 from checkpoints c where thread_id = $1 and not exists (select 1 from runs r where r.run_id = c.run_id)",
      [thread_id],
    );
    expect(rows).toEqual([]);
  });
});

test.each(["moved", "in Postgres"])(
  "a cancel with rollback leaves the thread as it was, with nothing of the run: %s",
  async (where) => {
    const held = doors();
    let holds = false;
    const steps = stepsGraph(3, (node) => (holds && node === "s3" ? held.wait() : undefined));
    const secret = `a secret ${"that is long ".repeat(200)}`;
    await withEngine({ graphs: { steps }, moveAfterMs: 3_600_000 }, async (t) => {
      const { client, deps, app } = t;
      const { thread_id } = await client.threads.create();
      await wait(t, thread_id, "kept");
      const before = await client.threads.getHistory(thread_id);
      holds = true;
      const { run_id } = await client.runs.create(thread_id, "steps", { input: { log: [secret] } });
      await until("the third node", () => held.waiting.length === 1);
      if (where === "moved") await moveThread(deps, keyOf(thread_id));
      const path = `/threads/${thread_id}/runs/${run_id}`;
      expect((await app.request(`${path}/cancel?action=rollback&wait=1`, { method: "POST" })).status).toBe(204);
      held.waiting[0]?.();
      expect(await client.threads.getHistory(thread_id)).toEqual(before);
      expect((await client.threads.get(thread_id)).status).toBe("idle");
      for (const each of [path, `${path}/record`, `${path}/join`]) expect((await app.request(each)).status).toBe(404);
      // What it had said is not kept either, here or in the store.
      await until("the prune", async () => (await tickPruner(deps, { ...t.engine.edits, retention: null })) === 0);
      expect(await searchTables(t.db.db, secret)).toEqual([]);
      await deps.db.query("update packs set delete_after = now() where status = 'doomed'");
      await sweepOrphans(deps, { graceMs: 0 });
      await expectNoDanglingPointer(deps, keyOf(thread_id));
      holds = false;
      await wait(t, thread_id, "more");
      expect(await logOf(t, thread_id)).toEqual(["kept", "s1", "s2", "s3", "more", "s1", "s2", "s3"]);
    });
  },
);

test("a finished run is deleted: its states go, but for those that a fork grew from; copies have their own", async () => {
  await withEngine({ graphs: { steps: stepsGraph(3, () => undefined) } }, async (t) => {
    const { client, deps } = t;
    const { thread_id } = await client.threads.create();
    await wait(t, thread_id, "kept");
    const first = await wait(t, thread_id, "first");
    await moveThread(deps, keyOf(thread_id));
    const history = await client.threads.getHistory<Log>(thread_id);
    const copy = await client.threads.copy(thread_id);
    const copied = await client.threads.getHistory(copy.thread_id);
    // From the state after the first step of the run.
    const base = history.find(({ values, next }) => values.log.includes("first") && next[0] === "s2");
    const fork = await client.runs.create(thread_id, "steps", {
      input: null,
      checkpointId: base?.checkpoint.checkpoint_id ?? "",
    });
    await client.runs.join(thread_id, fork.run_id);
    const forked = await client.threads.getHistory<Log>(thread_id, { limit: 100 });
    await client.runs.delete(thread_id, first);
    await expect(client.runs.get(thread_id, first)).rejects.toMatchObject(gone());
    await until("the prune", async () => (await tickPruner(deps, { ...t.engine.edits, retention: null })) === 0);
    const after = await client.threads.getHistory<Log>(thread_id, { limit: 100 });
    expect(after.length).toBeLessThan(forked.length);
    const ids = new Set(after.map(({ checkpoint }) => checkpoint.checkpoint_id));
    expect(after).toEqual(forked.filter(({ checkpoint }) => ids.has(checkpoint.checkpoint_id)));
    // Whole back to the beginning.
    for (const { parent_checkpoint: parent } of after) if (parent) expect(ids).toContain(parent.checkpoint_id);
    expect(ids).toContain(base?.checkpoint.checkpoint_id);
    expect(await logOf(t, thread_id)).toEqual(["kept", "s1", "s2", "s3", "first", "s1", "s2", "s3"]);
    expect(await client.threads.getHistory(copy.thread_id)).toEqual(copied);
    // Taken back as well, the fork leaves what it grew from.
    await client.runs.delete(thread_id, fork.run_id);
    const head = await client.threads.getState<Log>(thread_id);
    expect(head.checkpoint.checkpoint_id).toBe(base?.checkpoint.checkpoint_id);
    await client.runs.wait(thread_id, "steps", { input: null });
    expect(await logOf(t, thread_id)).toEqual(["kept", "s1", "s2", "s3", "first", "s1", "s2", "s3"]);
  });
});

test("the only run of a thread is taken back with its question, and the thread begins anew", async () => {
  const acted: string[] = [];
  await withEngine({ graphs: { gate: gateGraph(acted) } }, async (t) => {
    const { client, app } = t;
    const { thread_id } = await client.threads.create();
    const { run_id } = await client.runs.create(thread_id, "gate", { input: { log: ["asked"] } });
    await client.runs.join(thread_id, run_id);
    await t.db.db.query("insert into budgets (tenant_id, scope, ref_id, max_cost) values ('default', 'run', $1, 1)", [
      run_id,
    ]);
    await client.runs.delete(thread_id, run_id);
    expect((await t.db.db.query("select 1 from budgets")).rows).toEqual([]);
    const open = (await (await app.request(`/v1/approvals?thread_id=${thread_id}`)).json()) as unknown[];
    expect(open).toEqual([]);
    expect(await client.threads.getHistory(thread_id)).toEqual([]);
    expect((await client.threads.get(thread_id)).status).toBe("idle");
    await client.runs.wait(thread_id, "gate", { input: { log: ["again"] } });
    const done = (await client.runs.wait(thread_id, "gate", { command: { resume: "yes" } })) as Log;
    expect(done.log).toEqual(["again", "q1:yes", "acted"]);
    expect(acted).toEqual(["q1:yes"]);
  });
});
