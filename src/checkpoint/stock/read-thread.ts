// A thread of a stock PostgresSaver, in parts of bounded size and in the order in which it was made, ready to be put into
// our saver. Each part is read in one read-only transaction; nothing is held open in between.
import type { ChannelVersions, Checkpoint } from "@langchain/langgraph-checkpoint";
import type { Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import { isUuid } from "../../core/ids.js";
import type { WriteInput } from "../drafts.js";
import { inOrder } from "../merge-writes.js";
import { decodeStock, type Foreign } from "./decode.js";
import { inOrderOfMaking } from "./order.js";
import {
  type StockCheckpointRow,
  stockCheckpoints,
  stockKey,
  stockLabels,
  type StockLink,
  type StockOutline,
  stockOutline,
  type StockShape,
  stockValueKey,
  type StockValueRow,
  stockValues,
  type StockWriteRow,
  stockWrites,
} from "./tables.js";
import { createVersionMap, type Version } from "./versions.js";

/** Runs `work` on one state of the source. */
export type Look = <T>(work: (sql: Sql) => Promise<T>) => Promise<T>;

type Fields = Readonly<Record<string, unknown>>;

/** What a blob held, for whoever wants to read it once more. */
export type StockBlob = Readonly<{
  channel: string;
  type: string;
  blob: Buffer | null;
  value: unknown;
  foreign: readonly Foreign[];
}>;

export type StockCheckpoint = StockLink &
  Readonly<{
    /** With our versions, and those values only that `newVersions` names. */
    checkpoint: Checkpoint;
    metadata: Fields;
    newVersions: ChannelVersions;
    /** The channels that have a value, given here or before. */
    filled: readonly string[];
    /** In the order (task_path, task_id, idx). */
    writes: readonly WriteInput[];
    /** What it was made from. */
    raw: Readonly<{ metadata: StockBlob; values: readonly StockBlob[]; writes: readonly StockBlob[] }>;
  }>;

export type StockThread = Readonly<{
  checkpoints: number;
  /** How its application labels it. */
  labels: Fields;
  parts(): AsyncGenerator<readonly StockCheckpoint[]>;
}>;

const PART_BYTES = 8 * 1024 * 1024;
const PART_CHECKPOINTS = 64;

/**
 * Opens a thread. Its parts throw `value_unsupported` naming checkpoint and channel for what can't be kept, and `conflict`
 * at the end when somebody wrote to the thread meanwhile.
 */
export async function openStockThread(look: Look, threadId: string, shape: StockShape): Promise<StockThread> {
  const outline = await look((sql) => stockOutline(sql, threadId));
  const labels = shape.labels ? await look((sql) => stockLabels(sql, threadId)) : {};
  const order = inOrderOfMaking(outline.checkpoints);
  const reader: Reader = {
    look,
    threadId,
    shape,
    outline,
    versionOf: createVersionMap(),
    seen: new Set(),
    last: new Map(),
  };
  return { checkpoints: order.length, labels, parts: () => partsOf(reader, order) };
}

type Reader = Readonly<{
  look: Look;
  threadId: string;
  shape: StockShape;
  outline: StockOutline;
  versionOf: (version: Version) => string;
  /** Values that were given already, by `stockValueKey`. */
  seen: Set<string>;
  /** By namespace: the checkpoint given last. */
  last: Map<string, string>;
}>;

/** A checkpoint's row, and which of its channels' values go with it. */
type Wanted = Readonly<{
  link: StockLink;
  row: StockCheckpointRow;
  versions: Readonly<Record<string, Version>>;
  channels: readonly string[];
}>;

async function* partsOf(reader: Reader, order: readonly StockLink[]): AsyncGenerator<readonly StockCheckpoint[]> {
  const { look, threadId, outline } = reader;
  for (let from = 0; from < order.length; from += PART_CHECKPOINTS) {
    const links = order.slice(from, from + PART_CHECKPOINTS);
    const rows = await look((sql) => stockCheckpoints(sql, threadId, links));
    const byKey = new Map(rows.map((row) => [stockKey(row), row]));
    let part: Wanted[] = [];
    let bytes = 0;
    for (const link of links) {
      const wanted = wantedOf(reader, link, byKey.get(stockKey(link)));
      const size = sizeOf(outline, wanted);
      if (part.length > 0 && bytes + size > PART_BYTES) {
        yield await readPart(reader, part);
        part = [];
        bytes = 0;
      }
      part.push(wanted);
      bytes += size;
    }
    yield await readPart(reader, part);
  }
  const { fingerprint } = await look((sql) => stockOutline(sql, threadId));
  if (fingerprint !== outline.fingerprint) throw changed(threadId);
}

/** Once a value was given its row stands for it; on a branch all go again, since the saver can't know where theirs are now. */
function wantedOf(reader: Reader, link: StockLink, row: StockCheckpointRow | undefined): Wanted {
  if (row === undefined) throw changed(reader.threadId);
  const { ns, checkpointId, parentId } = link;
  for (const id of [checkpointId, parentId]) {
    if (id !== null && !isUuid(id))
      throw refused(link, `has the id ${JSON.stringify(id.slice(0, 80))}, which is no UUID`);
  }
  if (Object.keys((row.checkpoint["channel_values"] as object | undefined) ?? {}).length > 0) {
    throw refused(link, "holds values itself, as LangGraph for Python stores them");
  }
  const versions = (row.checkpoint["channel_versions"] ?? {}) as Readonly<Record<string, Version>>;
  const follows = parentId === null || parentId === reader.last.get(ns);
  reader.last.set(ns, checkpointId);
  const channels = Object.keys(versions).filter((channel) => {
    const key = stockValueKey({ ns, channel, version: String(versions[channel]) });
    const isNew = !reader.seen.has(key);
    reader.seen.add(key);
    return isNew || !follows;
  });
  return { link, row, versions, channels };
}

function sizeOf(outline: StockOutline, { link, versions, channels }: Wanted): number {
  const { ns } = link;
  const ofValue = (channel: string) =>
    outline.valueBytes.get(stockValueKey({ ns, channel, version: String(versions[channel]) })) ?? 0;
  return channels.reduce((sum, channel) => sum + ofValue(channel), outline.writeBytes.get(stockKey(link)) ?? 0);
}

async function readPart(reader: Reader, part: readonly Wanted[]): Promise<StockCheckpoint[]> {
  const { look, threadId, shape } = reader;
  const keys = part.flatMap(({ link: { ns }, versions, channels }) =>
    channels.map((channel) => ({ ns, channel, version: String(versions[channel]) })),
  );
  const { values, writes } = await look(async (sql) => ({
    values: await stockValues(sql, threadId, keys),
    writes: await stockWrites(
      sql,
      threadId,
      part.map(({ link }) => link),
      shape,
    ),
  }));
  const valueRows = new Map(values.map((row) => [stockValueKey(row), row]));
  const writeRows = new Map<string, StockWriteRow[]>();
  for (const row of writes) {
    const key = stockKey(row);
    const ofCheckpoint = writeRows.get(key);
    if (ofCheckpoint === undefined) writeRows.set(key, [row]);
    else ofCheckpoint.push(row);
  }
  return part.map((wanted) => {
    try {
      return checkpointOf(reader, wanted, valueRows, writeRows.get(stockKey(wanted.link)) ?? []);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      throw new EngineError(error.code, `${placeOf(wanted.link)}: ${error.message}`, { cause: error });
    }
  });
}

function checkpointOf(
  { versionOf, outline }: Reader,
  { link, row, versions, channels }: Wanted,
  valueRows: ReadonlyMap<string, StockValueRow>,
  writeRows: readonly StockWriteRow[],
): StockCheckpoint {
  const keyOf = (channel: string) => stockValueKey({ ns: link.ns, channel, version: String(versions[channel]) });
  const filled = Object.keys(versions).filter((channel) => outline.valueBytes.has(keyOf(channel)));
  const values = channels.flatMap((channel) => {
    const found = valueRows.get(keyOf(channel));
    return found === undefined || found.type === "empty" ? [] : [blobOf(found)];
  });
  const mapped = mapVersions(versions, versionOf);
  const seen = (row.checkpoint["versions_seen"] ?? {}) as Readonly<Record<string, Readonly<Record<string, Version>>>>;
  const checkpoint = {
    ...row.checkpoint,
    id: link.checkpointId,
    channel_values: Object.fromEntries(values.map(({ channel, value }) => [channel, value])),
    channel_versions: mapped,
    versions_seen: Object.fromEntries(
      Object.entries(seen).map(([node, ofNode]) => [node, mapVersions(ofNode, versionOf)]),
    ),
  } as unknown as Checkpoint;
  // Postgres parsed it, and the stock saver takes it through its serializer once more.
  const metadata = blobOf({ channel: "metadata", type: "json", blob: Buffer.from(JSON.stringify(row.metadata)) });
  const writes = inOrder(writeRows).map((write) => ({ write, raw: blobOf(write) }));
  return {
    ...link,
    checkpoint,
    metadata: metadata.value as Fields,
    newVersions: Object.fromEntries(channels.map((channel) => [channel, mapped[channel] as string])),
    filled,
    writes: writes.map(({ write: { taskId, idx, taskPath, channel }, raw: { value } }) => {
      return { taskId, idx, taskPath, channel, value };
    }),
    raw: { metadata, values, writes: writes.map(({ raw }) => raw) },
  };
}

function blobOf({ channel, type, blob }: Readonly<{ channel: string; type: string; blob: Buffer | null }>): StockBlob {
  const foreign: Foreign[] = [];
  return { channel, type, blob, value: decodeStock(type, blob, channel, foreign), foreign };
}

function mapVersions(
  versions: Readonly<Record<string, Version>>,
  versionOf: Reader["versionOf"],
): Record<string, string> {
  return Object.fromEntries(Object.entries(versions).map(([channel, version]) => [channel, versionOf(version)]));
}

function placeOf({ ns, checkpointId }: StockLink): string {
  return `Checkpoint ${checkpointId}${ns === "" ? "" : ` of namespace ${JSON.stringify(ns)}`}`;
}

function refused(link: StockLink, why: string): EngineError {
  return new EngineError("value_unsupported", `${placeOf(link)} ${why}.`);
}

function changed(threadId: string): EngineError {
  return new EngineError(
    "conflict",
    `Thread ${JSON.stringify(threadId)} was written to while it was read. Stop what writes to it, then adopt it again.`,
  );
}
