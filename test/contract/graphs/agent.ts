// Answers once, with a person's word if it is asked to wait for one. What a client of the whole surface is tried with.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import {
  Annotation,
  END,
  interrupt,
  type LangGraphRunnableConfig,
  messagesStateReducer,
  START,
  StateGraph,
} from "@langchain/langgraph";

const State = Annotation.Root({
  messages: Annotation<BaseMessage[]>({ reducer: messagesStateReducer, default: () => [] }),
  interrupt: Annotation<boolean>(),
  keyOne: Annotation<string>(),
});

function answer(state: typeof State.State, { configurable }: LangGraphRunnableConfig) {
  const said = state.interrupt ? String(interrupt("go on?")) : "end";
  return { messages: [new AIMessage(`${said}, ${String(configurable?.["user_id"] ?? "somebody")}`)] };
}

export const graph = new StateGraph(State)
  .addNode("agent", answer)
  .addEdge(START, "agent")
  .addEdge("agent", END)
  .compile();
