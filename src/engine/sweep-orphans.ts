// Deletes objects that nothing points to: uploads whose transaction never came within the time for it, and what is left of
// threads that were deleted. Each upload has a row before it begins, so nothing has to be looked for in the store; and a row
// is doomed before its object goes, so that nothing can point to it.
import { doomOldPacks, UPLOAD_MS } from "../checkpoint/packs.js";
import type { Deps } from "../core/deps.js";
import { removeDoomed } from "./remove-doomed.js";

export type SweepOptions = Readonly<{
  /** How long an upload may take until its transaction. */
  graceMs?: number;
}>;

const BATCH = 500;

/** One round over everything; returns how many objects went. Safe to repeat and to run in many processes. */
export async function sweepOrphans(deps: Deps, { graceMs = UPLOAD_MS }: SweepOptions = {}): Promise<number> {
  for (let swept = 0; ; ) {
    const doomed = await doomOldPacks(deps.db, { graceMs, limit: BATCH });
    if (doomed.length === 0) return swept;
    await removeDoomed(deps, doomed);
    swept += doomed.length;
  }
}
