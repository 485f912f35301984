// What is left behind: nothing of a run that ended, however it ended, and no timer that is long over.
import { Annotation, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { createScheduler } from "../../src/engine/loops/scheduler.js";
import { claimRuns } from "../../src/runs/claim.js";
import { noteKilled } from "../../src/runs/failures.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";
import { until } from "../helpers/wait.js";

const dueTimers = async ({ db }: TestEngine) =>
  (await db.db.query<{ kind: string }>("select kind from timers where status = 'due' order by kind")).rows.map(
    ({ kind }) => kind,
  );

const rowsOf = async ({ db }: TestEngine, table: string) =>
  (await db.db.query<{ n: number }>(`select count(*)::int as n from ${table}`)).rows[0]?.n;

async function cancelled({ app, client }: TestEngine): Promise<void> {
  const { run_id, thread_id } = await client.runs.create(null, "graph", { input: { log: ["secret"] } });
  const response = await app.request(`/threads/${thread_id}/runs/${run_id}/cancel`, { method: "POST" });
  expect(response.status).toBe(202);
}

async function givenUpAndClosed(t: TestEngine): Promise<void> {
  const { run_id } = await t.client.runs.create(null, "graph", { input: { log: ["secret"] } });
  for (let crash = 1; crash <= 3; crash += 1) {
    const claim = { slots: 1, owner: "dead", leaseMs: 60_000, graphIds: ["graph"], versions: ["1"] };
    const [run] = await claimRuns(t.db.db, claim);
    await noteKilled(t.db.db, { ...run!, owner: "dead" });
    await until("the sweeper to find it", async () => (await t.sweep()) === 1);
  }
  // As long as a person has to decide about it, it stays.
  expect(await dueTimers(t)).toEqual(["move"]);
  await t.move();
  expect((await t.app.request(`/v1/runs/${run_id}/close`, { method: "POST" })).status).toBe(200);
}

test.each([
  ["cancelled", cancelled],
  ["given up, and closed by a person,", givenUpAndClosed],
])("a stateless run that is %s goes with its thread and its content", async (_how, end) => {
  await withEngine({ graphs: { graph: stepsGraph(1, () => {}) }, workers: 0 }, async (t) => {
    await end(t);
    expect(await dueTimers(t)).toEqual(["thread.delete"]);
    await t.db.db.query("update timers set due_at = now() where status = 'due'");
    await t.fireTimers();
    for (const table of ["threads", "runs", "events", "stream_chunks"]) expect(await rowsOf(t, table)).toBe(0);
    expect(await dueTimers(t)).toEqual([]);
  });
});

test("timers that fired or were cancelled are forgotten after a week", async () => {
  await withEngine({ graphs: {}, workers: 0 }, async (t) => {
    for (const [status, days] of [
      ["fired", 8],
      ["cancelled", 8],
      ["fired", 6],
      ["due", 8],
    ] as const) {
      await t.db.db.query(
        `insert into timers (tenant_id, timer_id, kind, ref_id, status, due_at, updated_at)
        values ('default', gen_random_uuid(), 'other', gen_random_uuid(), $1, now(), now() - $2 * interval '1 day')`,
        [status, days],
      );
    }
    const scheduler = createScheduler({ ...t.deps, random: () => 0 }, { pollMs: 10 });
    scheduler.start();
    await until("two timers", async () => (await rowsOf(t, "timers")) === 2);
    await scheduler.stop();
  });
});

test("a thread deleted under a running run: the run stops, and nothing it still does is stored", async () => {
  let stopped = false;
  const doors: (() => void)[] = [];
  const graph = new StateGraph(Annotation.Root({ log: Annotation<string[]> }))
    .addNode("one", async (_state, config: LangGraphRunnableConfig) => {
      config.signal?.addEventListener("abort", () => (stopped = true));
      await new Promise<void>((resolve) => doors.push(resolve));
      config.writer?.({ late: "event" });
      return { log: ["late"] };
    })
    .addEdge(START, "one")
    .compile();
  await withEngine({ graphs: { graph } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    await t.client.runs.create(thread_id, "graph", { input: { log: [] }, streamMode: ["values", "custom"] });
    await until("the node", () => doors.length === 1);
    await t.client.threads.delete(thread_id);
    await until("the abort", () => stopped);
    doors[0]?.();
    // The worker is free again: it takes and ends another run.
    const other = await t.client.threads.create();
    const next = t.client.runs.wait(other.thread_id, "graph", { input: { log: [] } });
    await until("the other node", () => doors.length === 2);
    doors[1]?.();
    await next;
    const tables = [
      "threads",
      "runs",
      "events",
      "checkpoints",
      "checkpoint_writes",
      "channel_versions",
      "staged_bodies",
    ];
    for (const table of tables) {
      const { rows } = await t.db.db.query(`select 1 from ${table} where thread_id = $1`, [thread_id]);
      expect(rows, table).toEqual([]);
    }
    const { rows } = await t.db.db.query("select 1 from stream_chunks where run_id not in (select run_id from runs)");
    expect(rows).toEqual([]);
  });
});
