// What a graph gives out without keeping it in its state is in its run's result, whoever asks and whichever attempt ended it.
import { ReducedValue, START, StateGraph, StateSchema, UntrackedValue } from "@langchain/langgraph";
import { createAgent, tool, toolStrategy } from "langchain";
import { expect, inject, test } from "vitest";
import { z } from "zod";
import { createTestEngine, scriptedModel } from "../../src/testing.js";
import { withEngine } from "../helpers/engine.js";
import { GO } from "../helpers/tool-agent.js";
import { until } from "../helpers/wait.js";

const ANSWER = { total: 5, lines: [{ name: "räder", cents: 499 }] };
const Answer = z.object({ total: z.number(), lines: z.array(z.object({ name: z.string(), cents: z.number() })) });

function structuredAgent() {
  const look = tool(async () => "seen", { name: "look", description: "looks", schema: z.object({}) });
  return createAgent({
    model: scriptedModel([
      { toolCalls: [{ name: "look", args: {} }] },
      { toolCalls: [{ name: "Answer", args: ANSWER }] },
    ]),
    tools: [look],
    responseFormat: toolStrategy(Answer.meta({ title: "Answer" })),
  });
}

test("an agent's structured response is in its run's result: waited for, joined later, after the move, without a thread", async () => {
  const graphs = { agent: structuredAgent(), edge: structuredAgent() };
  await withEngine({ graphs, policies: { edge: { mode: "edge" } } }, async ({ client, move }) => {
    for (const graphId of ["agent", "edge"]) {
      const { thread_id } = await client.threads.create();
      const waited = await client.runs.wait(thread_id, graphId, { input: GO });
      expect(waited).toMatchObject({ structuredResponse: ANSWER });
      expect(await client.runs.wait(null, graphId, { input: GO })).toMatchObject({ structuredResponse: ANSWER });
      await until("all to be moved", async () => (await move()) === 0);
      const [run] = await client.runs.list(thread_id);
      expect(await client.runs.join(thread_id, run!.run_id)).toEqual(waited);
      // It is no part of the state, as LangGraph says, and nothing of it is left for the next turn.
      expect(Object.keys((await client.threads.getState<object>(thread_id)).values)).toEqual(["messages"]);
    }
  });
});

test("a worker that dies behind the last step leaves the structured response to the attempt that ends the run", async () => {
  const engine = await createTestEngine({ graphs: { agent: structuredAgent() }, databaseUrl: inject("databaseUrl") });
  try {
    const died = engine.crashAt("settling");
    const waited = engine.client.runs.wait(null, "agent", { input: GO });
    await died;
    expect(await waited).toMatchObject({ structuredResponse: ANSWER });
  } finally {
    await engine.close();
  }
});

test("what lives is given to nodes as ever, is no part of a result, and takes nothing from a run", async () => {
  class Connection {
    readonly self = this;
    constructor(readonly open: () => string) {}
  }
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  const untracked = <T>() => new UntrackedValue<T>();
  const State = new StateSchema({
    log: new ReducedValue(
      z.array(z.string()).default(() => []),
      { reducer: (a: string[], b: string[]) => [...a, ...b] },
    ),
    connection: untracked<Connection>(),
    circle: untracked<unknown>(),
    total: untracked<number>(),
  });
  const graph = new StateGraph(State)
    .addNode("open", () => ({ connection: new Connection(() => "open"), circle, total: 7 }))
    .addNode("use", ({ connection }) => ({ log: [connection?.open() ?? "closed"] }))
    .addEdge(START, "open")
    .addEdge("open", "use")
    .compile();
  await withEngine({ graphs: { graph } }, async ({ client }) => {
    const result = await client.runs.wait(null, "graph", { input: { log: [] } });
    expect(result).toEqual({ log: ["open"], total: 7 });
  });
});
