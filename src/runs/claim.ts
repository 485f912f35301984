// Taking runs and keeping them: the claim, the heartbeat, and what becomes of a run whose worker died.
import type { Sql } from "../core/deps.js";
import type { AssistantId, RunId, TenantId, ThreadId } from "../core/ids.js";

export type ClaimedRun = Readonly<{
  tenantId: TenantId;
  runId: RunId;
  threadId: ThreadId;
  assistantId: AssistantId;
  graphId: string;
  attempt: number;
  priority: number;
  begun: boolean;
  crashes: number;
}>;

/** Claims up to `slots` runs of these graphs for `owner`; a transaction of its own, in one round trip. */
export async function claimRuns(
  sql: Sql,
  claim: Readonly<{ slots: number; owner: string; leaseMs: number; graphIds: readonly string[] }>,
): Promise<ClaimedRun[]> {
  const { rows } = await sql.query<ClaimedRun>(
    `select o_tenant_id as "tenantId", o_run_id as "runId", o_thread_id as "threadId",
      o_assistant_id as "assistantId", o_graph_id as "graphId", o_attempt as "attempt",
      o_priority as "priority", o_begun as "begun", o_crashes as "crashes"
    from claim_runs($1, $2, $3, $4)`,
    [claim.slots, claim.owner, claim.leaseMs, claim.graphIds],
  );
  return rows;
}

export type HeldRun = Readonly<{ tenantId: string; runId: string; attempt: number }>;

/**
 * Renews the leases of these attempts; returns the run ids renewed. Locks in order of run_id before it updates:
 * unordered heartbeats of several workers made 120 deadlocks in 10 s (measured).
 */
export async function renewLeases(
  sql: Sql,
  renew: Readonly<{ owner: string; leaseMs: number; runs: readonly HeldRun[] }>,
): Promise<string[]> {
  const { rows } = await sql.query<{ runId: string }>(
    `with held as (
      select * from unnest($1::text[], $2::uuid[], $3::int[]) u(tenant_id, run_id, attempt)
    ), locked as materialized (
      select r.tenant_id, r.run_id
      from runs r
      where (r.tenant_id, r.run_id, r.attempt) in (select tenant_id, run_id, attempt from held)
        and r.status = 'running' and r.lease_owner = $4
      order by r.run_id
      for no key update
    )
    update runs r
    set lease_expires_at = clock_timestamp() + $5::float8 * interval '1 ms'
    from locked
    where r.tenant_id = locked.tenant_id and r.run_id = locked.run_id
    returning r.run_id as "runId"`,
    [
      renew.runs.map((r) => r.tenantId),
      renew.runs.map((r) => r.runId),
      renew.runs.map((r) => r.attempt),
      renew.owner,
      renew.leaseMs,
    ],
  );
  return rows.map((row) => row.runId);
}

export type LostRun = Readonly<{
  tenantId: TenantId;
  runId: RunId;
  threadId: ThreadId;
  attempt: number;
  kind: "run" | "edit";
  /** Claims that ended with a dead worker and without progress, this one included. */
  crashes: number;
}>;

/** Running runs whose lease is over, by database time. Only looks; whoever acts on one looks again under its locks. */
export async function expiredRuns(sql: Sql, limit: number): Promise<LostRun[]> {
  const { rows } = await sql.query<LostRun>(
    `select tenant_id as "tenantId", run_id as "runId", thread_id as "threadId", attempt, kind,
      case when progress_attempt = attempt then 0 else crashes + 1 end as crashes
    from runs
    where status = 'running' and lease_expires_at < clock_timestamp()
    order by run_id
    limit $1`,
    [limit],
  );
  return rows;
}

/** Puts a lost run back in the queue, with its crash counted; false when it isn't lost any more. */
export async function requeueLostRun(sql: Sql, lost: LostRun): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update runs
    set status = 'pending', lease_owner = null, lease_expires_at = null, updated_at = clock_timestamp(),
      crashes = case when progress_attempt = attempt then 0 else crashes + 1 end
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running'
      and lease_expires_at < clock_timestamp()`,
    [lost.tenantId, lost.runId, lost.attempt],
  );
  return rowCount === 1;
}
