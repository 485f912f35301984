// Which questions a loaded checkpoint leaves open: LangGraph's own rule, by the writes stored with it.
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";

export type OpenInterrupt = Readonly<{ taskId: string; id: string; value: unknown }>;

// What LangGraph does not count as a task's output (`isTaskOutput`): a task with none of the rest is not done.
const NO_OUTPUT = new Set(["__error__", "__error_source_node__", "__interrupt__", "__resume__"]);

/** Interrupts of tasks without output. A task that asked again keeps its newest question only. */
export function openInterrupts(tuple: CheckpointTuple | undefined): OpenInterrupt[] {
  return asked(tuple).flatMap(({ taskId, id, value }) => (id === undefined ? [] : [{ taskId, id, value }]));
}

/** Whether a question is open that has no id, as LangGraph asked before version 1: no answer can name it. */
export function asksWithoutId(tuple: CheckpointTuple | undefined): boolean {
  return asked(tuple).some(({ id }) => id === undefined);
}

function asked(tuple: CheckpointTuple | undefined): Readonly<{ taskId: string; id?: string; value: unknown }>[] {
  const writes = tuple?.pendingWrites ?? [];
  const done = new Set(writes.filter(([, channel]) => !NO_OUTPUT.has(channel)).map(([task]) => task));
  return writes
    .filter(([task, channel]) => channel === "__interrupt__" && !done.has(task))
    .flatMap(([taskId, , questions]) =>
      (Array.isArray(questions) ? (questions as { id?: string; value: unknown }[]) : []).map((question) => ({
        ...question,
        taskId,
      })),
    );
}
