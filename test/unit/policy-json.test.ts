// What langgraph.json says of failures, time limits and budgets: for all graphs, and for one.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../src/core/policy.js";
import { readProject } from "../../src/engine/langgraph-json.js";

async function read(perdure: unknown) {
  const dir = await mkdtemp(path.join(os.tmpdir(), "perdure-policy-"));
  try {
    const file = path.join(dir, "langgraph.json");
    await writeFile(file, JSON.stringify({ graphs: { a: "./a.ts:graph", b: "./b.ts:graph" }, perdure }));
    return (await readProject(file)).settings.policyOf;
  } finally {
    await rm(dir, { recursive: true });
  }
}

test("a graph's own settings win over those for all, and those over the defaults", async () => {
  const policyOf = await read({
    maxAttempts: 5,
    mergeWindow: "800ms",
    priority: "scheduled",
    maxRunning: 4,
    timeouts: { tool: "30s", model: "2m" },
    budgets: { run: { cost: 0.5, activeTime: "10m" }, atCap: "finish" },
    undeclaredTools: "ask",
    graphs: {
      b: { mode: "edge", undeclaredTools: "retry", timeouts: { tool: "5s" }, budgets: { day: { tokens: 7 } } },
    },
  });
  const timeouts = { toolMs: 30_000, modelMs: 120_000, betweenTokensMs: null };
  expect(policyOf("a")).toMatchObject({ mode: "durable", maxAttempts: 5, timeouts, budget: { atCap: "finish" } });
  expect([policyOf("a").undeclaredTools, policyOf("b").undeclaredTools]).toEqual(["ask", "retry"]);
  expect([policyOf("a").maxRunning, policyOf("b").maxRunning]).toEqual([4, 4]);
  expect([policyOf("a").priority, (await read({}))("a").priority]).toEqual([2, null]);
  expect([policyOf("a").mergeWindowMs, policyOf("b").mergeWindowMs]).toEqual([800, 800]);
  expect(policyOf("a").budget.limits.run).toEqual({ cost: 0.5, tokens: null, steps: null, activeMs: 600_000 });
  expect(policyOf("b")).toMatchObject({ mode: "edge", maxAttempts: 5, timeouts: { ...timeouts, toolMs: 5_000 } });
  expect(policyOf("b").budget).toMatchObject({ atCap: "park", limits: { run: { cost: null }, day: { tokens: 7 } } });
  expect((await read({}))("a")).toEqual(DEFAULT_POLICY);
});

test.each([
  [{ maxAttempt: 3 }, 'did you mean "perdure.maxAttempts"?'],
  [{ graphs: { b: { outagePatence: "1d" } } }, 'did you mean "perdure.graphs.b.outagePatience"?'],
  [{ graphs: { c: {} } }, '"perdure.graphs" names "c", which "graphs" doesn\'t have'],
  [{ maxRuning: 3 }, 'did you mean "perdure.maxRunning"?'],
  [{ maxRunningPerTenant: -1 }, '"perdure.maxRunningPerTenant"'],
  [{ mergeWindow: "2m" }, '"perdure.mergeWindow": must not be longer than 60s'],
  [{ timeouts: { tool: "30" } }, '"perdure.timeouts.tool": must be a length of time'],
  [{ budgets: { atCap: "model" } }, '"atCap": "model" and "cheaperModel" go together'],
])("%j is refused by name", async (perdure, message) => {
  await expect(read(perdure)).rejects.toThrow(message);
});
