// Taking runs and keeping them: the claim, the heartbeat, and what becomes of a run whose worker died.
import { PREPARED, type Sql } from "../core/deps.js";
import type { AssistantId, ConversationId, FollowupId, RunId, TenantId, ThreadId } from "../core/ids.js";
import type { ThreadStatus } from "../core/run.js";

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
  metadata: Readonly<Record<string, unknown>>;
  /** UTF-8 JSON of what was asked for; null when it was moved. */
  request: Buffer | null;
  /** The thread has no checkpoint. */
  fresh: boolean;
  /** What it has waited for, since that was out of reach; null when it hasn't. */
  provider: string | null;
  /** Its budget has room for a cheaper model only. */
  cheaper: boolean;
  /** A budget was set for it, its thread or its tenant, beside those of its graph. */
  budgeted: boolean;
  /** Where what it says goes; null: to whoever looks. */
  conversationId: ConversationId | null;
  followupId: FollowupId | null;
  followupPart: "work" | "tell" | null;
}>;

/** Up to `slots` runs of these graphs, for `owner`. */
export type Claim = Readonly<{
  slots: number;
  owner: string;
  leaseMs: number;
  graphIds: readonly string[];
  /** Of each graph's code: which one the run is executed with. */
  versions: readonly string[];
  /** Of each graph, and of every tenant, where the database doesn't say otherwise; null or left out: as many as there are slots. */
  limits?: ConfiguredLimits;
}>;

export type ConfiguredLimits = Readonly<{ graphs: readonly (number | null)[]; tenant: number | null }>;

/** A row of the function `claim_runs`. */
export type ClaimRow = Readonly<{
  o_tenant_id: TenantId;
  o_run_id: RunId;
  o_thread_id: ThreadId;
  o_assistant_id: AssistantId;
  o_graph_id: string;
  o_attempt: number;
  o_priority: number;
  o_begun: boolean;
  o_crashes: number;
  o_metadata: ClaimedRun["metadata"];
  o_request: Buffer | null;
  o_fresh: boolean;
  o_provider: string | null;
  o_cheaper: boolean;
  o_budgeted: boolean;
  o_conversation_id: ConversationId | null;
  o_followup_id: FollowupId | null;
  o_followup_part: "work" | "tell" | null;
}>;

export function claimedRun(row: ClaimRow): ClaimedRun {
  return {
    tenantId: row.o_tenant_id,
    runId: row.o_run_id,
    threadId: row.o_thread_id,
    assistantId: row.o_assistant_id,
    graphId: row.o_graph_id,
    attempt: row.o_attempt,
    priority: row.o_priority,
    begun: row.o_begun,
    crashes: row.o_crashes,
    metadata: row.o_metadata,
    request: row.o_request,
    fresh: row.o_fresh,
    provider: row.o_provider,
    cheaper: row.o_cheaper,
    budgeted: row.o_budgeted,
    conversationId: row.o_conversation_id,
    followupId: row.o_followup_id,
    followupPart: row.o_followup_part,
  };
}

/** The arguments of `claim_runs`. */
export function claimArguments(claim: Claim): unknown[] {
  const { graphs = [], tenant = null } = claim.limits ?? {};
  return [claim.slots, claim.owner, claim.leaseMs, claim.graphIds, claim.versions, graphs, tenant];
}

/** Claims runs; a transaction of its own, in one round trip. */
export async function claimRuns(sql: Sql, claim: Claim): Promise<ClaimedRun[]> {
  const text = "select * from claim_runs($1, $2, $3, $4, $5, $6, $7)";
  const { rows } = await sql.query<ClaimRow>(text, claimArguments(claim), PREPARED);
  return rows.map(claimedRun);
}

/**
 * Puts back what `owner` has claimed without knowing of it, since the answer to the claim was lost: all but the `known` attempts.
 * Not while a claim of this owner is on its way. It counts as no crash. How many there were.
 */
export async function returnUnknownClaims(
  sql: Sql,
  { owner, known }: Readonly<{ owner: string; known: readonly Readonly<{ runId: string; attempt: number }>[] }>,
): Promise<number> {
  const { rowCount } = await sql.query(
    `with lost as materialized (
      select r.tenant_id, r.run_id
      from runs r
      where r.status = 'running' and r.kind = 'run' and r.lease_owner = $1
        and (r.run_id, r.attempt) not in (select * from unnest($2::uuid[], $3::int[]))
      order by r.run_id
      for no key update
    )
    update runs r
    set status = 'pending', lease_owner = null, lease_expires_at = null, updated_at = clock_timestamp()
    from lost
    where r.tenant_id = lost.tenant_id and r.run_id = lost.run_id`,
    [owner, known.map(({ runId }) => runId), known.map(({ attempt }) => attempt)],
  );
  return rowCount;
}

export type HeldRun = Readonly<{ tenantId: string; runId: string; attempt: number }>;

/** By run id. What is in neither list is lost. */
export type Renewal = Readonly<{ renewed: readonly string[]; locked: readonly string[] }>;

/**
 * Renews the leases of these attempts, but for those whose row is locked just now: waiting for one would let all of them run
 * out when who holds the lock is frozen in the middle of its transaction.
 */
export async function renewLeases(
  sql: Sql,
  renew: Readonly<{ owner: string; leaseMs: number; runs: readonly HeldRun[] }>,
): Promise<Renewal> {
  const { rows } = await sql.query<{ runId: string; renewed: boolean }>(
    `with held as (
      select * from unnest($1::text[], $2::uuid[], $3::int[]) u(tenant_id, run_id, attempt)
    ), owned as materialized (
      select r.tenant_id, r.run_id
      from runs r
      where (r.tenant_id, r.run_id, r.attempt) in (select tenant_id, run_id, attempt from held)
        and r.status = 'running' and r.lease_owner = $4
    ), free as materialized (
      select r.tenant_id, r.run_id
      from runs r
      where (r.tenant_id, r.run_id, r.attempt) in (select tenant_id, run_id, attempt from held)
        and r.status = 'running' and r.lease_owner = $4
      order by r.run_id
      for no key update skip locked
    ), renewed as (
      update runs r
      set lease_expires_at = clock_timestamp() + $5::float8 * interval '1 ms'
      from free
      where r.tenant_id = free.tenant_id and r.run_id = free.run_id
      returning r.tenant_id, r.run_id
    )
    select owned.run_id as "runId", renewed.run_id is not null as renewed
    from owned
    left join renewed using (tenant_id, run_id)`,
    [
      renew.runs.map((r) => r.tenantId),
      renew.runs.map((r) => r.runId),
      renew.runs.map((r) => r.attempt),
      renew.owner,
      renew.leaseMs,
    ],
  );
  const ids = (renewed: boolean) => rows.filter((row) => row.renewed === renewed).map((row) => row.runId);
  return { renewed: ids(true), locked: ids(false) };
}

type RunOfThread = Readonly<{ tenantId: TenantId; runId: RunId; threadId: ThreadId }>;

/** Running runs whose lease is over, by database time. Only looks: who acts on one takes its locks and asks `lostRun`. */
export async function expiredRuns(sql: Sql, limit: number): Promise<RunOfThread[]> {
  const { rows } = await sql.query<RunOfThread>(
    `select tenant_id as "tenantId", run_id as "runId", thread_id as "threadId"
    from runs
    where status = 'running' and lease_expires_at < clock_timestamp()
    order by run_id
    limit $1`,
    [limit],
  );
  return rows;
}

export type LostRun = RunOfThread &
  Readonly<{
    attempt: number;
    kind: "run" | "edit";
    /** Something of it is stored. */
    begun: boolean;
    /** Of an edit: what its thread was before. */
    threadStatus: ThreadStatus | null;
    /**
     * Claims that ended with a dead worker and without progress, this one included. The first may have been a neighbour's doing, and
     * makes the run a suspect; from then on only those count in which it came to its graph.
     */
    crashes: number;
  }>;

/** A run whose lease is over; undefined when it isn't any more. */
export async function lostRun(sql: Sql, run: RunOfThread): Promise<LostRun | undefined> {
  const { rows } = await sql.query<LostRun>(
    `select tenant_id as "tenantId", run_id as "runId", thread_id as "threadId", attempt, kind, begun,
      metadata ->> 'thread_status' as "threadStatus",
      case
        when progress_attempt = attempt then 0
        when crashes > 0 and entered_attempt < attempt then crashes
        else crashes + 1
      end as crashes
    from runs
    where tenant_id = $1 and run_id = $2 and status = 'running' and lease_expires_at < clock_timestamp()`,
    [run.tenantId, run.runId],
  );
  return rows[0];
}

/** Puts a lost run back in the queue, with its crash counted; false when it isn't lost any more. */
export async function requeueLostRun(sql: Sql, lost: LostRun): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update runs
    set status = 'pending', lease_owner = null, lease_expires_at = null, updated_at = clock_timestamp(), crashes = $4
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running'
      and lease_expires_at < clock_timestamp()`,
    [lost.tenantId, lost.runId, lost.attempt, lost.crashes],
  );
  return rowCount === 1;
}
