// Sleeps in the middle, for as long as its input says.
import { Annotation, END, START, StateGraph, type LangGraphRunnableConfig } from "@langchain/langgraph";
import { sleepFor } from "perdure";
import { work } from "./journal.js";

const State = Annotation.Root({
  sleep_ms: Annotation<number>(),
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

export const sleeper = new StateGraph(State)
  .addNode("before", async (_state, config: LangGraphRunnableConfig) => ({ log: [await work("before", config)] }))
  .addNode("nap", async ({ sleep_ms }) => {
    await sleepFor(sleep_ms);
    return { log: ["slept"] };
  })
  .addNode("after", async (_state, config: LangGraphRunnableConfig) => ({ log: [await work("after", config)] }))
  .addEdge(START, "before")
  .addEdge("before", "nap")
  .addEdge("nap", "after")
  .addEdge("after", END)
  .compile();
