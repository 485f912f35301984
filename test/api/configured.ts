// A graph that says what it is configured with.
import { Annotation, END, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** One step, which adds `configurable.greeting` to the log. */
export function createTestGraph() {
  return new StateGraph(Log)
    .addNode("greet", (_: unknown, { configurable }: LangGraphRunnableConfig) => ({
      log: [String(configurable?.["greeting"])],
    }))
    .addEdge(START, "greet")
    .addEdge("greet", END)
    .compile();
}
