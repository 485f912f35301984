// The free slots of this process's worker: whoever claims for them in a statement of its own saves a round trip.
import type { Claim, ClaimedRun } from "../runs/claim.js";

/** Claims up to `claim.slots` runs, in one statement; none with 0. */
export type ClaimBy = (claim: Claim) => Promise<readonly ClaimedRun[]>;

/** Has `by` claim for up to `max` free slots, keeps them free meanwhile, and begins what was claimed. */
export type Fill = (max: number, by: ClaimBy) => Promise<readonly ClaimedRun[]>;

export type Slots = Readonly<{
  /** Those of the worker; there are none while none is started. */
  fill: Fill;
  /** To be called when a worker starts; what it returns, when it stops. */
  serve(fill: Fill): () => void;
}>;

const NO_CLAIM: Claim = { slots: 0, owner: "", leaseMs: 0, graphIds: [], versions: [] };

export function createSlots(): Slots {
  let worker: Fill | undefined;
  return {
    fill: (max, by) => (worker === undefined ? by(NO_CLAIM) : worker(max, by)),
    serve(fill) {
      worker = fill;
      return () => {
        if (worker === fill) worker = undefined;
      };
    },
  };
}
