// A node that leaves a promise alone, which then fails, and goes on.
import { setTimeout as sleep } from "node:timers/promises";
import { Annotation, START, StateGraph } from "@langchain/langgraph";

export const floating = new StateGraph(Annotation.Root({ done: Annotation<boolean> }))
  .addNode("node", async () => {
    void Promise.reject(new Error("left alone"));
    await sleep(100);
    return { done: true };
  })
  .addEdge(START, "node")
  .compile();
