// Agents that promise: a model, which a test writes down, and the tool that schedules follow-ups.
import type { AIMessage, BaseMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { scheduleFollowup } from "../../src/tools.js";

type Update = Readonly<{ messages: BaseMessage[] }>;

/** The model is asked again after each call of the tool. */
export function promisingAgent(model: (state: { messages: BaseMessage[] }) => Update | Promise<Update>) {
  return new StateGraph(MessagesAnnotation)
    .addNode("model", model)
    .addNode("tools", new ToolNode([scheduleFollowup]))
    .addEdge(START, "model")
    .addConditionalEdges("model", ({ messages }) => ((messages.at(-1) as AIMessage).tool_calls?.length ? "tools" : END))
    .addEdge("tools", "model")
    .compile();
}
