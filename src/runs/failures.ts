// What failed attempts leave behind on their run, proving the lease in the `where`; and what a person does about one.
import type { Lease } from "../core/clock.js";
import type { Sql } from "../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";

/** Counts a failed attempt: how many there were in a row without progress between them. Undefined when the lease is lost. */
export async function countFailure(sql: Sql, lease: Lease): Promise<number | undefined> {
  const { rows } = await sql.query<{ failures: number }>(
    `update runs
    set failures = case when progress_attempt = attempt then 1 else failures + 1 end
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running' and lease_owner = $4
    returning failures`,
    [lease.tenantId, lease.runId, lease.attempt, lease.owner],
  );
  return rows[0]?.failures;
}

/** Notes what the run couldn't reach: for how many ms now, without progress between. Undefined when the lease is lost. */
export async function noteOutage(sql: Sql, lease: Lease, provider: string): Promise<number | undefined> {
  const { rows } = await sql.query<{ ms: number }>(
    `update runs
    set provider = $5,
      outage_since = case
        when progress_attempt = attempt or provider is distinct from $5 or outage_since is null then clock_timestamp()
        else outage_since end
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running' and lease_owner = $4
    returning extract(epoch from clock_timestamp() - outage_since)::float8 * 1000 as ms`,
    [lease.tenantId, lease.runId, lease.attempt, lease.owner, provider],
  );
  return rows[0]?.ms;
}

/** From now on the run is executed with the cheaper model. False when the lease is lost. */
export async function noteCheaper(sql: Sql, lease: Lease): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update runs
    set cheaper = true
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running' and lease_owner = $4`,
    [lease.tenantId, lease.runId, lease.attempt, lease.owner],
  );
  return rowCount === 1;
}

/** Notes what a person did about a failed run: it waits for nobody any more. The thread must be locked. */
export async function resolveRun(
  sql: Sql,
  run: Readonly<{ tenantId: TenantId; runId: RunId; how: "retried" | "closed"; by: string; byRunId: RunId | null }>,
): Promise<void> {
  await sql.query(
    `update runs
    set resolved = $3, resolved_by = $4, resolved_run_id = $5, resolved_at = clock_timestamp(), waits_for = null,
      updated_at = clock_timestamp()
    where tenant_id = $1 and run_id = $2 and resolved is null`,
    [run.tenantId, run.runId, run.how, run.by, run.byRunId],
  );
}

/** A run of the thread that was accepted later than this one, if there is any. */
export async function newerRun(
  sql: Sql,
  run: Readonly<{ tenantId: TenantId; threadId: ThreadId; runId: RunId }>,
): Promise<RunId | undefined> {
  const { rows } = await sql.query<{ runId: RunId }>(
    `select run_id as "runId"
    from runs
    where tenant_id = $1 and thread_id = $2 and kind = 'run' and cancel_reason is null
      and seq > (select seq from runs where tenant_id = $1 and run_id = $3)
    order by seq desc
    limit 1`,
    [run.tenantId, run.threadId, run.runId],
  );
  return rows[0]?.runId;
}

/** Notes of a run that has crashed before that this attempt may be one more crash of its own. Nothing when the lease is lost. */
export async function noteEntered(sql: Sql, lease: Lease): Promise<void> {
  await sql.query(
    `update runs
    set entered_attempt = attempt
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running' and lease_owner = $4`,
    [lease.tenantId, lease.runId, lease.attempt, lease.owner],
  );
}

/** Ends the lease of a run whose process has been killed; it counts as a crash. Nothing when the lease is lost. */
export async function noteKilled(sql: Sql, lease: Lease): Promise<void> {
  await sql.query(
    `update runs
    set entered_attempt = attempt, lease_expires_at = clock_timestamp()
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running' and lease_owner = $4`,
    [lease.tenantId, lease.runId, lease.attempt, lease.owner],
  );
}

/** Notes how often in a row the run's worker died, the last time included. */
export async function noteCrashes(
  sql: Sql,
  lost: Readonly<{ tenantId: TenantId; runId: RunId; attempt: number; crashes: number }>,
): Promise<void> {
  await sql.query(`update runs set crashes = $4 where tenant_id = $1 and run_id = $2 and attempt = $3`, [
    lost.tenantId,
    lost.runId,
    lost.attempt,
    lost.crashes,
  ]);
}
