// The end of an edit's own row, whatever it was for.
import type { Lease } from "../../core/clock.js";
import type { Sql } from "../../core/deps.js";
import { endAttempt } from "../../runs/settle.js";
import { leaseLost } from "../lease-lost.js";

/** Throws `lease_lost` when the sweeper or somebody else ended it before. */
export async function endEdit(
  sql: Sql,
  lease: Lease,
  end: Readonly<{ checkpointId: string | null; errorCode: string | null }>,
): Promise<void> {
  const ended = await endAttempt(sql, lease, {
    status: end.errorCode === null ? "success" : "error",
    waitsFor: null,
    resultCheckpointId: end.checkpointId,
    errorCode: end.errorCode,
    errorType: null,
    errorPreview: null,
    error: null,
  });
  if (!ended) throw leaseLost(lease);
}
