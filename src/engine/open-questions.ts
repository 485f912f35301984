// What a graph that stopped waits for. LangGraph's snapshot doesn't tell: it shows answered questions until their superstep
// is over, and a task that took an answer and asked again is in it as if it had nothing left to do. The stored writes do.
import type { StateSnapshot } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { type OpenInterrupt, openInterrupts } from "../checkpoint/pending.js";

/** Questions and sleeps that are open at the snapshot's checkpoint. Only a graph that asks costs a read. */
export async function openQuestions(
  snapshot: StateSnapshot,
  saver: BaseCheckpointSaver<string>,
): Promise<readonly OpenInterrupt[]> {
  if (!snapshot.tasks.some((task) => (task.interrupts ?? []).length > 0)) return [];
  return openInterrupts(await saver.getTuple(snapshot.config));
}

/** The nodes that are still to run, those that ask included. */
export function remainingNodes(snapshot: StateSnapshot, open: readonly OpenInterrupt[]): string[] {
  const asking = snapshot.tasks.filter((task) => open.some(({ taskId }) => taskId === task.id));
  return [...new Set([...snapshot.next, ...asking.map((task) => task.name)])];
}
