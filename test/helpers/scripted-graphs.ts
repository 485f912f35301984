// Small graphs for tests, steered by their input and counting what they do in plain arrays.
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

/** Asks `questions` in a row, one node each, then acts once per "yes". `acted` counts what was really done. */
export function gateGraph(acted: string[], questions = ["q1"]) {
  const graph = new StateGraph(Log)
    .addNode("act", ({ log }) => {
      for (const line of log) if (line.endsWith(":yes")) acted.push(line);
      return { log: ["acted"] };
    })
    .addEdge("act", END);
  let last = START as string;
  // The builder's type grows with each node; here the names come from data.
  const loose = graph as unknown as {
    addNode(name: string, run: () => object): unknown;
    addEdge(from: string, to: string): unknown;
  };
  for (const question of questions) {
    loose.addNode(question, () => ({ log: [`${question}:${String(interrupt({ question }))}`] }));
    loose.addEdge(last, question);
    last = question;
  }
  loose.addEdge(last, "act");
  return graph.compile();
}

/** Nodes s1 … sn in a row; `enter` is called with each node's name as it starts. */
export function stepsGraph(n: number, enter: (node: string) => unknown) {
  const graph = new StateGraph(Log);
  const loose = graph as unknown as {
    addNode(name: string, run: () => Promise<object>): unknown;
    addEdge(from: string, to: string): unknown;
  };
  let last = START as string;
  for (let i = 1; i <= n; i += 1) {
    const node = `s${i}`;
    loose.addNode(node, async () => {
      await enter(node);
      return { log: [node] };
    });
    loose.addEdge(last, node);
    last = node;
  }
  loose.addEdge(last, END);
  return graph.compile();
}
