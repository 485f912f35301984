// Whether an adopted checkpoint, read through our saver, is what the stock saver would have read: decided with the stock
// serializer itself, apart from the decoder that adoption uses.
import { isDeepStrictEqual } from "node:util";
import { type Checkpoint, type CheckpointTuple, JsonPlusSerializer, TASKS } from "@langchain/langgraph-checkpoint";
import type { StockBlob, StockCheckpoint } from "./read-thread.js";

/** What isn't the same. No channel: it is about the checkpoint as a whole. */
export type Difference = Readonly<{ ns: string; checkpointId: string; channel: string | null; what: string }>;

const serde = new JsonPlusSerializer();
const DIFFERS = "comes back otherwise than the stock saver reads it";

/** Each value is compared where it first appears; later checkpoints name the same row. */
export async function differencesOf(made: StockCheckpoint, kept: CheckpointTuple | undefined): Promise<Difference[]> {
  const found: Difference[] = [];
  const add = (channel: string | null, what: string | null): void => {
    if (what !== null) found.push({ ns: made.ns, checkpointId: made.checkpointId, channel, what });
  };
  if (kept === undefined) {
    add(null, "can't be found again");
    return found;
  }
  const parentId: unknown = kept.parentConfig?.configurable?.["checkpoint_id"] ?? null;
  if (parentId !== made.parentId) add(null, "has another parent");
  if (!isDeepStrictEqual(frameOf(kept.checkpoint, made), frameOf(made.checkpoint, made))) add(null, DIFFERS);
  add("metadata", await difference(made.raw.metadata, kept.metadata));
  const values = kept.checkpoint.channel_values;
  for (const raw of made.raw.values) add(raw.channel, await difference(raw, values[raw.channel]));
  for (const channel of unlike(
    made.filled,
    Object.keys(values).filter((name) => !isAdded(name, made)),
  )) {
    add(channel, "has a value on one side only");
  }
  const writes = kept.pendingWrites ?? [];
  if (writes.length !== made.writes.length) add(null, `has ${writes.length} writes instead of ${made.writes.length}`);
  for (const [i, [taskId, channel, value]] of writes.entries()) {
    const [expected, raw] = [made.writes[i], made.raw.writes[i]];
    if (expected === undefined || raw === undefined) break;
    const inPlace = expected.taskId === taskId && expected.channel === channel;
    add(channel, inPlace ? await difference(raw, value) : "is written in another order");
  }
  return found;
}

/** Everything but values; what reading adds to an old checkpoint is not compared. */
function frameOf(checkpoint: Checkpoint, made: StockCheckpoint): object {
  const { channel_values: _, ...frame } = checkpoint;
  const versions = Object.entries(frame.channel_versions).filter(([channel]) => !isAdded(channel, made));
  return { ...frame, channel_versions: Object.fromEntries(versions) };
}

/** Before version 4 packets were writes of the parent, which readers put here. */
function isAdded(channel: string, { checkpoint }: StockCheckpoint): boolean {
  return channel === TASKS && checkpoint.v < 4;
}

async function difference({ type, blob, foreign }: StockBlob, kept: unknown): Promise<string | null> {
  const [object] = foreign;
  // Not handed to the stock serializer: it would make an instance of whatever is named.
  if (object !== undefined) return `keeps ${object.path}, a ${object.className}, as plain data`;
  let expected: unknown;
  try {
    expected = await serde.loadsTyped(type, blob as Uint8Array);
  } catch {
    return "can't be read by the stock saver, and is kept as plain data";
  }
  return isDeepStrictEqual(kept, expected) ? null : DIFFERS;
}

function unlike(a: readonly string[], b: readonly string[]): string[] {
  return [...a.filter((name) => !b.includes(name)), ...b.filter((name) => !a.includes(name))];
}
