// Deletes objects that nothing points to, never younger ones than the grace time: uploads whose transaction never came, and
// what arrived for a thread after it was erased. A row is doomed before its object goes, so that nothing can point to it.
import type { Deps } from "../core/deps.js";
import { deleteDoomedPacks, doomOldPacks } from "../checkpoint/packs.js";
import { eraseThreadObjects } from "../bodies/erase.js";
import { recentTombstones } from "../runs/tombstones.js";

export type SweepOptions = Readonly<{
  /** How long an upload may take until its transaction, and a late writer to find the tombstone of its thread. */
  graceMs?: number;
}>;

const GRACE_MS = 24 * 60 * 60_000;
const BATCH = 500;

/** One round over everything; returns how many objects went. Safe to repeat and to run in many processes. */
export async function sweepOrphans(deps: Deps, options: SweepOptions = {}): Promise<number> {
  const graceMs = options.graceMs ?? GRACE_MS;
  return (await sweepPendingPacks(deps, graceMs)) + (await sweepErasedThreads(deps, graceMs));
}

async function sweepPendingPacks(deps: Deps, graceMs: number): Promise<number> {
  for (let swept = 0; ; ) {
    const doomed = await doomOldPacks(deps.db, { graceMs, limit: BATCH });
    if (doomed.length === 0) return swept;
    await deps.bodies.delete(doomed.map((pack) => pack.key));
    await deleteDoomedPacks(deps.db, doomed);
    swept += doomed.length;
  }
}

async function sweepErasedThreads(deps: Deps, graceMs: number): Promise<number> {
  let swept = 0;
  for (let after: Parameters<typeof recentTombstones>[1]["after"]; ; ) {
    const erased = await recentTombstones(deps.db, { withinMs: graceMs, after, limit: BATCH });
    for (const thread of erased) swept += await eraseThreadObjects(deps.bodies, thread);
    if (erased.length < BATCH) return swept;
    after = erased.at(-1);
  }
}
