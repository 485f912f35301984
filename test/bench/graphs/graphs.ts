// The graphs of the benchmarks, without a checkpointer: servers bring their own.
import { setTimeout as sleep } from "node:timers/promises";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";

const Count = Annotation.Root({
  n: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 }),
  /** When the first node was entered, on the machine's monotonic clock, in ms. */
  enteredMs: Annotation<number>({ reducer: (a, b) => a || b, default: () => 0 }),
  /** How long each node keeps the processor busy. */
  spinMs: Annotation<number>({ reducer: (_, b) => b, default: () => 0 }),
});

/** What the node of `waiting` takes. */
export const WAIT_MS = 200;

type Node = (state: typeof Count.State) => Promise<object>;

/** `n` nodes in a row. */
function row(n: number, node: (i: number) => Node) {
  const builder = new StateGraph(Count);
  // The builder's type grows with each node; here the names come from a number.
  const loose = builder as unknown as { addNode(name: string, run: Node): void; addEdge(a: string, b: string): void };
  for (let i = 0; i < n; i += 1) {
    loose.addNode(`n${i}`, node(i));
    loose.addEdge(i === 0 ? START : `n${i - 1}`, `n${i}`);
  }
  loose.addEdge(`n${n - 1}`, END);
  return builder;
}

const add: Node = async () => ({ n: 1 });

/** Ten nodes, each adding 1: the run by which engines are compared. */
export const tenNodes = row(10, () => add);
export const ten = tenNodes.compile();

/** Says when it was entered. */
export const entered = row(1, () => async () => ({ n: 1, enteredMs: Number(process.hrtime.bigint()) / 1e6 })).compile();

/** One node that waits, as for the network. */
export const waiting = row(1, () => async () => {
  await sleep(WAIT_MS);
  return { n: 1 };
}).compile();

/** Ten nodes that each keep a processor busy: what another worker process is for. */
export const busy = row(10, () => async ({ spinMs }) => {
  for (const untilMs = performance.now() + spinMs; performance.now() < untilMs; );
  return { n: 1 };
}).compile();
