// Steps that take longer than a lease: one waits for the network, one computes in bites, one blocks the loop for a while.
import { Annotation, END, START, StateGraph, type LangGraphRunnableConfig } from "@langchain/langgraph";
import { note } from "./journal.js";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
const BITE_MS = 100;

function compute(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** How long each step takes is in the run's config: `awaitMs`, `computeMs`, `blockMs`. */
function step(name: string, take: (ms: number) => Promise<void> | void) {
  return async (_state: typeof State.State, { configurable }: LangGraphRunnableConfig) => {
    note(`enter ${name}`, configurable);
    await take(Number(configurable?.[`${name}Ms`]));
    return { log: [name] };
  };
}

async function inBites(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= BITE_MS) {
    compute(BITE_MS);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

export const long = new StateGraph(State)
  .addNode(
    "await",
    step("await", (ms) => new Promise((resolve) => setTimeout(resolve, ms))),
  )
  .addNode("compute", step("compute", inBites))
  .addNode("block", step("block", compute))
  .addEdge(START, "await")
  .addEdge("await", "compute")
  .addEdge("compute", "block")
  .addEdge("block", END)
  .compile();
