// Blocks the event loop of the first process that it is executed in until it is let go, and says whose state it is.
import { Annotation, END, START, StateGraph, type LangGraphRunnableConfig } from "@langchain/langgraph";
import { note, wasEntered } from "./journal.js";

const State = Annotation.Root({ who: Annotation<number>(), log: Annotation<string[]>() });
const LOOK_MS = 50;
const MOST_LOOKS = 1_200;

/** Nothing else has a turn meanwhile. */
function block(configurable: LangGraphRunnableConfig["configurable"]): void {
  const nobody = new Int32Array(new SharedArrayBuffer(4));
  for (let looks = 0; looks < MOST_LOOKS && !wasEntered("let go", configurable); looks += 1) {
    Atomics.wait(nobody, 0, 0, LOOK_MS);
  }
}

export const blocking = new StateGraph(State)
  .addNode("block", (_state, { configurable }: LangGraphRunnableConfig) => {
    const isFirst = !wasEntered("block", configurable);
    note("enter block", configurable);
    if (isFirst) block(configurable);
    note("leave block", configurable);
    return { who: process.pid };
  })
  .addNode("after", (_state, { configurable }: LangGraphRunnableConfig) => {
    note("enter after", configurable);
    return { log: ["after"] };
  })
  .addEdge(START, "block")
  .addEdge("block", "after")
  .addEdge("after", END)
  .compile();
