// Moves the content of one thread from Postgres to the object store: gather, upload, then one short transaction that points
// to what was uploaded and deletes the rows. It may die at any point: before the transaction nothing has changed but a
// pending pack, which the orphan sweep finds; after it everything has.
import type { Deps, Sql } from "../core/deps.js";
import type { PackId } from "../core/ids.js";
import { gatherPack, type GatheredPack } from "./gather-pack.js";
import { type ManifestStep, writeManifests } from "./manifest.js";
import {
  deletePlacedNodes,
  deleteRecordedWrites,
  deleteStrayWrites,
  deleteUnnamedValues,
  hasUnmoved,
  heldBodies,
  placeCheckpoints,
  placeNodes,
  type ThreadKey,
} from "../checkpoint/move-queries.js";
import { createPackReader } from "../checkpoint/pack-reader.js";
import { checkpointRecordKey, type PackReader } from "../checkpoint/pack-types.js";
import { markPackStored } from "../checkpoint/packs.js";
import { dropResults } from "../effects/queries.js";
import { isThreadRunning, placeRuns } from "../runs/content.js";
import { lockUnfinishedRuns } from "../runs/runs.js";
import { lockThread } from "../runs/thread-lock.js";
import { askForManifests } from "../runs/manifests.js";
import { isTombstoned } from "../runs/tombstones.js";
import { type StoreStep, storePack } from "./store-pack.js";

export type MoveOptions = Readonly<{
  /** Content of one pack before compression, about. */
  packBytes?: number;
  /** After so many packs it returns, with more to do. */
  maxPacks?: number;
  /** For tests: called between the steps. */
  hooks?: MoveHooks;
}>;
export type MoveStep = "gathered" | StoreStep | ManifestStep;
export type MoveHooks = Readonly<{ reached?: (step: MoveStep) => Promise<void> | void }>;

export type Moved = Readonly<{ packs: number; checkpoints: number; bodies: number; runs: number; more: boolean }>;

const PACK_BYTES = 8 * 1024 * 1024;
const MAX_PACKS = 32;
/** Records that are written again are read before; their neighbours are likely to be as well. */
const CACHE_BYTES = 16 * 1024 * 1024;

/**
 * Moves what can be moved now: checkpoints with their values and writes, bodies, and the content of runs that are finished or
 * wait. Safe beside running runs and other movers. Throws `unavailable` when the object store or the database is away.
 */
export async function moveThread(deps: Deps, key: ThreadKey, options: MoveOptions = {}): Promise<Moved> {
  const packs = createPackReader(deps.bodies, { cacheBytes: CACHE_BYTES });
  const sum = { packs: 0, checkpoints: 0, bodies: 0, runs: 0 };
  let more = true;
  while (more && sum.packs < (options.maxPacks ?? MAX_PACKS)) {
    const moved = await moveOnePack(deps, key, packs, options);
    more = moved !== undefined && !moved.all;
    if (moved === undefined) break;
    sum.packs += 1;
    sum.checkpoints += moved.checkpoints;
    sum.bodies += moved.bodies;
    sum.runs += moved.runs;
  }
  await writeManifests(deps, key, packs, options.hooks);
  return { ...sum, more };
}

/** `all`: nothing is left to move. */
type Placed = Readonly<{ checkpoints: number; bodies: number; runs: number; all: boolean }>;

/** Undefined when nothing was moved: there is nothing, or nothing that could be. */
async function moveOnePack(
  deps: Deps,
  key: ThreadKey,
  packs: PackReader,
  options: MoveOptions,
): Promise<Placed | undefined> {
  const reached = options.hooks?.reached ?? (() => {});
  const gathered = await gatherPack(deps, key, {
    packs,
    maxBytes: options.packBytes ?? PACK_BYTES,
    keepNewest: await isThreadRunning(deps.db, key),
  });
  await reached("gathered");
  if (gathered === undefined) {
    await deleteLeftovers(deps, key);
    return undefined;
  }
  return storePack(deps, key, gathered.file, (packId) => place(deps, key, packId, gathered), reached);
}

/** Rolls the transaction back. */
class Unplaced extends Error {}

/** The transaction. Undefined, and nothing changed, when the thread is gone, the pack was doomed or nothing was as gathered. */
async function place(deps: Deps, key: ThreadKey, packId: PackId, gathered: GatheredPack): Promise<Placed | undefined> {
  try {
    return await deps.db.tx(async (sql) => {
      const thread = await lockThread(sql, key);
      if (thread === undefined || (await isTombstoned(sql, key))) throw new Unplaced();
      // From here on no commit of a run comes between the statements, and each sees what the last one committed.
      const unfinished = await lockUnfinishedRuns(sql, key);
      if (!(await markPackStored(sql, { ...key, packId }))) throw new Unplaced();
      const keepNewest = unfinished.some((run) => run.status === "running");
      const checkpoints = await placeCheckpoints(sql, key, packId, gathered.checkpoints, keepNewest);
      const recorded = new Set(checkpoints.map((c) => checkpointRecordKey(c.ns, c.checkpointId)));
      const writes = gathered.writes.filter((w) => recorded.has(checkpointRecordKey(w.ns, w.checkpointId)));
      await askForManifests(sql, key, gathered.current ? [...checkpoints, gathered.current] : checkpoints);
      await deleteRecordedWrites(sql, key, writes);
      if (checkpoints.length > 0 || (gathered.complete && !keepNewest)) await deleteUnnamedValues(sql, key);
      await placeNodes(sql, key, packId, gathered.nodes);
      if (!(await areHeld(sql, key, gathered.relied))) throw new Unplaced();
      const bodies = await deletePlacedNodes(sql, key);
      const runs = new Set(await placeRuns(sql, key, packId, gathered.runs));
      await dropResults(
        sql,
        key,
        gathered.effects.filter(({ runId }) => runs.has(runId)),
      );
      if (checkpoints.length + bodies + runs.size === 0) throw new Unplaced();
      if (gathered.complete && unfinished.length === 0) await deleteStrayWrites(sql, key);
      const all = gathered.complete && runs.size === gathered.runs.length && !(await hasUnmoved(sql, key));
      return { checkpoints: checkpoints.length, bodies, runs: runs.size, all };
    });
  } catch (error) {
    if (error instanceof Unplaced) return undefined;
    throw error;
  }
}

async function areHeld(sql: Sql, key: ThreadKey, hashes: readonly Buffer[]): Promise<boolean> {
  if (hashes.length === 0) return true;
  const wanted = new Set(hashes.map((hash) => hash.toString("base64url")));
  return (await heldBodies(sql, key, hashes)).size === wanted.size;
}

/** What nothing can read any more: values and writes without a checkpoint, bodies that were staged although they were moved. */
async function deleteLeftovers(deps: Deps, key: ThreadKey): Promise<void> {
  await deps.db.tx(async (sql) => {
    if ((await lockThread(sql, key)) === undefined) return;
    const unfinished = await lockUnfinishedRuns(sql, key);
    if (unfinished.length === 0) await deleteStrayWrites(sql, key);
    if (unfinished.every((run) => run.status !== "running")) await deleteUnnamedValues(sql, key);
    await deletePlacedNodes(sql, key);
  });
}
