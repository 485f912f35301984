// The research pipeline by itself, without perdure: fan-out, the step that fails, and the fork that repairs it.
import type { StateSnapshot } from "@langchain/langgraph";
import { beforeAll, expect, test } from "vitest";
import { type Graph, loadInMemory } from "./load.js";

let graph: Graph;
beforeAll(async () => {
  graph = await loadInMemory("research");
});

async function history(thread: string): Promise<StateSnapshot[]> {
  const snapshots: StateSnapshot[] = [];
  for await (const snapshot of graph.getStateHistory({ configurable: { thread_id: thread } })) snapshots.push(snapshot);
  return snapshots;
}

test("it looks into every topic at once and reports", async () => {
  const input = { question: "Why do otters hold hands?" } as never;
  const state = await graph.invoke(input, { configurable: { thread_id: "plain" } });
  expect(state).toMatchObject({
    topics: ["biology", "behaviour"],
    findings: { biology: { year: 2019 }, behaviour: { year: 2019 } },
    report: expect.stringContaining("There is a good answer in behaviour (Handbook of behaviour, 2019)"),
  });
  const steps = (await history("plain")).map((snapshot) => snapshot.next);
  expect(steps).toEqual([
    [],
    ["write_report"],
    ["check_sources"],
    ["investigate", "investigate"],
    ["plan"],
    ["__start__"],
  ]);
});

test("a source without a year stops it, and a fork from the checkpoint before goes on with the year put in", async () => {
  const config = { configurable: { thread_id: "folklore" } };
  const input = { question: "Why do otters hold hands, and what does folklore say?" } as never;
  await expect(graph.invoke(input, config)).rejects.toThrow('The source on "folklore" has no year');

  const [lastGood] = await history("folklore");
  expect(lastGood?.next).toEqual(["check_sources"]);
  const finding = (lastGood?.values as { findings: Record<string, object> }).findings["folklore"];
  const edit = { findings: { folklore: { ...finding, year: 1911 } } } as never;
  const fork = await graph.updateState(lastGood?.config ?? config, edit, "investigate");
  const state = await graph.invoke(null, fork);
  expect(state).toMatchObject({ report: expect.stringContaining("(Tales of the Coast, 1911)") });
});
