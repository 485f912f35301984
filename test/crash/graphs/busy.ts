// One step after the other until its time is over, each with something to store.
import { Annotation, END, START, StateGraph, type LangGraphRunnableConfig } from "@langchain/langgraph";

const State = Annotation.Root({
  endAtMs: Annotation<number>(),
  steps: Annotation<number>(),
  text: Annotation<string>(),
});

async function step({ endAtMs, steps = 0 }: typeof State.State, config: LangGraphRunnableConfig) {
  const runMs = Number(config.configurable?.["runMs"] ?? 0);
  await new Promise((resolve) => setTimeout(resolve, 20));
  return {
    endAtMs: endAtMs ?? Date.now() + runMs,
    steps: steps + 1,
    text: `${steps} `.padEnd(1_500, String(steps)),
  };
}

export const busy = new StateGraph(State)
  .addNode("step", step)
  .addEdge(START, "step")
  .addConditionalEdges("step", ({ endAtMs }) => (Date.now() < endAtMs ? "step" : END))
  .compile();
