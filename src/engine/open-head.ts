// What the newest state of a thread leaves open, as its graph sees it: where edits leave a thread.
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { PendingInterrupt } from "../core/run.js";
import type { RunnableGraph } from "./graphs.js";
import { openQuestions } from "./open-questions.js";
import { toThreadState } from "./thread-state.js";

export type OpenHead = Readonly<{
  checkpointId: string | null;
  /** Something is left to go on with. */
  hasNext: boolean;
  /** A task of it failed. */
  failed: boolean;
  interrupts: readonly PendingInterrupt[];
}>;

/** The graph must stand on the saver. */
export async function readOpenHead(
  graph: RunnableGraph,
  saver: BaseCheckpointSaver<string>,
  threadId: string,
): Promise<OpenHead> {
  const head = await graph.getState({ configurable: { thread_id: threadId } }, { subgraphs: false });
  const { tasks, checkpoint, next } = toThreadState(head, await openQuestions(head, saver));
  return {
    checkpointId: checkpoint?.checkpoint_id ?? null,
    hasNext: next.length > 0,
    failed: tasks.some((task) => task.error !== null),
    interrupts: tasks.flatMap((task) =>
      task.interrupts.flatMap(({ id }) => (id === undefined ? [] : [{ interruptId: id, node: task.name }])),
    ),
  };
}
