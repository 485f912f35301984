// A node that makes the tool calls of the last message, each as a task of its own: each is stored by itself, asks with an id of
// its own and is answered by it. (LangGraph's ToolNode makes all of them in one task.)
import { type BaseMessage, isAIMessage, isToolMessage, ToolMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import { ToolInputParsingException, type StructuredToolInterface } from "@langchain/core/tools";

import { isCommand, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import type { CallConfig } from "./identity.js";
import { journaledCall } from "./journaled-call.js";

type Calls = NonNullable<Parameters<typeof isAIMessage>[0] & { tool_calls?: ToolCall[] }>;
type ToolCall = Readonly<{ id?: string; name: string; args: Record<string, unknown> }>;
type OneCall = Readonly<{ messages: BaseMessage[]; lg_tool_call: ToolCall }>;

/**
 * The node of an agent's tools, for any graph with a `messages` channel. Arguments that don't fit a tool's schema, and names that no
 * tool has, are told to the model; whatever else a tool throws fails the node, so that a payment that failed is never taken for
 * an answer.
 *
 * @example
 * new StateGraph(MessagesAnnotation).addNode("model", model).addNode("tools", toolsNode([pay, lookup]))
 *   .addEdge(START, "model").addConditionalEdges("model", toolsCondition).addEdge("tools", "model").compile();
 */
export function toolsNode(tools: readonly StructuredToolInterface[]) {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("call", (state: unknown, config: RunnableConfig) => callTool(tools, state as OneCall, config))
    .addConditionalEdges(START, ({ messages }) =>
      openCalls(messages).map((call) => new Send("call", { messages, lg_tool_call: call })),
    )
    .compile({ name: "tools" });
  // As LangGraph's ToolNode says them.
  return Object.assign(graph, { tools });
}

/** The calls of the last answer that have no result yet. */
function openCalls(messages: readonly BaseMessage[]): readonly ToolCall[] {
  // Some models give the same ids in every turn.
  const at = messages.findLastIndex((message) => isAIMessage(message));
  const last = messages[at] as Calls | undefined;
  const after = messages.slice(at + 1);
  const answered = new Set(after.filter((message) => isToolMessage(message)).map((message) => message.tool_call_id));
  return (last?.tool_calls ?? []).filter(({ id }) => id === undefined || !answered.has(id));
}

async function callTool(
  tools: readonly StructuredToolInterface[],
  { lg_tool_call: call, messages }: OneCall,
  config: RunnableConfig,
) {
  const told = (content: string) =>
    new ToolMessage({ status: "error", name: call.name, content, tool_call_id: call.id ?? "" });
  const tool = tools.find(({ name }) => name === call.name);
  if (tool === undefined) {
    const names = tools.map(({ name }) => name).join(", ");
    return { messages: [told(`There is no tool "${call.name}"; there are: ${names}`)] };
  }
  try {
    const state = { messages };
    const make = (own: CallConfig): Promise<unknown> =>
      tool.invoke({ ...call, type: "tool_call" }, { ...own, state } as RunnableConfig);
    const output = await journaledCall(config, { ...call, tool }, make);
    if (isCommand(output)) return output;
    return { messages: [output as ToolMessage] };
  } catch (error) {
    if (!(error instanceof ToolInputParsingException)) throw error;
    return { messages: [told(`Error: ${error.message}\n Please fix your mistakes.`)] };
  }
}
