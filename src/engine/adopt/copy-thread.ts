// Copies the checkpoints of a stock thread through our saver, part by part, and looks at what was kept.
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import type { Saver } from "../../checkpoint/saver.js";
import { type Difference, differencesOf } from "../../checkpoint/stock/compare.js";
import type { StockCheckpoint, StockThread } from "../../checkpoint/stock/read-thread.js";
import type { ThreadId } from "../../core/ids.js";

export type Copied = Readonly<{
  checkpoints: number;
  writes: number;
  /** Checkpoints that come back exactly as the stock saver reads them; those that don't have differences. */
  equal: number;
  differences: readonly Difference[];
  /** Of the first and the last checkpoint. */
  createdAt: Date | null;
  updatedAt: Date | null;
}>;

export type CopyOptions = Readonly<{
  /** Reads a checkpoint that was put; null: nothing is looked at. */
  readBack: ((made: StockCheckpoint) => Promise<CheckpointTuple | undefined>) | null;
  /** Told after each part. */
  onPart?: ((checkpoints: number) => void) | undefined;
  signal?: AbortSignal | undefined;
}>;

/** Throws what the saver throws (`value_unsupported`, `lease_lost` …) and what reading the source throws. */
export async function copyThread(
  thread: StockThread,
  saver: Saver,
  threadId: ThreadId,
  options: CopyOptions,
): Promise<Copied> {
  let [checkpoints, writes, equal] = [0, 0, 0];
  const differences: Difference[] = [];
  let [createdAt, updatedAt]: [string | null, string | null] = [null, null];
  for await (const part of thread.parts()) {
    options.signal?.throwIfAborted();
    await Promise.all(part.flatMap((made) => put(saver, threadId, made)));
    for (const made of options.readBack === null ? [] : part) {
      const found = await differencesOf(made, await options.readBack?.(made));
      if (found.length === 0) equal += 1;
      differences.push(...found);
    }
    checkpoints += part.length;
    writes += part.reduce((sum, made) => sum + made.writes.length, 0);
    createdAt ??= part[0]?.checkpoint.ts ?? null;
    updatedAt = part.at(-1)?.checkpoint.ts ?? updatedAt;
    options.onPart?.(part.length);
  }
  return { checkpoints, writes, equal, differences, createdAt: instant(createdAt), updatedAt: instant(updatedAt) };
}

/** Handed over in order and at once, so that a part goes in few statements; without a metadata config nothing is added. */
function put(saver: Saver, threadId: ThreadId, made: StockCheckpoint): Promise<unknown>[] {
  const at = (id: string | null) => ({
    configurable: { thread_id: threadId, checkpoint_ns: made.ns, ...(id !== null && { checkpoint_id: id }) },
  });
  const metadata = made.metadata as Parameters<Saver["put"]>[2];
  const sent: Promise<unknown>[] = [saver.put(at(made.parentId), made.checkpoint, metadata, made.newVersions)];
  if (made.writes.length > 0) sent.push(saver.putIndexedWrites(at(made.checkpointId), made.writes));
  return sent;
}

function instant(text: string | null): Date | null {
  const date = new Date(text ?? Number.NaN);
  return Number.isNaN(date.getTime()) ? null : date;
}
