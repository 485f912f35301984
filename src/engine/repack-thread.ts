// Makes the object store forget what nothing points to: packs without pointers are given up, and of packs with few the rest is
// written into a new one. It needs no lease, only the thread's lock for the moment of the swap, and may die at any point: it is
// found by what is in the tables, and begun again.
import type { ThreadKey } from "../checkpoint/move-queries.js";
import { createPackWriter, type PackFile, type PackWriter } from "../checkpoint/pack.js";
import { createPackReader } from "../checkpoint/pack-reader.js";
import { checkpointRecordKey, countedWrites, type PackReader, toRecorded } from "../checkpoint/pack-types.js";
import { markPackStored } from "../checkpoint/packs.js";
import {
  type PointerRow,
  pointersInto,
  type RepackedBody,
  type RepackedCheckpoint,
  repoint,
  retirePacks,
  type SparsePack,
  sparsePacks,
} from "../checkpoint/prune/pack-queries.js";
import type { Deps } from "../core/deps.js";
import { EngineError, isBodyLost } from "../core/errors.js";
import type { PackId, RunId } from "../core/ids.js";
import { contentPacks, contentPlaces, packsOfRuns, type RepackedRun, repointRuns } from "../runs/content.js";
import { lockUnfinishedRuns } from "../runs/runs.js";
import { askForNewManifests } from "../runs/manifests.js";
import { lockThread } from "../runs/thread-lock.js";
import { writeManifests } from "./manifest.js";
import { readRunRecord } from "./run-content.js";
import { type StoreStep, storePack } from "./store-pack.js";

export type RepackOptions = Readonly<{
  /** How long an object that nothing points to any more stays for readers that were on their way to it. */
  graceMs?: number;
  /** For tests: called between the steps. */
  reached?: (step: StoreStep) => Promise<void> | void;
}>;

export type Repacked = Readonly<{ rewritten: number; retired: number }>;

/** Half of its entries or fewer: rewriting the rest costs less than keeping the whole. */
const SPARSE = 0.5;
const GRACE_MS = 10 * 60_000;
/** Bytes of packs that are emptied into one, about. */
const BATCH_BYTES = 8 * 1024 * 1024;
const CACHE_BYTES = 32 * 1024 * 1024;

/** Throws `unavailable` when the object store or the database is away. */
export async function repackThread(deps: Deps, key: ThreadKey, options: RepackOptions = {}): Promise<Repacked> {
  const graceMs = options.graceMs ?? GRACE_MS;
  const packs = createPackReader(deps.bodies, { cacheBytes: CACHE_BYTES });
  const left: string[] = [];
  let rewritten = 0;
  let retired = await retire(deps, key, graceMs);
  for (;;) {
    const runs = await contentPacks(deps.db, key);
    const sparse = await sparsePacks(deps.db, key, { share: SPARSE, runs, except: left });
    if (sparse.length === 0) {
      await writeManifests(deps, key, packs);
      return { rewritten, retired };
    }
    const rest = await gatherRest(deps, key, packs, sparse);
    // Seen once a round: what could not be read, and a new pack that is sparse itself, must not come round for ever.
    left.push(...rest.from);
    if (rest.file === undefined) continue;
    const place = (packId: PackId) => swap(deps, key, packId, rest, graceMs);
    const given = await storePack(deps, key, rest.file, place, options.reached ?? (() => {}));
    if (given === undefined) continue;
    rewritten += rest.from.length;
    retired += given;
  }
}

async function retire(deps: Deps, key: ThreadKey, graceMs: number): Promise<number> {
  return deps.db.tx(async (sql) => {
    if ((await lockThread(sql, key)) === undefined) return 0;
    await lockUnfinishedRuns(sql, key);
    return retirePacks(sql, key, { inUse: await packsOfRuns(sql, key), graceMs });
  });
}

type Rest = Readonly<{
  from: readonly string[];
  /** Undefined when nothing of it could be read. */
  file: PackFile | undefined;
  bodies: readonly RepackedBody[];
  checkpoints: readonly RepackedCheckpoint[];
  runs: readonly RepackedRun[];
}>;

type Gathering = {
  writer: PackWriter;
  bodies: RepackedBody[];
  checkpoints: RepackedCheckpoint[];
  runs: RepackedRun[];
};

/** What is in use of as many sparse packs as fit into one. */
async function gatherRest(deps: Deps, key: ThreadKey, packs: PackReader, sparse: readonly SparsePack[]): Promise<Rest> {
  const into: Gathering = { writer: createPackWriter(), bodies: [], checkpoints: [], runs: [] };
  const from: string[] = [];
  let bytes = 0;
  for (const pack of sparse) {
    if (bytes > 0 && bytes + pack.bytes > BATCH_BYTES) break;
    bytes += pack.bytes;
    from.push(pack.address.packId);
    await addPack(deps, key, packs, pack, into);
  }
  const { writer, ...moved } = into;
  const some = moved.bodies.length + moved.checkpoints.length + moved.runs.length > 0;
  return { from, ...moved, file: some ? await writer.finish() : undefined };
}

async function addPack(
  deps: Deps,
  key: ThreadKey,
  packs: PackReader,
  pack: SparsePack,
  into: Gathering,
): Promise<void> {
  const { packId } = pack.address;
  try {
    for (const [number, pointers] of byBlock(await pointersInto(deps.db, key, packId))) {
      await addBlock(packs, pack, number, pointers, into);
    }
    for (const run of await contentPlaces(deps.db, key, packId)) await addRun(deps, key, packs, run, into);
  } catch (error) {
    // What is damaged stays where it is: its readers say so.
    if (!isBodyLost(error)) throw error;
    const fields = { tenant_id: key.tenantId, thread_id: key.threadId, code: error.code, key: pack.address.key };
    deps.log.error(fields, "a part of a pack can't be written anew");
  }
}

/** A record of before there were bodies in them can't stand among those of now: it stays where it is. */
async function addRun(
  deps: Deps,
  key: ThreadKey,
  packs: PackReader,
  run: Readonly<{ runId: RunId; packId: string; block: number }>,
  into: Gathering,
): Promise<void> {
  let at: number | undefined;
  for await (const { f, request, error, stream, effects = [], more = false } of readRunRecord(
    deps,
    packs,
    key.tenantId,
    run.runId,
    run,
  )) {
    if (f !== 1) return;
    const placed = await into.writer.addRun({
      runId: run.runId,
      request: textOrNull(request),
      error: textOrNull(error),
      stream: stream.map((event) => JSON.stringify(event)),
      effects: effects.map((each) => JSON.stringify(each)),
      more,
    });
    at ??= placed;
  }
  if (at !== undefined) into.runs.push({ runId: run.runId, from: run.packId, block: at });
}

async function addBlock(
  packs: PackReader,
  { address }: SparsePack,
  number: number,
  pointers: readonly PointerRow[],
  into: Gathering,
): Promise<void> {
  const block = (await packs.readBlocks(address, [number])).get(number);
  for (const { hash, ns, checkpointId, deltaChannels, writtenBy } of pointers) {
    if (hash !== null) {
      const node = block?.nodes.get(hash.toString("base64url"));
      if (node === undefined) throw notInBlock(address.key, number);
      into.bodies.push({ hash, from: address.packId, block: await into.writer.addNode({ hash, ...node }) });
    } else if (ns !== null && checkpointId !== null) {
      const record = block?.checkpoints.get(checkpointRecordKey(ns, checkpointId));
      if (record === undefined) throw notInBlock(address.key, number);
      const isNeeded = (channel: string | undefined) =>
        deltaChannels === null || (channel !== undefined && deltaChannels.includes(channel));
      const at = await into.writer.addCheckpoint({
        ...record,
        ns,
        checkpointId,
        head: JSON.stringify(record.head),
        values: record.values.filter(([channel]) => isNeeded(record.channels[channel])),
        writes: countedWrites(record, writtenBy)
          .filter(({ channel }) => isNeeded(channel))
          .map(toRecorded),
      });
      into.checkpoints.push({ ns, checkpointId, from: address.packId, block: at });
    }
  }
}

/** The swap. Undefined when the thread is gone, the pack was doomed or nothing was left to point to it. */
async function swap(
  deps: Deps,
  key: ThreadKey,
  packId: PackId,
  rest: Rest,
  graceMs: number,
): Promise<number | undefined> {
  try {
    return await deps.db.tx(async (sql) => {
      if ((await lockThread(sql, key)) === undefined) throw new Unplaced();
      await lockUnfinishedRuns(sql, key);
      if (!(await markPackStored(sql, { ...key, packId }))) throw new Unplaced();
      const moved = (await repoint(sql, key, packId, rest)) + (await repointRuns(sql, key, packId, rest.runs));
      if (moved === 0) throw new Unplaced();
      await askForNewManifests(sql, key);
      return retirePacks(sql, key, { inUse: await packsOfRuns(sql, key), graceMs });
    });
  } catch (error) {
    if (error instanceof Unplaced) return undefined;
    throw error;
  }
}

/** Rolls the transaction back. */
class Unplaced extends Error {}

function byBlock(pointers: readonly PointerRow[]): Map<number, PointerRow[]> {
  const blocks = new Map<number, PointerRow[]>();
  for (const pointer of pointers) {
    const block = blocks.get(pointer.block);
    if (block) block.push(pointer);
    else blocks.set(pointer.block, [pointer]);
  }
  return blocks;
}

function notInBlock(objectKey: string, block: number): EngineError {
  return new EngineError("body_missing", `block ${block} of ${objectKey} lacks what it should hold`, {
    details: { key: objectKey },
  });
}

const textOrNull = (value: unknown) => (value === null || value === undefined ? null : JSON.stringify(value));
