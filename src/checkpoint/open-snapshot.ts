// From rows to checkpoints that can be read: records of moved ones fetched and merged with writes that came later, and
// every body loaded that their values and writes name.
import { EngineError } from "../core/errors.js";
import type { BodyReader } from "./body-reader.js";
import { referencesIn } from "./codec/format.js";
import { mergeWrites } from "./merge-writes.js";
import {
  type CheckpointRecord,
  checkpointRecordKey,
  countedWrites,
  type PackBlock,
  type PackReader,
  recordedValue,
} from "./pack-types.js";
import { checkpointKey, type Snapshot, type StoredCheckpoint, valueKey } from "./queries.js";

export type OpenWrite = Readonly<{ taskId: string; idx: number; taskPath: string; channel: string; text: string }>;

/** A checkpoint with its texts, wherever they were. */
export type OpenCheckpoint = Readonly<{
  threadId: string;
  ns: string;
  checkpointId: string;
  parentId: string | null;
  seq: number;
  /** Text of the head. */
  head: string;
  /** No text: the channel is empty. */
  channels: readonly Readonly<{ channel: string; version: string; text: string | undefined }>[];
  /** In the order (task_path, task_id, idx). */
  writes: readonly OpenWrite[];
}>;

export type BodiesFound = Map<string, Buffer>;

/** Adds the bodies that the checkpoints, or only some channels of them, need to `found`. */
export async function openSnapshot(
  snapshot: Snapshot,
  tenantId: string,
  bodies: BodyReader,
  found: BodiesFound,
  only?: ReadonlySet<string>,
): Promise<OpenCheckpoint[]> {
  const texts = await openTexts(snapshot, bodies.packs);
  const opened = only === undefined ? texts : texts.map((checkpoint) => restrict(checkpoint, only));
  for (const [threadId, keys] of keysByThread(opened)) {
    const loaded = await bodies.load(tenantId, threadId, keys, snapshot.nodes);
    for (const [key, { data }] of loaded) found.set(key, data);
  }
  return opened;
}

/** The checkpoints with their own texts; of what these name nothing is read. */
export async function openTexts(snapshot: Snapshot, packs: PackReader): Promise<OpenCheckpoint[]> {
  const records = await readRecords(snapshot, packs);
  return snapshot.checkpoints.map((row) => {
    const record = records.get(row);
    const content =
      row.here === null && record !== undefined ? contentMoved(record) : contentHere(snapshot, row, record);
    const { threadId, ns, checkpointId, parentId, seq } = row;
    const writes = mergeWrites<OpenWrite>(
      record === undefined ? [] : countedWrites(record, row.writtenBy),
      writesHere(snapshot, row),
    );
    return { threadId, ns, checkpointId, parentId, seq, ...content, writes };
  });
}

async function readRecords(
  { checkpoints, packs }: Snapshot,
  reader: PackReader,
): Promise<Map<StoredCheckpoint, CheckpointRecord>> {
  const blocks = new Map<string, Set<number>>();
  for (const { place } of checkpoints) {
    if (place !== null) blocks.set(place.packId, (blocks.get(place.packId) ?? new Set()).add(place.block));
  }
  const read = new Map<string, ReadonlyMap<number, PackBlock>>();
  await Promise.all(
    [...blocks].map(async ([packId, numbers]) => {
      const pack = packs.get(packId);
      if (pack !== undefined) read.set(packId, await reader.readBlocks(pack, [...numbers]));
    }),
  );
  const records = new Map<StoredCheckpoint, CheckpointRecord>();
  for (const row of checkpoints) {
    if (row.place === null) continue;
    const { packId, block } = row.place;
    const record = read.get(packId)?.get(block)?.checkpoints.get(checkpointRecordKey(row.ns, row.checkpointId));
    if (record === undefined) {
      throw new EngineError(
        "body_missing",
        `Checkpoint ${row.checkpointId} of thread ${row.threadId} isn't in block ${block} of pack ${packId}`,
      );
    }
    records.set(row, record);
  }
  return records;
}

type Content = Pick<OpenCheckpoint, "head" | "channels">;

/** `record`: of a checkpoint that was put again, maybe by somebody who took its unchanged values for stored. */
function contentHere(
  { values }: Snapshot,
  { threadId, ns, here }: StoredCheckpoint,
  record?: CheckpointRecord,
): Content {
  const { channels = [], versions = [], head } = here ?? {};
  return {
    head: head?.toString("utf8") ?? "",
    channels: channels.map((channel, i) => {
      const version = versions[i] ?? "";
      const text = values.get(valueKey(threadId, ns, channel, version))?.toString("utf8");
      return { channel, version, text: text ?? (record && recordedValue(record, channel, version)) };
    }),
  };
}

function contentMoved(record: CheckpointRecord): Content {
  const texts = new Map(record.values);
  return {
    head: JSON.stringify(record.head),
    channels: record.channels.map((channel, i) => ({
      channel,
      version: record.versions[i] ?? "",
      text: texts.get(i),
    })),
  };
}

function restrict(checkpoint: OpenCheckpoint, only: ReadonlySet<string>): OpenCheckpoint {
  const isWanted = ({ channel }: Readonly<{ channel: string }>) => only.has(channel);
  return {
    ...checkpoint,
    channels: checkpoint.channels.filter(isWanted),
    writes: checkpoint.writes.filter(isWanted),
  };
}

function writesHere(snapshot: Snapshot, { threadId, ns, checkpointId }: StoredCheckpoint): OpenWrite[] {
  const writes = snapshot.writes.get(checkpointKey(threadId, ns, checkpointId)) ?? [];
  return writes.map(({ data, ...write }) => ({ ...write, text: data.toString("utf8") }));
}

function keysByThread(opened: readonly OpenCheckpoint[]): Map<string, Set<string>> {
  const keys = new Map<string, Set<string>>();
  const seen = new Set<string>();
  for (const { threadId, channels, writes } of opened) {
    const ofThread = keys.get(threadId) ?? new Set();
    for (const { text } of [...channels, ...writes]) {
      if (text === undefined || seen.has(text)) continue;
      seen.add(text);
      for (const key of referencesIn(text)) ofThread.add(key);
    }
    if (ofThread.size > 0) keys.set(threadId, ofThread);
  }
  return keys;
}
