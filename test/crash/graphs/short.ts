// One node that waits for as long as its run says, as for the network. Who entered it is one line of the journal.
import { setTimeout as sleep } from "node:timers/promises";
import { Annotation, END, START, StateGraph, type LangGraphRunnableConfig } from "@langchain/langgraph";
import { note } from "./journal.js";

const State = Annotation.Root({ done: Annotation<boolean>() });

export const short = new StateGraph(State)
  .addNode("wait", async (_, { configurable }: LangGraphRunnableConfig) => {
    note(String(configurable?.["run_id"]), configurable);
    await sleep(Number(configurable?.["wait_ms"] ?? 0));
    return { done: true };
  })
  .addEdge(START, "wait")
  .addEdge("wait", END)
  .compile();
