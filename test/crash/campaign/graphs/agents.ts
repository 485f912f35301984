// What the campaign runs: short work, and agents that act outside, ask a person, and act again.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { Annotation, END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { durableTool } from "perdure/tools";
import { act, args, wasDone } from "./act.js";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

/** Five nodes, each of which leaves its name. */
export const work = (() => {
  const graph = new StateGraph(Log);
  const loose = graph as unknown as {
    addNode(name: string, run: () => Promise<object>): unknown;
    addEdge(from: string, to: string): unknown;
  };
  let last: string = START;
  for (const name of ["a", "b", "c", "d", "e"]) {
    loose.addNode(name, async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return { log: [name] };
    });
    loose.addEdge(last, name);
    last = name;
  }
  loose.addEdge(last, END);
  return graph.compile();
})();

const about = (name: string) => ({
  name,
  description: name,
  schema: args,
  effect: "remote" as const,
  reversibility: 1,
});

/** One for each answer to the question what to do when nobody knows. */
const tools = [
  durableTool(({ intent }, { key, signal }) => act(intent, key, "nothing", signal), {
    ...about("asks"),
    onUnknown: "ask",
  }),
  durableTool(({ intent }, { key, signal }) => act(intent, key, "key", signal), {
    ...about("retries"),
    onUnknown: "retry",
  }),
  durableTool(({ intent }, { key, signal }) => act(intent, key, "nothing", signal), {
    ...about("looks_up"),
    onUnknown: "lookup",
    lookup: async ({ intent }) => {
      const done = await wasDone(intent);
      return done ? { done, result: `done: ${intent}` } : { done };
    },
  }),
];

const State = Annotation.Root({
  ...MessagesAnnotation.spec,
  /** Names the conversation's intents. */
  name: Annotation<string>(),
  /** The tool it acts with. */
  tool: Annotation<string>(),
  allowed: Annotation<boolean>(),
});

function call(id: string, { name, tool }: typeof State.State): AIMessage {
  return new AIMessage({
    id: `${name}-${id}`,
    content: "",
    tool_calls: [{ type: "tool_call", id, name: tool, args: { intent: `${name}/${id}` } }],
  });
}

const asked = (messages: readonly BaseMessage[]): number =>
  messages.filter((message) => message.getType() === "ai").length;

/** Acts, asks whether it may go on, and acts again if it may. */
export const agent = new StateGraph(State)
  .addNode("first", (state) => ({ messages: [call("first", state)] }))
  .addNode("act", new ToolNode(tools, { handleToolErrors: false }))
  .addNode("gate", () => ({ allowed: interrupt({ question: "go on?" }) === "yes" }))
  .addNode("second", (state) => ({ messages: [call("second", state)] }))
  .addEdge(START, "first")
  .addEdge("first", "act")
  .addConditionalEdges("act", ({ messages }) => (asked(messages) > 1 ? END : "gate"), ["gate", END])
  .addConditionalEdges("gate", ({ allowed }) => (allowed ? "second" : END), ["second", END])
  .addEdge("second", "act")
  .compile();
