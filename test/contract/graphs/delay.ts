// Takes as long as it is told.
import { setTimeout as sleep } from "node:timers/promises";
import type { BaseMessage } from "@langchain/core/messages";
import {
  Annotation,
  END,
  type LangGraphRunnableConfig,
  messagesStateReducer,
  START,
  StateGraph,
} from "@langchain/langgraph";

const State = Annotation.Root({
  messages: Annotation<BaseMessage[]>({ reducer: messagesStateReducer, default: () => [] }),
  delay: Annotation<number>(),
});

export const graph = new StateGraph(State)
  .addNode("wait", async ({ delay }: typeof State.State, { signal }: LangGraphRunnableConfig) => {
    await sleep(delay, undefined, signal === undefined ? {} : { signal });
    return {};
  })
  .addEdge(START, "wait")
  .addEdge("wait", END)
  .compile();
