// Priorities: who goes first, what a tenant may ask for, and that the less urgent get their share whatever else comes.
import { Annotation, END, interrupt, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { limitsLs, limitsPriority } from "../../src/cli/limits.js";
import type { Priority } from "../../src/core/run.js";
import { type ClaimedRun, claimRuns } from "../../src/runs/claim.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";
import { until } from "../helpers/wait.js";

const graph = stepsGraph(1, () => undefined);
const say = (priority?: string) => ({
  input: { log: [] },
  ...(priority === undefined ? {} : { config: { configurable: { perdure: { priority } } } }),
});
const claim = ({ db }: TestEngine, slots: number): Promise<ClaimedRun[]> =>
  claimRuns(db.db, { slots, owner: "w", leaseMs: 60_000, graphIds: ["graph", "mails"], versions: ["1", "1"] });

/** So many runs that are ready, of a tenant. */
async function ready({ db }: TestEngine, n: number, priority: Priority, tenant = "default"): Promise<void> {
  await db.db.query("insert into tenants (tenant_id) values ($1) on conflict do nothing", [tenant]);
  await db.db.query(
    `with made as (
      insert into threads (tenant_id, thread_id, status)
      select $1, gen_random_uuid(), 'busy' from generate_series(1, $2::int)
      returning thread_id
    )
    insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, head, priority)
    select $1, gen_random_uuid(), thread_id, gen_random_uuid(), 'graph', true, $3 from made`,
    [tenant, n, priority],
  );
}

test("a stock client says how urgent a run is; graphs have defaults; the most urgent are claimed first", async () => {
  const policies = { mails: { priority: 3 } } as const;
  await withEngine({ graphs: { graph, mails: graph }, policies, workers: 0 }, async (t) => {
    const make = async (name: string, config: object) => (await t.client.runs.create(null, name, config)).run_id;
    const mail = await make("mails", say());
    const scheduled = await make("graph", say("scheduled"));
    const usual = await make("graph", say());
    const urgentMail = await make("mails", say("interactive"));
    const resumed = await make("graph", say("resumed"));
    const order: string[] = [];
    for (let n = 0; n < 5; n += 1) order.push((await claim(t, 1))[0]?.runId ?? "none");
    expect(order).toEqual([usual, urgentMail, resumed, scheduled, mail]);
  });
});

test("what is for the engine doesn't reach the graph; what can't be meant is refused by path", async () => {
  const seen: unknown[] = [];
  const State = Annotation.Root({ log: Annotation<string[]>() });
  const looking = new StateGraph(State)
    .addNode("look", (_state, { configurable }: LangGraphRunnableConfig) => (seen.push(configurable), {}))
    .addEdge(START, "look")
    .addEdge("look", END)
    .compile();
  await withEngine({ graphs: { graph: looking } }, async (t) => {
    await t.client.runs.wait(null, "graph", say("outreach"));
    expect(seen).toHaveLength(1);
    expect(seen[0]).not.toHaveProperty("perdure");
    for (const [own, message] of [
      [{ priority: "urgent" }, /422.*config\.configurable\.perdure\.priority/],
      [{ prio: "outreach" }, /422.*config\.configurable\.perdure.*prio/],
      ["outreach", /422.*config\.configurable\.perdure/],
    ] as const) {
      const config = { configurable: { perdure: own } };
      await expect(t.client.runs.create(null, "graph", { input: {}, config })).rejects.toThrow(message);
    }
  });
});

test("a tenant's runs are no more urgent than it may be: asked for by name it is refused, else lowered", async () => {
  await withEngine({ graphs: { graph }, workers: 0 }, async (t) => {
    const printed: string[] = [];
    const print = { line: (line: string) => void printed.push(line), note: () => undefined, json: true };
    await limitsPriority(t.deps, "default", "scheduled", print);
    const { thread_id } = await t.client.threads.create();
    const refused = t.client.runs.create(thread_id, "graph", say("interactive"));
    await expect(refused).rejects.toThrow(/403.*"interactive" is more urgent.*scheduled, outreach/);
    await t.client.runs.create(thread_id, "graph", say());
    await t.client.runs.create(thread_id, "graph", say());
    await t.client.runs.create(thread_id, "graph", say("outreach"));
    const { rows } = await t.db.db.query<{ priority: number }>("select priority from runs order by seq");
    expect(rows.map(({ priority }) => priority)).toEqual([2, 2, 3]);
    await limitsLs(t.deps, print);
    expect(printed.at(-1)).toContain('"best":"scheduled"');
    await expect(limitsPriority(t.deps, "nobody", "outreach", print)).rejects.toMatchObject({ code: "not_found" });
  });
});

test("an urgent flood leaves one claim in ten to each less urgent priority that waits, and no more", async () => {
  await withEngine({ graphs: { graph }, workers: 0 }, async (t) => {
    await ready(t, 150, 0);
    await ready(t, 5, 2, "small");
    await ready(t, 30, 3);
    const order: number[] = [];
    for (let n = 0; n < 100; n += 1) for (const { priority } of await claim(t, 1)) order.push(priority);
    const share = (priority: number, runs: readonly number[]) => runs.filter((each) => each === priority).length;
    expect(order.slice(0, 9)).toEqual(Array(9).fill(0));
    expect(share(2, order.slice(0, 60))).toBe(5);
    expect(share(3, order)).toBeGreaterThanOrEqual(9);
    expect(share(3, order)).toBeLessThanOrEqual(10);
    // A batch is shared alike.
    const batch = (await claim(t, 20)).map(({ priority }) => priority);
    expect([share(0, batch), share(3, batch)]).toEqual([18, 2]);
    // Nothing is kept free: when the urgent are done all slots are the others'.
    await claim(t, 100);
    expect(await claim(t, 10)).toHaveLength(0);
  });
});

test("the share is every tenant's in turn, and a limit of one is shared, too", async () => {
  await withEngine({ graphs: { graph }, workers: 0 }, async (t) => {
    await ready(t, 60, 0);
    for (const tenant of ["a", "b", "c"]) await ready(t, 2, 3, tenant);
    const tenants: string[] = [];
    for (let n = 0; n < 40; n += 1)
      for (const run of await claim(t, 1)) if (run.priority === 3) tenants.push(run.tenantId);
    expect(tenants.slice(0, 3).sort()).toEqual(["a", "b", "c"]);

    await t.db.db.query("delete from runs");
    await t.db.db.query("update tenants set max_running = 1 where tenant_id = 'a'");
    await ready(t, 30, 0, "a");
    await ready(t, 1, 3, "a");
    let claims = 0;
    for (let last: number | undefined = 0; last !== 3; claims += 1) {
      expect(claims).toBeLessThan(12);
      const runs = await claim(t, 10);
      expect(runs).toHaveLength(1);
      last = runs[0]?.priority;
      await t.db.db.query("delete from runs where status = 'running'");
    }
  });
});

test("a run's place in the queue says nothing of what it does: an input of priority resumed withdraws a question", async () => {
  const State = Annotation.Root({ log: Annotation<string[]>() });
  const asking = new StateGraph(State)
    .addNode("ask", () => ({ log: [String(interrupt("go on?"))] }))
    .addEdge(START, "ask")
    .addEdge("ask", END)
    .compile();
  await withEngine({ graphs: { graph: asking } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    await t.client.runs.wait(thread_id, "graph", say());
    await t.client.runs.wait(thread_id, "graph", say("resumed"));
    const { rows } = await t.db.db.query<{ status: string }>("select status from approvals order by asked_at");
    expect(rows.map(({ status }) => status)).toEqual(["withdrawn", "pending"]);
    // An answer is no more urgent than the run that asked.
    await t.db.db.query("update runs set priority = 3");
    const [approval] = (
      await t.db.db.query<{ id: string }>("select approval_id as id from approvals where status = 'pending'")
    ).rows;
    const answer = await t.app.request(`/v1/approvals/${approval?.id}/decide`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ value: "yes" }),
    });
    expect(answer.status, await answer.text()).toBeLessThan(300);
    await until("it to go on", async () => (await t.client.threads.get(thread_id)).status === "idle");
    const last = await t.db.db.query<{ priority: number; resumes: boolean }>(
      "select priority, resumes from runs order by seq desc limit 1",
    );
    expect(last.rows).toEqual([{ priority: 3, resumes: true }]);
  });
});
