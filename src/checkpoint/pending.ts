// Which questions a loaded checkpoint leaves open: LangGraph's own rule, by the writes stored with it.
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";

export type OpenInterrupt = Readonly<{ taskId: string; id: string; value: unknown }>;

// What LangGraph does not count as a task's output (`isTaskOutput`): a task with none of the rest is not done.
const NO_OUTPUT = new Set(["__error__", "__error_source_node__", "__interrupt__", "__resume__"]);

/** Interrupts of tasks without output. A task that asked again keeps its newest question only. */
export function openInterrupts(tuple: CheckpointTuple | undefined): OpenInterrupt[] {
  const writes = tuple?.pendingWrites ?? [];
  const done = new Set(writes.filter(([, channel]) => !NO_OUTPUT.has(channel)).map(([task]) => task));
  return writes
    .filter(([task, channel]) => channel === "__interrupt__" && !done.has(task))
    .flatMap(([taskId, , asked]) =>
      (Array.isArray(asked) ? (asked as { id?: string; value: unknown }[]) : []).flatMap(({ id, value }) =>
        id === undefined ? [] : [{ taskId, id, value }],
      ),
    );
}
