// Limits hold exactly, whoever claims; and nobody is starved by whoever has more to do.
import { expect, test } from "vitest";
import { limitsLs, limitsSet } from "../../src/cli/limits.js";
import type { TenantId } from "../../src/core/ids.js";
import { encodeRequest, type RunRequest } from "../../src/engine/commands/request.js";
import { claimRuns } from "../../src/runs/claim.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";
import { size } from "../helpers/soak.js";
import { until } from "../helpers/wait.js";

const REQUEST: RunRequest = {
  ...{ input: { log: [] }, command: null, config: {}, context: null, checkpoint: null },
  ...{
    interrupt_before: null,
    interrupt_after: null,
    stream_mode: ["values"],
    stream_subgraphs: false,
    watched: false,
  },
};
const printed: string[] = [];
const print = { line: (text: string) => void printed.push(text), note: () => undefined, json: true };

/** Whoever starts and ends a node, counted: how many there were at once at most. */
function counted() {
  const now = { running: 0, most: 0, done: 0 };
  const graph = stepsGraph(1, async () => {
    now.running += 1;
    now.most = Math.max(now.most, now.running);
    await new Promise((resolve) => setTimeout(resolve, 15));
    now.running -= 1;
    now.done += 1;
  });
  return { now, graph };
}

async function runMany({ client }: TestEngine, graph: string, n: number): Promise<void> {
  await Promise.all(Array.from({ length: n }, () => client.runs.wait(null, graph, { input: { log: [] } })));
}

test("four claiming workers never exceed a tenant's limit of one, nor a graph's; lifted, they work at once", async () => {
  const [one, two] = [counted(), counted()];
  await withEngine({ graphs: { one: one.graph, two: two.graph }, workers: 4, pollMs: 50 }, async (t) => {
    await limitsSet(t.deps, { of: "tenant", id: "default", max: 1 }, print);
    let most = 0;
    const sample = setInterval(() => {
      const running = "select count(*) as n from runs where status = 'running'";
      void t.db.db.query<{ n: number }>(running).then(({ rows }) => (most = Math.max(most, rows[0]?.n ?? 0)));
    }, 5);
    await Promise.all([runMany(t, "one", 20), runMany(t, "two", 20)]);
    clearInterval(sample);
    expect([most, one.now.most, two.now.most]).toEqual([1, 1, 1]);
    expect(one.now.done + two.now.done).toBe(40);

    await limitsSet(t.deps, { of: "tenant", id: "default", max: "none" }, print);
    await limitsSet(t.deps, { of: "graph", id: "two", max: 2 }, print);
    [one.now.most, two.now.most] = [0, 0];
    await Promise.all([runMany(t, "one", 20), runMany(t, "two", 20)]);
    expect(two.now.most).toBeLessThanOrEqual(2);
    expect(one.now.most).toBeGreaterThan(2);
    printed.length = 0;
    await limitsLs(t.deps, print);
    expect(JSON.parse(printed[0] ?? "")).toMatchObject([
      { of: "tenant", id: "default", max: "none", running: 0 },
      { of: "graph", id: "two", max: 2, running: 0 },
    ]);
    await expect(limitsSet(t.deps, { of: "tenant", id: "nobody", max: 1 }, print)).rejects.toMatchObject({
      code: "not_found",
    });
  });
});

test("a tenant that floods the queue takes no turn of another's: its run is among the next that are claimed", async () => {
  await withEngine({ graphs: { steps: stepsGraph(1, () => undefined) }, workers: 0 }, async (t) => {
    const { db } = t.db;
    await Promise.all(Array.from({ length: 200 }, () => t.client.runs.create(null, "steps", { input: { log: [] } })));
    await db.query("insert into tenants (tenant_id) values ('small')");
    const [first] = (await db.query<{ id: string }>("select run_id as id from runs limit 1")).rows;
    // The run of the other tenant comes last of all.
    await db.query("insert into threads (tenant_id, thread_id) select 'small', thread_id from runs where run_id = $1", [
      first?.id,
    ]);
    await db.query(
      `insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, head)
      select 'small', gen_random_uuid(), thread_id, assistant_id, graph_id, true from runs where run_id = $1`,
      [first?.id],
    );
    const claim = { slots: 2, owner: "w", leaseMs: 10_000, graphIds: ["steps"], versions: ["v"] };
    const tenants = (await claimRuns(db, claim)).map(({ tenantId }) => tenantId);
    expect(tenants.sort()).toEqual(["default", "small"] as TenantId[]);
  });
});

test("limits of langgraph.json hold over four workers; what was set by hand wins, until it is given back", async () => {
  const [one, two] = [counted(), counted()];
  const options = { graphs: { one: one.graph, two: two.graph }, workers: 4, pollMs: 50 };
  const policies = { one: { maxRunning: 2 }, two: { maxRunning: 1 } };
  await withEngine({ ...options, policies, maxRunningPerTenant: 2 }, async (t) => {
    const most = async (n: number): Promise<number[]> => {
      [one.now.most, two.now.most] = [0, 0];
      await Promise.all([runMany(t, "one", n), runMany(t, "two", n)]);
      return [one.now.most, two.now.most];
    };
    const [ofOne = 0, ofTwo = 0] = await most(15);
    expect([ofOne <= 2, ofTwo]).toEqual([true, 1]);
    await limitsSet(t.deps, { of: "tenant", id: "default", max: 1 }, print);
    expect(await most(10)).toEqual([1, 1]);
    await limitsSet(t.deps, { of: "tenant", id: "default", max: "none" }, print);
    await limitsSet(t.deps, { of: "graph", id: "two", max: "none" }, print);
    const [, free = 0] = await most(15);
    expect(free).toBeGreaterThan(1);
    await limitsSet(t.deps, { of: "graph", id: "two", max: "default" }, print);
    expect((await most(15))[1]).toBe(1);
  });
});

/** In full: PERDURE_SOAK=1. */
const FLOOD = { runs: size(300, 10_000), takesMs: size(150, 2_000) };

test("slots full, and another tenant floods the queue: a run that comes then starts with the next free slot", async () => {
  const started: string[] = [];
  const graph = stepsGraph(1, async () => {
    await new Promise((resolve) => setTimeout(resolve, FLOOD.takesMs));
  });
  await withEngine({ graphs: { steps: graph }, workers: 1, concurrency: 4, pollMs: 50 }, async (t) => {
    const { db } = t.db;
    await db.query("insert into tenants (tenant_id) values ('flooding'), ('small')");
    const add = (tenant: string, n: number) =>
      db.query(
        `with made as (
          insert into threads (tenant_id, thread_id, status)
          select $1, gen_random_uuid(), 'busy' from generate_series(1, $2::int)
          returning thread_id
        )
        insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, head, request)
        select $1, gen_random_uuid(), thread_id, gen_random_uuid(), 'steps', true, $3 from made`,
        [tenant, n, encodeRequest(REQUEST)],
      );
    await add("flooding", FLOOD.runs);
    t.deps.notifier.notify("runs");
    const running =
      "select tenant_id as tenant, started_at as at from runs where started_at is not null order by started_at";
    const starts = async () => (await db.query<{ tenant: string; at: Date }>(running)).rows;
    await until("the slots to be full", async () => (await starts()).length >= 4);
    const before = (await starts()).length;
    await add("small", 1);
    await until("its run to start", async () => (await starts()).some(({ tenant }) => tenant === "small"));
    started.push(...(await starts()).map(({ tenant }) => tenant));
    // Those that began meanwhile had their slots before it came, or took them in the same claim.
    expect(started.slice(before).indexOf("small")).toBeLessThanOrEqual(4);
    await db.query("delete from runs where status = 'pending'");
  });
});
