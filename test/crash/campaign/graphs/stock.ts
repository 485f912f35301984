// Agents as people write them without a thought of crashes: tools that declare nothing, several called by one message, behind LangGraph's
// ToolNode and langchain's createAgent.
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import type { BaseMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { createAgent, humanInTheLoopMiddleware } from "langchain";
import { scriptedModel } from "perdure/testing";
import { act, args } from "./act.js";

type Config = Readonly<{ signal?: AbortSignal; configurable?: Readonly<Record<string, unknown>> }>;

const undeclared = (name: string, honours: "key" | "nothing") =>
  tool(
    ({ intent }: { intent: string }, { signal, configurable }: Config) =>
      act(intent, String(configurable?.["idempotency_key"]), honours, signal),
    { name, description: name, schema: args },
  );

/** One message that calls tools for intents of the conversation, which its first message names; then the end of it. */
const asking = (calls: readonly (readonly [tool: string, intent: string])[]) =>
  scriptedModel([
    (messages: readonly BaseMessage[]) => ({
      toolCalls: calls.map(([name, intent]) => ({ name, args: { intent: `${messages[0]?.text}/${intent}` } })),
    }),
    { text: "done" },
  ]);

const three = (honours: "key" | "nothing") => {
  const model = asking(["a", "b", "c"].map((intent) => ["act", intent] as const));
  return new StateGraph(MessagesAnnotation)
    .addNode("model", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
    .addNode("tools", new ToolNode([undeclared("act", honours)], { handleToolErrors: false }))
    .addEdge(START, "model")
    .addConditionalEdges("model", ({ messages }) => (messages.length > 2 ? END : "tools"), ["tools", END])
    .addEdge("tools", "model")
    .compile();
};

/** Whose service does what it is asked as often as it is asked: langgraph.json says that a person decides. */
export const careful = three("nothing");

/** Whose service knows keys: langgraph.json lets cut-off calls be made again. */
export const bold = three("key");

// Its types contradict each other under exactOptionalPropertyTypes.
const asksFirst = humanInTheLoopMiddleware({
  interruptOn: { pay: { allowedDecisions: ["approve", "reject"] } },
} as never) as never;

/** Looks by itself; for what pays, a person is asked. */
export const approver = createAgent({
  model: asking([
    ["pay", "pay 1"],
    ["look", "look"],
    ["pay", "pay 2"],
  ]),
  tools: [undeclared("pay", "key"), undeclared("look", "key")],
  middleware: [asksFirst],
});
