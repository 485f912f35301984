// Reads what of a thread is to be moved next and writes it into one pack, outside of any transaction. What it returns says
// which rows it saw, so that the transaction afterwards touches these only.
import type { Deps } from "../core/deps.js";
import { isEngineError } from "../core/errors.js";
import {
  checkpointsWithLateWrites,
  type CurrentState,
  currentState,
  type PlacedCheckpoint,
  type RecordPlace,
  type StoredWrite,
  stagedNodes,
  type ThreadKey,
  type UnmovedCheckpoint,
  unmovedCheckpoints,
  valuesAt,
  writesOf,
} from "../checkpoint/move-queries.js";
import { mergeWrites } from "../checkpoint/merge-writes.js";
import { inlineMessages } from "../checkpoint/message-facts.js";
import { createPackWriter, type PackFile } from "../checkpoint/pack.js";
import {
  type CheckpointRecord,
  checkpointRecordKey,
  countedWrites,
  type PackReader,
  type RecordedWrite,
  recordedValue,
  toRecorded,
} from "../checkpoint/pack-types.js";
import type { PlacedRun } from "../runs/content.js";
import { addBodies, gatherRuns, type GatheringRuns } from "./gather-runs.js";

export type GatheredPack = Readonly<{
  file: PackFile;
  nodes: readonly Readonly<{ hash: Buffer; block: number }>[];
  checkpoints: readonly PlacedCheckpoint[];
  /** What the running run works on: it stays, but all bodies that its messages need are moved with this pack. */
  current: CurrentState | undefined;
  /** Writes that are in the records of `checkpoints`. */
  writes: readonly StoredWrite[];
  runs: readonly PlacedRun[];
  effects: GatheringRuns["effects"];
  /** Bodies that the pack's records name and that must still be there when it is placed. */
  relied: readonly Buffer[];
  /** There was nothing else to move. */
  complete: boolean;
}>;

export type GatherOptions = Readonly<{
  packs: PackReader;
  /** Content of one pack before it is compressed, about: the last row may go beyond. */
  maxBytes: number;
  /** A run is running: the newest checkpoint of each ns is what it works on. */
  keepNewest: boolean;
}>;

/** How many checkpoints or late checkpoints are read at a time: bounds what is held in memory. */
const PAGE = 32;

type Gathering = GatheringRuns & {
  readonly options: GatherOptions;
  readonly checkpoints: PlacedCheckpoint[];
  readonly writes: StoredWrite[];
};

/** The next pack of the thread, or undefined when there is nothing left to move. */
export async function gatherPack(
  deps: Deps,
  key: ThreadKey,
  options: GatherOptions,
): Promise<GatheredPack | undefined> {
  const into: Gathering = {
    deps,
    key,
    options,
    writer: createPackWriter(),
    bytesLeft: options.maxBytes,
    nodes: [],
    checkpoints: [],
    writes: [],
    runs: [],
    effects: [],
    relied: [],
    readable: (read) => readable(deps, key, read),
  };
  // First: what it needs is staged by then.
  const newest = options.keepNewest ? await currentState(deps.db, key) : undefined;
  await gatherNodes(into);
  await gatherCheckpoints(into);
  const current = newest && (await gatherMessages(into, newest));
  const lateOnes = await gatherLateWrites(into);
  const finished = await gatherRuns(into);
  const complete = into.bytesLeft > 0 && lateOnes === "all" && finished === "all";
  const { nodes, checkpoints, writes, runs, effects, relied } = into;
  if (nodes.length + checkpoints.length + runs.length === 0) return undefined;
  const file = await into.writer.finish();
  return { file, nodes, checkpoints, current, writes, runs, effects, relied, complete };
}

async function gatherNodes(into: Gathering): Promise<void> {
  for (const node of await stagedNodes(into.deps.db, into.key, into.bytesLeft)) {
    const block = await into.readable(() => into.writer.addNode(node));
    if (block !== undefined) into.nodes.push({ hash: node.hash, block });
    into.bytesLeft -= node.data.length;
  }
}

async function gatherCheckpoints(into: Gathering): Promise<void> {
  const { keepNewest } = into.options;
  for (let afterSeq = -1; into.bytesLeft > 0; ) {
    const page = await unmovedCheckpoints(into.deps.db, into.key, { afterSeq, limit: PAGE, keepNewest });
    const values = await valuesOf(into, page);
    // Short conversations stand in the record itself; with bodies of their own, manifests can name their messages.
    for (const text of values.values()) await addBodies(into, inlineMessages(text));
    const writes = groupWrites(await writesOf(into.deps.db, into.key, page));
    for (const checkpoint of page) {
      if (into.bytesLeft <= 0) return;
      const { ns, checkpointId, channels, versions, moved } = checkpoint;
      afterSeq = checkpoint.seq;
      const recordKey = checkpointRecordKey(ns, checkpointId);
      const before = moved && (await into.readable(() => recordOf(into.options.packs, moved, recordKey)));
      if (before === undefined) continue;
      const own = writes.get(recordKey) ?? [];
      const record: CheckpointRecord = {
        head: null,
        channels,
        versions,
        values: channels.flatMap((channel, i) => {
          const version = versions[i] ?? "";
          const text =
            values.get(valueKey(ns, channel, version)) ??
            (before ? recordedValue(before, channel, version) : undefined);
          return text === undefined ? [] : [[i, text] as const];
        }),
        writes: mergedWrites(checkpoint, before, own),
      };
      await addCheckpoint(into, checkpoint, checkpoint.head.toString("utf8"), record, own);
    }
    if (page.length < PAGE) return;
  }
}

/** Bodies for the messages of the state that stays. Not for its sake alone: a run that ends soon has it moved anyway. */
async function gatherMessages(into: Gathering, current: CurrentState): Promise<CurrentState | undefined> {
  if (into.bytesLeft <= 0 || into.checkpoints.length === 0) return undefined;
  for (const text of (await valuesOf(into, [current])).values()) await addBodies(into, inlineMessages(text));
  return current;
}

const valueKey = (ns: string, channel: string, version: string) => `${ns}\0${version}\0${channel}`;

/** The texts of all values that these checkpoints name. */
async function valuesOf(
  into: Gathering,
  page: readonly Pick<UnmovedCheckpoint, "ns" | "channels" | "versions">[],
): Promise<Map<string, string>> {
  const wanted = new Map<string, { ns: string; channel: string; version: string }>();
  for (const { ns, channels, versions } of page) {
    channels.forEach((channel, i) => {
      const version = versions[i] ?? "";
      wanted.set(valueKey(ns, channel, version), { ns, channel, version });
    });
  }
  const values = await valuesAt(into.deps.db, into.key, [...wanted.values()]);
  return new Map(values.map((v) => [valueKey(v.ns, v.channel, v.version), v.data.toString("utf8")]));
}

/** Writes that came after their checkpoint was moved: its record is written again, with them. */
async function gatherLateWrites(into: Gathering): Promise<"all" | "some"> {
  if (into.bytesLeft <= 0) return "some";
  const { packs, keepNewest } = into.options;
  const late = await checkpointsWithLateWrites(into.deps.db, into.key, { limit: PAGE, keepNewest });
  const writes = groupWrites(await writesOf(into.deps.db, into.key, late));
  for (const checkpoint of late) {
    const recordKey = checkpointRecordKey(checkpoint.ns, checkpoint.checkpointId);
    const added = writes.get(recordKey) ?? [];
    const record = await into.readable(() => recordOf(packs, checkpoint.moved, recordKey));
    if (record === undefined || added.length === 0) continue;
    const merged = { ...record, writes: mergedWrites(checkpoint, record, added) };
    await addCheckpoint(into, checkpoint, JSON.stringify(record.head), merged, added);
  }
  return late.length < PAGE ? "all" : "some";
}

async function recordOf(packs: PackReader, { pack, block }: RecordPlace, recordKey: string): Promise<CheckpointRecord> {
  const record = (await packs.readBlocks(pack, [block])).get(block)?.checkpoints.get(recordKey);
  if (record === undefined) throw new Error(`pack ${pack.packId} lacks the record of a checkpoint`);
  return record;
}

/** What counts in the record of before, and the writes that are in Postgres; each with its run when that is another's. */
function mergedWrites(
  { runId, moved }: Pick<UnmovedCheckpoint, "runId" | "moved">,
  before: CheckpointRecord | null,
  here: readonly StoredWrite[],
): CheckpointRecord["writes"] {
  const recorded = before === null ? [] : countedWrites(before, moved?.writtenBy ?? null);
  const later = here.map(({ data, ...write }) => ({
    ...write,
    text: data.toString("utf8"),
    runId: write.runId === runId ? null : write.runId,
  }));
  return mergeWrites<RecordedWrite>(recorded, later).map(toRecorded);
}

async function addCheckpoint(
  into: Gathering,
  at: Readonly<{ ns: string; checkpointId: string; rowVersion: string }>,
  head: string,
  record: CheckpointRecord,
  writes: readonly StoredWrite[],
): Promise<void> {
  const { ns, checkpointId, rowVersion } = at;
  const block = await into.writer.addCheckpoint({ ...record, ns, checkpointId, head });
  const writtenBy = [...new Set(record.writes.flatMap(([, , , , , runId = []]) => runId))];
  into.checkpoints.push({ ns, checkpointId, rowVersion, block, writtenBy });
  into.writes.push(...writes);
  into.bytesLeft -= head.length;
  for (const [, text] of record.values) into.bytesLeft -= text.length;
  for (const write of record.writes) into.bytesLeft -= write[4].length;
}

function groupWrites(writes: readonly StoredWrite[]): Map<string, StoredWrite[]> {
  const groups = new Map<string, StoredWrite[]>();
  for (const write of writes) {
    const recordKey = checkpointRecordKey(write.ns, write.checkpointId);
    const group = groups.get(recordKey);
    if (group) group.push(write);
    else groups.set(recordKey, [write]);
  }
  return groups;
}

/** What can't be read stays where it is and stops nothing else: one damaged body, one lost object. */
async function readable<T>(deps: Deps, key: ThreadKey, read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!isEngineError(error, "body_missing") && !isEngineError(error, "body_corrupt")) throw error;
    const { tenantId, threadId } = key;
    deps.log.error(
      { tenant_id: tenantId, thread_id: threadId, code: error.code, key: String(error.details["key"] ?? "") },
      "a part of a thread can't be moved",
    );
    return undefined;
  }
}
