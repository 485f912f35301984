// How an attempt ends, as statements on `runs`. Each proves the lease in its `where`; the caller looks at the row count.
import type { Sql } from "../core/deps.js";
import type { Lease } from "../core/clock.js";

export type Ending = Readonly<{
  status: "success" | "interrupted" | "error";
  waitsFor: "approval" | "person" | null;
  resultCheckpointId: string | null;
  errorCode: string | null;
  errorType: string | null;
  errorPreview: string | null;
  /** UTF-8 JSON of the error: content. */
  error: Buffer | null;
}>;

/** Ends the run; false when the lease is lost. `expired: true` ends a run whose lease ran out, whoever held it. */
export async function endAttempt(
  sql: Sql,
  lease: Pick<Lease, "tenantId" | "runId" | "attempt"> & Readonly<{ owner: string | null }>,
  ending: Ending,
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update runs
    set status = $5, head = false, lease_owner = null, lease_expires_at = null, waits_for = $6,
      result_checkpoint_id = $7, error_code = $8, error_type = $9, error_preview = $10, error = $11,
      content_moved_at = null, finished_at = clock_timestamp(), updated_at = clock_timestamp()
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running'
      and (lease_owner = $4 or ($4::text is null and lease_expires_at < clock_timestamp()))`,
    [
      lease.tenantId,
      lease.runId,
      lease.attempt,
      lease.owner,
      ending.status,
      ending.waitsFor,
      ending.resultCheckpointId,
      ending.errorCode,
      ending.errorType,
      ending.errorPreview,
      ending.error,
    ],
  );
  return rowCount === 1;
}

/** Gives the run back: pending again, at once or from `until` on; no crash is counted. False when the lease is lost. */
export async function handBack(sql: Sql, lease: Lease, until: Date | null): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update runs
    set status = 'pending', lease_owner = null, lease_expires_at = null, available_at = $5,
      waits_for = case when $5::timestamptz is not null then 'timer' end, updated_at = clock_timestamp()
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running' and lease_owner = $4`,
    [lease.tenantId, lease.runId, lease.attempt, lease.owner, until],
  );
  return rowCount === 1;
}
