// Kills the process it runs in, every time.
import { Annotation, END, START, StateGraph, type LangGraphRunnableConfig } from "@langchain/langgraph";
import { work } from "./journal.js";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

export const poison = new StateGraph(State)
  .addNode("kill", async (_state, config: LangGraphRunnableConfig) => {
    await work("poison", config);
    process.kill(process.pid, "SIGKILL");
    return {};
  })
  .addEdge(START, "kill")
  .addEdge("kill", END)
  .compile();
