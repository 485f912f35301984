// Stored checkpoints as LangGraph's tuples, and the history of delta channels.
import {
  type ChannelVersions,
  type Checkpoint,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  type DeltaChannelHistory,
  maxChannelVersion,
  TASKS,
} from "@langchain/langgraph-checkpoint";
import type { Sql } from "../core/deps.js";
import { EngineError, isEngineError } from "../core/errors.js";
import type { BodyReader } from "./body-reader.js";
import { idOnlyTuple, isBroken, markedTuple } from "./broken-tuple.js";
import { createDecoder, type Decoder } from "./codec/decoder.js";
import { readHead } from "./head.js";
import { type BodiesFound, type OpenCheckpoint, openSnapshot } from "./open-snapshot.js";
import {
  checkpointKey,
  type ListQuery,
  readAncestors,
  readById,
  readByIds,
  readNewest,
  readNewestOfMany,
  readPage,
  type Snapshot,
  type StoredCheckpoint,
} from "./queries.js";

export type ReadOptions = Readonly<{
  sql: Sql;
  tenantId: string;
  bodies: BodyReader;
  /** Lists show checkpoints that can't be read as empty ones with a mark, instead of failing. */
  markBroken?: boolean;
  /** A run goes on from what is read: its breakpoints have seen all of it. */
  resumes?: boolean;
}>;

/** What a reader learns that its saver can use: bodies that are stored, messages and the node each was read from. */
export type Learn = Readonly<{ bodies(keys: Iterable<string>): void; message(message: object, key: string): void }>;

/** A checkpoint by id, or the newest of its namespace. */
export async function readTuple(
  options: ReadOptions,
  threadId: string,
  ns: string,
  checkpointId: string | null,
  learn?: Learn,
): Promise<CheckpointTuple | undefined> {
  const { sql, tenantId } = options;
  const read = () =>
    checkpointId === null
      ? readNewest(sql, tenantId, threadId, ns)
      : readById(sql, tenantId, threadId, ns, checkpointId);
  const found: BodiesFound = new Map();
  let checkpoint: OpenCheckpoint | undefined;
  try {
    [checkpoint] = await openTwice(options, read, found);
  } catch (error) {
    const row = isBroken(error) && checkpointId === null ? (await read()).checkpoints[0] : undefined;
    if (row === undefined) throw error;
    return idOnlyTuple(row, error as EngineError);
  }
  if (checkpoint === undefined) return undefined;
  learn?.bodies(found.keys());
  return tupleOf(options, checkpoint, decoderOver(found, learn));
}

/** The newest checkpoints of many threads by thread id, read in one go. */
export async function readNewestTuples(
  options: ReadOptions,
  threadIds: readonly string[],
  ns: string,
): Promise<ReadonlyMap<string, CheckpointTuple>> {
  const found: BodiesFound = new Map();
  const read = () => readNewestOfMany(options.sql, options.tenantId, threadIds, ns);
  const tuples = new Map<string, CheckpointTuple>();
  for (const checkpoint of await openTwice(options, read, found)) {
    // A decoder each: threads share no objects.
    tuples.set(checkpoint.threadId, await tupleOf(options, checkpoint, decoderOver(found)));
  }
  return tuples;
}

/** Checkpoints of root graphs in the order of their keys, read in one go; undefined for those that aren't there. */
export async function readTuplesById(
  options: ReadOptions,
  keys: readonly Readonly<{ threadId: string; checkpointId: string }>[],
): Promise<(CheckpointTuple | undefined)[]> {
  const found: BodiesFound = new Map();
  const tuples = new Map<string, CheckpointTuple>();
  for (const opened of await openTwice(options, () => readByIds(options.sql, options.tenantId, keys), found)) {
    const name = checkpointKey(opened.threadId, "", opened.checkpointId);
    // A decoder each: threads share no objects.
    tuples.set(name, await tupleOf(options, opened, decoderOver(found)));
  }
  return keys.map(({ threadId, checkpointId }) => tuples.get(checkpointKey(threadId, "", checkpointId)));
}

/** Who gives no limit may stop soon; who gives one gets what is shared once, by one statement for most lists. */
const FIRST_PAGE = 16;
const PAGE = 128;

/** Newest first. Messages that several checkpoints hold are made once. */
export async function* listTuples(
  options: ReadOptions,
  query: Omit<ListQuery, "beforeSeq" | "limit">,
  limit: number,
): AsyncGenerator<CheckpointTuple> {
  const found: BodiesFound = new Map();
  const decoder = decoderOver(found);
  let beforeSeq: number | null = null;
  for (let left = limit, size = limit <= PAGE ? limit : FIRST_PAGE; left > 0; size = PAGE) {
    const page: ListQuery = { ...query, beforeSeq, limit: Math.min(left, size) };
    const rows = await openPage(options, () => readPage(options.sql, options.tenantId, page), found);
    for (const row of rows) yield "error" in row ? markedTuple(row, row.error) : await tupleOf(options, row, decoder);
    if (rows.length < page.limit) return;
    left -= rows.length;
    beforeSeq = rows.at(-1)?.seq ?? null;
  }
}

type Broken = StoredCheckpoint & Readonly<{ error: EngineError }>;

/** Together, or one by one when one of them is broken and that is to be marked. */
async function openPage(
  options: ReadOptions,
  read: () => Promise<Snapshot>,
  found: BodiesFound,
): Promise<(OpenCheckpoint | Broken)[]> {
  try {
    return await openTwice(options, read, found);
  } catch (error) {
    if (!isBroken(error) || options.markBroken !== true) throw error;
  }
  const snapshot = await read();
  const opened: (OpenCheckpoint | Broken)[] = [];
  for (const row of snapshot.checkpoints) {
    try {
      const single = { ...snapshot, checkpoints: [row] };
      opened.push(...(await openSnapshot(single, options.tenantId, options.bodies, found)));
    } catch (error) {
      if (!isBroken(error)) throw error;
      opened.push({ ...row, error });
    }
  }
  return opened;
}

const ANCESTORS_AT_ONCE = 128;

/** For each channel: the nearest ancestor's value, and the writes from there on, oldest first. */
export async function readDeltaHistory(
  options: ReadOptions,
  threadId: string,
  ns: string,
  checkpointId: string | null,
  channels: readonly string[],
): Promise<Record<string, DeltaChannelHistory>> {
  const found: BodiesFound = new Map();
  const decoder = decoderOver(found);
  const remaining = new Set(channels);
  const newestFirst = new Map<string, CheckpointPendingWrite[]>(channels.map((channel) => [channel, []]));
  const seeds = new Map<string, unknown>();
  let above = checkpointId;
  for (let more = true; more && remaining.size > 0; ) {
    const query = { threadId, ns, checkpointId: above, channels: [...remaining], limit: ANCESTORS_AT_ONCE };
    const read = () => readAncestors(options.sql, options.tenantId, query);
    const chain = await openTwice(options, read, found, new Set(remaining));
    for (const ancestor of chain) {
      for (const write of ancestor.writes.toReversed()) {
        if (remaining.has(write.channel)) newestFirst.get(write.channel)?.push(writeOf(write, decoder));
      }
      for (const { channel, text } of ancestor.channels) {
        if (text === undefined || !remaining.delete(channel)) continue;
        seeds.set(channel, decoder.decode(text));
      }
    }
    above = chain.at(-1)?.checkpointId ?? null;
    more = chain.length === ANCESTORS_AT_ONCE;
  }
  const history: Record<string, DeltaChannelHistory> = {};
  for (const channel of channels) {
    const writes = newestFirst.get(channel)?.toReversed() ?? [];
    history[channel] = seeds.has(channel) ? { writes, seed: seeds.get(channel) } : { writes };
  }
  return history;
}

/** What was moved or packed anew between the statement and the reads is found by a second look. */
async function openTwice(
  { tenantId, bodies }: ReadOptions,
  read: () => Promise<Snapshot>,
  found: BodiesFound,
  only?: ReadonlySet<string>,
): Promise<OpenCheckpoint[]> {
  try {
    return await openSnapshot(await read(), tenantId, bodies, found, only);
  } catch (error) {
    if (!isEngineError(error, "body_missing")) throw error;
    return openSnapshot(await read(), tenantId, bodies, found, only);
  }
}

function decoderOver(found: BodiesFound, learn?: Learn): Decoder {
  const dataOf = (key: string): Buffer => {
    const data = found.get(key);
    if (data === undefined) throw new EngineError("body_missing", `Body ${key} was not loaded with its checkpoint`);
    return data;
  };
  return createDecoder(dataOf, learn?.message);
}

async function tupleOf(options: ReadOptions, opened: OpenCheckpoint, decoder: Decoder): Promise<CheckpointTuple> {
  const { threadId, ns, checkpointId, parentId } = opened;
  const { checkpoint, metadata, numeric } = readHead(opened.head, decoder);
  const isNumeric = new Set(numeric);
  const values: Record<string, unknown> = {};
  const versions: ChannelVersions = {};
  for (const { channel, version, text } of opened.channels) {
    versions[channel] = isNumeric.has(channel) ? Number(version) : version;
    if (text !== undefined) values[channel] = decoder.decode(text);
  }
  if (checkpoint.v < 4 && parentId !== null) await addOldSends(options, threadId, ns, parentId, values, versions);
  const configOf = (id: string) => ({ configurable: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: id } });
  return {
    config: configOf(checkpointId),
    checkpoint: {
      ...(options.resumes ? { ...checkpoint, versions_seen: seenByBreakpoints(checkpoint, versions) } : checkpoint),
      id: checkpointId,
      channel_values: values,
      channel_versions: versions,
    },
    metadata: metadata as NonNullable<CheckpointTuple["metadata"]>,
    ...(parentId === null ? {} : { parentConfig: configOf(parentId) }),
    pendingWrites: opened.writes.map((write) => writeOf(write, decoder)),
  };
}

/**
 * LangGraph marks what a resumed run's breakpoints have seen by the channels that the graph has. A channel that a deploy took
 * away would stay unseen, and stop the run at the same breakpoint for ever.
 */
function seenByBreakpoints({ versions_seen }: Pick<Checkpoint, "versions_seen">, versions: ChannelVersions) {
  return { ...versions_seen, __interrupt__: { ...versions_seen["__interrupt__"], ...versions } };
}

function writeOf(
  { taskId, channel, text }: OpenCheckpoint["writes"][number],
  decoder: Decoder,
): CheckpointPendingWrite {
  return [taskId, channel, decoder.decode(text)];
}

/** Before version 4 a checkpoint's packets were among the writes of its parent. */
async function addOldSends(
  options: ReadOptions,
  threadId: string,
  ns: string,
  parentId: string,
  values: Record<string, unknown>,
  versions: ChannelVersions,
): Promise<void> {
  const found: BodiesFound = new Map();
  const read = () => readById(options.sql, options.tenantId, threadId, ns, parentId, { pruned: true });
  const [parent] = await openTwice(options, read, found, new Set([TASKS]));
  const sends = (parent?.writes ?? []).filter(({ channel }) => channel === TASKS);
  const decoder = decoderOver(found);
  values[TASKS] = sends.map(({ text }) => decoder.decode(text));
  const known = Object.values(versions);
  versions[TASKS] = known.length > 0 ? maxChannelVersion(...known) : FIRST_VERSION;
}

/** Below any version that is made. */
const FIRST_VERSION = "0000000001.000000000000000";
