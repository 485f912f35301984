// Twenty nodes in a row.
import { Annotation, END, START, StateGraph, type LangGraphRunnableConfig } from "@langchain/langgraph";
import { work } from "./journal.js";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});
const names = Array.from({ length: 20 }, (_, i) => `s${i + 1}`);
const nodes = Object.fromEntries(
  names.map((name) => [
    name,
    async (_state: typeof State.State, config: LangGraphRunnableConfig) => ({ log: [await work(name, config)] }),
  ]),
);

const builder = new StateGraph(State).addNode(nodes);
builder.addEdge(START, "s1");
names.forEach((name, i) => builder.addEdge(name, names[i + 1] ?? END));
export const steps = builder.compile();
