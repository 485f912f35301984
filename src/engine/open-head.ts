// What the newest state of a thread leaves open, as its graph sees it: where edits leave a thread.
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { ApprovalPolicy, Question } from "../core/approval.js";
import { questionOf } from "./approval-policy.js";
import type { RunnableGraph } from "./graphs.js";
import { openQuestions } from "./open-questions.js";
import { sleepOf } from "./sleep.js";
import { toThreadState } from "./thread-state.js";

export type OpenHead = Readonly<{
  checkpointId: string | null;
  /** Something is left to go on with. */
  hasNext: boolean;
  /** A task of it failed. */
  failed: boolean;
  interrupts: readonly Question[];
}>;

/** The graph must stand on the saver. */
export async function readOpenHead(
  graph: RunnableGraph,
  saver: BaseCheckpointSaver<string>,
  threadId: string,
  defaults: ApprovalPolicy,
): Promise<OpenHead> {
  const head = await graph.getState({ configurable: { thread_id: threadId } }, { subgraphs: false });
  const open = await openQuestions(head, saver);
  const { tasks, checkpoint, next } = toThreadState(head, open);
  const nodeOf = new Map(tasks.map((task) => [task.id, task.name]));
  const asked = open.filter(({ value }) => sleepOf(value) === undefined);
  return {
    checkpointId: checkpoint?.checkpoint_id ?? null,
    hasNext: next.length > 0,
    failed: tasks.some((task) => task.error !== null),
    interrupts: asked.map(({ id, taskId, value }) =>
      questionOf({ id, node: nodeOf.get(taskId) ?? null, value }, defaults),
    ),
  };
}
