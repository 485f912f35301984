// The setting "followups": a graph has the four tools of follow-ups, or isn't started.
import type { AIMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { createAgent, createMiddleware, tool } from "langchain";
import { expect, it } from "vitest";
import { z } from "zod";
import { policiesFrom } from "../../src/core/policy.js";
import { graphsFrom } from "../../src/engine/graphs.js";
import { scriptedModel, type ScriptedModel } from "../../src/testing/scripted-model.js";
import { followupTools, scheduleFollowup } from "../../src/tools.js";
import { withEngine } from "../helpers/engine.js";

const policyOf = policiesFrom({ agent: { followups: true } });
const FOUR = ["schedule_followup", "list_followups", "cancel_followup", "reschedule_followup"];
const look = tool(() => "it rains", { name: "look", description: "Looks out", schema: z.object({}) });

/** Notes which tools it is bound to. */
function listening(steps: Parameters<typeof scriptedModel>[0]) {
  const model = scriptedModel(steps);
  const bound: string[][] = [];
  const bindTools = (tools: readonly { name: string }[]): ScriptedModel => {
    bound.push(tools.map(({ name }) => name));
    return model;
  };
  return { model: Object.assign(model, { bindTools }), bound };
}

function withToolNode(tools: ConstructorParameters<typeof ToolNode>[0]) {
  return new StateGraph(MessagesAnnotation)
    .addNode("model", () => ({ messages: [] }))
    .addNode("tools", new ToolNode(tools))
    .addEdge(START, "model")
    .addConditionalEdges("model", ({ messages }) => ((messages.at(-1) as AIMessage).tool_calls?.length ? "tools" : END))
    .addEdge("tools", "model")
    .compile();
}

it("an agent of createAgent gets the four tools, its model as well, with its code as it is", async () => {
  const args = { about: "rain", instruction: "Take a coat", mode: "remind", when: { in: "P1D" } };
  const steps = [{ toolCalls: [{ name: "schedule_followup", args }] }, { text: "I'll tell you tomorrow." }];
  const { model, bound } = listening(steps);
  const seen = createMiddleware({
    name: "Seen",
    wrapModelCall: (request, handler) =>
      handler({ ...request, systemPrompt: `${request.systemPrompt ?? ""} Be kind.` }),
  });
  const agent = createAgent({ model, tools: [look], middleware: [seen], systemPrompt: "You help." });
  const own = agent.withConfig({ metadata: { team: "weather" } });
  await withEngine(
    { graphs: { agent: own }, policies: { agent: { followups: true } } },
    async ({ client, deps: { db } }) => {
      const { thread_id } = await client.threads.create();
      const input = { messages: [{ role: "user", content: "Will it rain?" }] };
      await client.runs.wait(thread_id, "agent", { input });
      expect(bound.at(-1)?.sort()).toEqual(["look", ...FOUR].sort());
      const { rows } = await db.query<{ mode: string; thread_id: string }>("select mode, thread_id from followups");
      expect(rows).toEqual([{ mode: "remind", thread_id }]);
    },
  );
  // Nobody else's agent is another one now.
  expect(own.options.tools).toEqual([look]);
});

it("tools that an agent has already aren't bound twice, and a factory's agents have them as well", async () => {
  const { model } = listening([{ text: "hello" }]);
  const agent = createAgent({ model, tools: [scheduleFollowup] });
  const graphs = graphsFrom({ agent: () => agent }, { policyOf });
  const graph = await graphs.get("agent");
  const tools = (graph.nodes["tools"]?.bound as unknown as ToolNode).tools.map(({ name }) => name);
  expect(tools).toEqual(FOUR);
  expect(await graphs.get("agent")).toBe(graph);
});

it("a graph whose model is bound in its code has to have them, or is refused with what to do", async () => {
  const why = /^graph "agent" has "followups": true, .*\.\.\.followupTools` of perdure\/tools .*schedule_followup/;
  expect(() => graphsFrom({ agent: withToolNode([look]) }, { policyOf })).toThrow(why);
  await expect(graphsFrom({ agent: () => withToolNode([look]) }, { policyOf }).get("agent")).rejects.toThrow(why);
  const compiled = createAgent({ model: scriptedModel([{ text: "hello" }]), tools: [look] }).graph;
  expect(() => graphsFrom({ agent: compiled }, { policyOf })).toThrow(why);
  const graph = withToolNode([look, ...followupTools]);
  expect(await graphsFrom({ agent: graph }, { policyOf }).get("agent")).toBe(graph);
  expect(await graphsFrom({ other: withToolNode([look]) }, { policyOf }).get("other")).toBeDefined();
});
