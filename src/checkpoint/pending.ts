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

const BRANCH = "branch:to:";

/** The nodes that a checkpoint has yet to enter, by what is stored with it and not by any graph. */
export function pendingNodes(tuple: CheckpointTuple | undefined): string[] {
  const values = tuple?.checkpoint.channel_values ?? {};
  const branches = Object.keys(values).filter((channel) => channel.startsWith(BRANCH));
  const sends = Array.isArray(values["__pregel_tasks"]) ? (values["__pregel_tasks"] as { node?: unknown }[]) : [];
  const sent = sends.flatMap(({ node }) => (typeof node === "string" ? [node] : []));
  return [...new Set([...branches.map((channel) => channel.slice(BRANCH.length)), ...sent])];
}

/** The state's own keys in a checkpoint. */
export function stateKeys(tuple: CheckpointTuple | undefined): string[] {
  return Object.keys(tuple?.checkpoint.channel_values ?? {}).filter((channel) => !/^(__|branch:)/.test(channel));
}
