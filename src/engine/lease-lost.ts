import type { Lease } from "../core/clock.js";
import { EngineError } from "../core/errors.js";

/** What everything an attempt still does fails with once another owns the run. */
export function leaseLost(lease: Lease): EngineError {
  return new EngineError("lease_lost", `Attempt ${lease.attempt} of run ${lease.runId} lost its lease; it stops here`, {
    details: { run_id: lease.runId, attempt: lease.attempt },
  });
}
