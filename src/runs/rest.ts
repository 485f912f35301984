// What tests ask of runs and do to them.
import type { Lease } from "../core/clock.js";
import type { Sql } from "../core/deps.js";
import type { TenantId } from "../core/ids.js";
import type { RunStatus } from "../core/run.js";

/** Runs that run, or that nothing keeps from starting. */
export async function unrestedRuns(
  sql: Sql,
  tenantId: TenantId,
): Promise<Readonly<{ runId: string; status: RunStatus }>[]> {
  const { rows } = await sql.query<{ runId: string; status: RunStatus }>(
    `select run_id as "runId", status
    from runs
    where tenant_id = $1 and (status = 'running' or (status = 'pending' and head and available_at is null))
    limit 1`,
    [tenantId],
  );
  return rows;
}

/** Ends the lease as if its time were over. */
export async function endLeaseNow(sql: Sql, lease: Lease): Promise<void> {
  await sql.query(
    `update runs
    set lease_expires_at = clock_timestamp() - interval '1 s'
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running'`,
    [lease.tenantId, lease.runId, lease.attempt],
  );
}
