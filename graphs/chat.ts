// A plain chat: one node, one model, the conversation as state. Its tokens stream as they come.
import { type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { chooseModel } from "./model.js";
import type { Reply } from "./scripted-model.js";

const model = await chooseModel("chat", chatScript);

export const graph = new StateGraph(MessagesAnnotation)
  .addNode("answer", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
  .addEdge(START, "answer")
  .addEdge("answer", END)
  .compile();

/** Repeats what was said and what it remembers, so that one sees the state come back. */
function chatScript(conversation: readonly BaseMessage[]): Reply {
  const said = conversation.filter((message) => HumanMessage.isInstance(message)).map((message) => message.text);
  const before = said.at(-2);
  const memory =
    before === undefined ? "That was the first thing you told me." : `Before that you told me "${before}".`;
  return { text: `You said "${said.at(-1) ?? ""}". ${memory}` };
}
