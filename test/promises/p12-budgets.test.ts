// P12: a budget is a ceiling. What a call may take is reserved before it is made and settled with the answer; at the cap happens
// what was chosen before.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { type BudgetPolicy, NO_BUDGET, NO_LIMITS } from "../../src/core/budget.js";
import type { RunPolicy } from "../../src/core/policy.js";
import { askingGraph, HELLO } from "../helpers/asking-graph.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { type Provider, startProvider } from "../helpers/provider.js";
import { until } from "../helpers/wait.js";

/** What the stand-in says of each call: 100 in, 50 out. */
const TOKENS = 150;
/** What is reserved for one: "hello" or two messages in, and the 200 out that the graph allows. */
const MOST_RESERVED = 220;

async function withBudget(
  budget: Partial<BudgetPolicy>,
  work: (t: TestEngine, provider: Provider) => Promise<void>,
  options: Readonly<{ workers?: number; concurrency?: number; policy?: Partial<RunPolicy> }> = {},
): Promise<void> {
  const provider = await startProvider();
  const policies = { graph: { ...options.policy, budget: { ...NO_BUDGET, ...budget } } };
  const { workers = 1, concurrency = 10 } = options;
  try {
    const graphs = { graph: askingGraph(provider.url) };
    await withEngine({ graphs, policies, workers, concurrency }, (t) => work(t, provider));
  } finally {
    await provider.close();
  }
}

const limits = (scope: "run" | "thread" | "day", tokens: number) => ({
  limits: { ...NO_BUDGET.limits, [scope]: { ...NO_LIMITS, tokens } },
});

async function request(t: TestEngine, method: string, path: string, body?: object) {
  const headers = { "content-type": "application/json", accept: "application/json" };
  const response = await t.app.request(path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

type Record_ = { cost_so_far: number | null; token_so_far: number; budget: unknown; needs_attention: unknown };
async function record(t: TestEngine, thread_id: string, run_id: string): Promise<Record_> {
  return (await request(t, "GET", `/threads/${thread_id}/runs/${run_id}/record`)).body as Record_;
}

async function run(t: TestEngine, thread_id: string) {
  const { run_id } = await t.client.runs.create(thread_id, "graph", { input: HELLO });
  const values = (await t.client.runs.join(thread_id, run_id)) as Record<string, unknown>;
  const { status } = await t.client.runs.get(thread_id, run_id);
  return { thread_id, run_id, values, status };
}

test("fifty runs that race for one budget spend no more than it allows, with two workers", async () => {
  const budget = 10 * TOKENS + MOST_RESERVED;
  await withBudget(
    limits("day", budget),
    async (t, provider) => {
      provider.slow(20);
      const runs = await Promise.all(
        Array.from({ length: 50 }, async () => run(t, (await t.client.threads.create()).thread_id)),
      );
      const done = runs.filter(({ status }) => status === "success");
      expect(done.length).toBe(provider.answered());
      expect(provider.tokens()).toBeLessThanOrEqual(budget);
      // Nor is it wasted: what wasn't needed in the end can be spent by those that come later.
      const later = await run(t, (await t.client.threads.create()).thread_id);
      while (later.status === "success" && (await run(t, later.thread_id)).status === "success");
      expect(provider.tokens()).toBeLessThanOrEqual(budget);
      expect(provider.tokens()).toBeGreaterThan(budget - MOST_RESERVED - TOKENS);
      const { rows } = await t.db.db.query<{ tokens: number }>(
        "select sum(tokens)::int as tokens from model_calls where status = 'settled'",
      );
      expect(rows[0]?.tokens).toBe(provider.tokens());
    },
    { workers: 2 },
  );
}, 60_000);

test("at the cap a run waits for a person, asks no model, and goes on where it was when it is raised", async () => {
  await withBudget(limits("thread", 300), async (t, provider) => {
    const { thread_id } = await t.client.threads.create();
    const first = await run(t, thread_id);
    expect(first.status).toBe("success");
    const second = await run(t, thread_id);
    expect(second.values).toMatchObject({ __error__: { error: "BudgetExceeded" } });
    expect(provider.asked()).toBe(1);
    const parked = await record(t, thread_id, second.run_id);
    expect(parked).toMatchObject({
      token_so_far: 0,
      needs_attention: { code: "budget_exceeded", last_step: "ask" },
      budget: { at_cap: "park", limits: [{ scope: "thread", limits: { tokens: 300 }, spent: { tokens: TOKENS } }] },
    });

    const raised = await request(t, "PUT", `/v1/budgets/thread/${thread_id}`, { tokens: 1_000 });
    expect(raised).toMatchObject({ status: 200, body: { scope: "thread", tokens: 1_000, cost: null } });
    const { body } = await request(t, "POST", `/v1/runs/${second.run_id}/retry`);
    const { messages } = (await t.client.runs.join(thread_id, String(body.run_id))) as { messages: unknown[] };
    expect(messages).toHaveLength(4);
    expect(await record(t, thread_id, String(body.run_id))).toMatchObject({ token_so_far: TOKENS });
    expect((await request(t, "GET", "/v1/budgets")).body).toMatchObject([{ ref_id: thread_id }]);
  });
});

test("at the cap a run ends with what there is, if that was chosen, and says that it did", async () => {
  const finish = { ...limits("run", 100), atCap: "finish" } as const;
  const work = async (t: TestEngine, provider: Provider) => {
    // As of one process, which hands results over.
    t.startWorker({ withApi: true });
    const { thread_id } = await t.client.threads.create();
    const { values, status, run_id } = await run(t, thread_id);
    expect(status).toBe("success");
    expect(values.messages).toHaveLength(1);
    expect(provider.asked()).toBe(0);
    const { rows } = await t.db.db.query<{ type: string }>("select type from events where run_id = $1", [run_id]);
    expect(rows.map(({ type }) => type)).toContain("budget.exceeded");

    const why = { ended_by: "budget_exceeded" };
    expect(await record(t, thread_id, run_id)).toMatchObject({ ...why, error: null, needs_attention: null });
    expect(await t.client.runs.get(thread_id, run_id)).toMatchObject({ status: "success", ...why });
    const told: unknown[] = [];
    for await (const { event, data } of t.client.runs.joinStream(thread_id, run_id, { lastEventId: "-1" }))
      if (event === "metadata") told.push(data);
    expect(told).toEqual([
      { run_id, attempt: 1 },
      { run_id, attempt: 1, ...why },
    ]);
    expect(await t.client.runs.wait(thread_id, "graph", { input: HELLO })).toMatchObject({ messages: [{}, {}] });
  };
  await withBudget(finish, work, { workers: 0 });
});

test("a budget for a run that isn't there is refused; one for a thread that isn't there yet holds once it is", async () => {
  await withBudget({}, async (t, provider) => {
    const id = randomUUID();
    const set = (scope: string) => request(t, "PUT", `/v1/budgets/${scope}/${id}`, { tokens: 1 });
    expect(await set("run")).toMatchObject({ status: 404, body: { detail: expect.stringContaining(id) as unknown } });
    expect(await set("thread")).toMatchObject({ status: 200, body: { exists: false } });
    const { run_id } = await t.client.runs.create(id, "graph", { input: HELLO, ifNotExists: "create" });
    await t.client.runs.join(id, run_id);
    expect(await record(t, id, run_id)).toMatchObject({ needs_attention: { code: "budget_exceeded" }, ended_by: null });
    expect(provider.asked()).toBe(0);
    expect(await set("thread")).toMatchObject({ body: { exists: true } });
    expect((await request(t, "GET", "/v1/budgets")).body).toMatchObject([{ scope: "thread", ref_id: id }]);
  });
});

test("at the cap a run goes on with the cheaper model, if that was chosen, and parks when that doesn't fit either", async () => {
  const cost = { limits: { ...NO_BUDGET.limits, run: { ...NO_LIMITS, cost: 0.01 } } };
  await withBudget({ ...cost, atCap: "model", cheaperModel: "cheap" }, async (t, provider) => {
    await request(t, "PUT", "/v1/prices/claude-stand-in", { input_cost: 1_000, output_cost: 1_000 });
    await request(t, "PUT", "/v1/prices/cheap", { input_cost: 1, output_cost: 1 });
    const fits = await run(t, (await t.client.threads.create()).thread_id);
    expect(fits).toMatchObject({
      status: "success",
      values: { messages: [{}, { response_metadata: { model: "cheap" } }] },
    });
    expect(await record(t, fits.thread_id, fits.run_id)).toMatchObject({ model: "cheap", token_so_far: TOKENS });
    await request(t, "PUT", "/v1/prices/cheap", { input_cost: 500, output_cost: 500 });
    const parks = await run(t, (await t.client.threads.create()).thread_id);
    const { needs_attention } = await record(t, parks.thread_id, parks.run_id);
    expect(needs_attention).toMatchObject({ code: "budget_exceeded", attempts: 2, failures: 0, crashes: 0 });
    expect(provider.asked()).toBe(1);
  });
});

test("costs are what tokens cost by the prices that were set; a model without a price counts by its tokens", async () => {
  await withBudget(limits("run", 1_000), async (t) => {
    const unpriced = await run(t, (await t.client.threads.create()).thread_id);
    expect(await record(t, unpriced.thread_id, unpriced.run_id)).toMatchObject({
      cost_so_far: 0,
      token_so_far: TOKENS,
      budget: { unpriced_models: ["claude-stand-in"] },
    });
    await request(t, "PUT", "/v1/prices/claude-stand", { input_cost: 10, output_cost: 20 });
    const priced = await run(t, (await t.client.threads.create()).thread_id);
    expect((await record(t, priced.thread_id, priced.run_id)).cost_so_far).toBeCloseTo(0.002, 9);
  });
});

test("steps and active time of a run end it before its next call; bad budgets are refused by name", async () => {
  const of = (limit: object) => ({ limits: { ...NO_BUDGET.limits, run: { ...NO_LIMITS, ...limit } } });
  for (const [limit, asked] of [
    [{ steps: 1 }, 0],
    [{ steps: 2 }, 1],
    [{ activeMs: 0 }, 0],
    [{ activeMs: 60_000 }, 1],
  ] as const) {
    await withBudget(of(limit), async (t, provider) => {
      await run(t, (await t.client.threads.create()).thread_id);
      expect(provider.asked(), JSON.stringify(limit)).toBe(asked);
      const id = (await t.client.threads.create()).thread_id;
      for (const [path, body, message] of [
        [`thread/${id}`, { steps: 1 }, "steps, active_ms"],
        [`run/${id}`, { tokens: -1 }, "tokens"],
        ["run/x", {}, "must be a UUID"],
        ["month/x", {}, "scope"],
      ] as const) {
        const refused = await request(t, "PUT", `/v1/budgets/${path}`, body);
        expect(refused.status).toBe(422);
        expect(JSON.stringify(refused.body)).toContain(message);
      }
    });
  }
});

test("a run without a budget says what it took as its messages do", async () => {
  await withBudget({}, async (t) => {
    const { thread_id, run_id } = await run(t, (await t.client.threads.create()).thread_id);
    expect(await record(t, thread_id, run_id)).toMatchObject({ token_so_far: TOKENS, cost_so_far: null, budget: null });
    const { rows } = await t.db.db.query("select 1 from model_calls");
    expect(rows).toEqual([]);
  });
});

test("what a provider refused is free again; a zombie reserves nothing; a deleted thread's calls still count today", async () => {
  await withBudget(limits("day", 10_000), async (t, provider) => {
    provider.break({ status: 400, type: "invalid_request_error" });
    const refused = await run(t, (await t.client.threads.create()).thread_id);
    expect(refused.status).toBe("error");
    const sums = async () =>
      (await t.db.db.query<{ status: string; tokens: number }>("select status, tokens::int from model_calls")).rows;
    expect(await sums()).toEqual([{ status: "released", tokens: 0 }]);
    provider.break(undefined);
    const { thread_id } = await run(t, (await t.client.threads.create()).thread_id);
    await t.client.threads.delete(thread_id);
    expect((await sums()).map(({ status }) => status).sort()).toEqual(["released", "settled"]);

    provider.slow(2_000);
    const { run_id, ...frozen } = await t.client.runs.create((await t.client.threads.create()).thread_id, "graph", {
      input: HELLO,
    });
    await until("the call", () => provider.asked() === 3);
    // As if another worker had it: the answer of this one settles nothing.
    await t.db.db.query("update runs set attempt = attempt + 1 where run_id = $1", [run_id]);
    await until("the answer", () => provider.answered() === 2, { timeoutMs: 10_000 });
    await until("the lost attempt to end", async () => {
      const { rows } = await t.db.db.query("select 1 from model_calls where run_id = $1 and status = 'reserved'", [
        run_id,
      ]);
      return rows.length === 1;
    });
    await t.client.runs.cancel(frozen.thread_id, run_id);
  });
});
