// Writes that reach a checkpoint after it was moved, and what they mean for the writes in its record.
import { compareWritesSortKeys, writesSortKey } from "@langchain/langgraph-checkpoint";

type Write = Readonly<{ taskId: string; idx: number; taskPath: string }>;

/** By the rule of the table (the first stays, special ones with a negative idx are replaced), in LangGraph's order. */
export function mergeWrites<W extends Write>(recorded: readonly W[], later: readonly W[]): W[] {
  const merged = new Map(recorded.map((write) => [`${write.idx} ${write.taskId}`, write]));
  for (const write of later) {
    const key = `${write.idx} ${write.taskId}`;
    if (write.idx < 0 || !merged.has(key)) merged.set(key, write);
  }
  return inOrder([...merged.values()]);
}

/** By task path, task and idx. */
export function inOrder<W extends Write>(writes: readonly W[]): W[] {
  const keyOf = ({ taskPath, taskId, idx }: W) => writesSortKey(taskPath, taskId, idx);
  return [...writes].sort((a, b) => compareWritesSortKeys(keyOf(a), keyOf(b)));
}
