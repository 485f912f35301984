// What a pack holds and how it is read: the agreement between who writes packs (mover), who reads them and the saver.

/** A body as a pack keeps it: kind 0 is text, 1 a JSON node (its references are found by parsing), 2 raw bytes. */
export type PackedNode = Readonly<{ kind: 0 | 1 | 2; data: Buffer }>;

/** Everything of one checkpoint that left Postgres. Value and write texts are the `data` columns as UTF-8 text. */
export type CheckpointRecord = Readonly<{
  /** The parsed `checkpoints.head`. */
  head: unknown;
  channels: readonly string[];
  versions: readonly string[];
  /** [index into channels, text]; a channel without an entry is empty at its version. */
  values: readonly (readonly [channelIndex: number, data: string])[];
  /** In the order (task_path, task_id, idx) by code point. With a run: that wrote it, and is another than the checkpoint's. */
  writes: readonly (readonly [
    taskId: string,
    idx: number,
    taskPath: string,
    channel: string,
    data: string,
    runId?: string,
  ])[];
}>;

/** A write of a record by names; without a run it is the checkpoint's own. */
export type RecordedWrite = Readonly<{
  taskId: string;
  idx: number;
  taskPath: string;
  channel: string;
  text: string;
  runId: string | null;
}>;

/** The writes that count: those of the checkpoint's own run and of the others that its row lists, as none is rolled back. */
export function countedWrites(record: CheckpointRecord, writtenBy: readonly string[] | null): RecordedWrite[] {
  const counts = (runId: string | null) => runId === null || writtenBy?.includes(runId) === true;
  return record.writes
    .map(([taskId, idx, taskPath, channel, text, runId = null]) => ({ taskId, idx, taskPath, channel, text, runId }))
    .filter(({ runId }) => counts(runId));
}

/** As it stands in a record. */
export function toRecorded(write: RecordedWrite): CheckpointRecord["writes"][number] {
  const { taskId, idx, taskPath, channel, text, runId } = write;
  return runId === null ? [taskId, idx, taskPath, channel, text] : [taskId, idx, taskPath, channel, text, runId];
}

/** The text of a channel in a record, if it has that version of it. */
export function recordedValue(record: CheckpointRecord, channel: string, version: string): string | undefined {
  const at = record.channels.indexOf(channel);
  return record.versions[at] === version ? record.values.find(([index]) => index === at)?.[1] : undefined;
}

/** The content of a run that left Postgres: its request, its error, what it streamed. */
export type RunRecord = Readonly<{
  /** 1: request, error and the data of events are kept as state values are, and may name bodies of the thread. */
  f?: 1;
  request: unknown;
  error: unknown;
  stream: readonly Readonly<{ id: number; event: string; data: unknown }>[];
  /** What its effects returned, by their keys. */
  effects?: readonly Readonly<{ key: string; result: unknown }>[];
  /** The stream goes on with the run's record in the next block. */
  more?: boolean;
}>;

/** One gzip member of a pack, parsed. Its bytes were checked against the hash in its pack's row, each node against its own. */
export type PackBlock = Readonly<{
  /** By key: the sha256 in base64url. */
  nodes: ReadonlyMap<string, PackedNode>;
  /** By `checkpointRecordKey`. */
  checkpoints: ReadonlyMap<string, CheckpointRecord>;
  /** By run id. */
  runs: ReadonlyMap<string, RunRecord>;
}>;

/** Where a pack is (a row of `packs`): block i is the bytes [offsets[i], offsets[i + 1]), and hashes[i] their sha256. */
export type PackAddress = Readonly<{
  packId: string;
  key: string;
  offsets: readonly number[];
  hashes: readonly Buffer[];
}>;

export type PackReader = Readonly<{
  /**
   * Reads blocks of one pack, neighbours with one range read; from a cache by pack and block where it can.
   * Throws `body_missing` naming the pack's key when the object is gone, `body_corrupt` when bytes don't match a hash.
   */
  readBlocks(pack: PackAddress, blocks: readonly number[]): Promise<ReadonlyMap<number, PackBlock>>;
}>;

export function checkpointRecordKey(ns: string, checkpointId: string): string {
  return `${ns}\0${checkpointId}`;
}
