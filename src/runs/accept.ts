// Accepting runs on threads where nothing waits, many in one statement, and claiming for the worker of the same process in
// the same round trip. What it leaves out (a thread that is busy, asks something, is locked or isn't there) takes the longer
// way of `createRun`, which looks first.
import { PREPARED, type Sql } from "../core/deps.js";
import type { AssistantId, RunId, TenantId, ThreadId } from "../core/ids.js";
import type { MultitaskStrategy, Priority } from "../core/run.js";
import { type Claim, claimArguments, type ClaimedRun, claimedRun, type ClaimRow } from "./claim.js";
import { RUN_COLUMNS, type RunRow } from "./runs.js";

export type PlainRun = Readonly<{
  tenantId: TenantId;
  runId: RunId;
  threadId: ThreadId;
  /** The thread is new: made by this, ephemeral or not. Otherwise it must be there. */
  newThread: Readonly<{ ephemeral: boolean }> | null;
  assistantId: AssistantId;
  assistantVersion: number | null;
  /** Only while its assistant has that version. */
  ifVersionCounts: boolean;
  graphId: string;
  /** At best: its tenant's may not be as urgent. */
  priority: Priority;
  resumes: boolean;
  multitaskStrategy: MultitaskStrategy;
  /** What the run's metadata has below the thread's, and above it. */
  metadataBelow: Readonly<Record<string, unknown>>;
  metadata: Readonly<Record<string, unknown>>;
  /** What the thread must have in its own, if it isn't new. */
  within: Readonly<Record<string, unknown>>;
  /** Merged into the thread's. */
  threadMetadata: Readonly<Record<string, unknown>>;
  /** UTF-8 JSON of everything in the request that is content, merged as if the thread had no configuration. */
  request: Buffer;
}>;

export type Accepted = Readonly<{
  /** Undefined for a run whose thread isn't free, or whose assistant isn't as it was read. */
  runs: readonly (RunRow | undefined)[];
  claimed: readonly ClaimedRun[];
}>;

/**
 * Accepts those runs whose threads are free (and whose assistants are as they were read), and claims as many at most, not necessarily the same: what waited longer or is
 * more urgent goes first. No two may be on one thread.
 * One statement suffices: what says that a thread is free, its status, is read again when its lock is taken.
 */
export async function acceptRuns(sql: Sql, runs: readonly PlainRun[], claim: Claim): Promise<Accepted> {
  const of = <T>(pick: (run: PlainRun) => T): T[] => runs.map(pick);
  const { rows } = await sql.query<(RunRow | NoRun) & (ClaimRow | NoClaim)>(
    STATEMENT,
    [
      of((run) => run.tenantId),
      of((run) => run.runId),
      of((run) => run.threadId),
      of((run) => run.newThread !== null),
      of((run) => run.newThread?.ephemeral ?? false),
      of((run) => run.assistantId),
      of((run) => run.graphId),
      of((run) => run.priority),
      of((run) => run.multitaskStrategy),
      of((run) => JSON.stringify(run.metadataBelow)),
      of((run) => JSON.stringify(run.metadata)),
      of((run) => JSON.stringify(run.threadMetadata)),
      of((run) => run.request),
      of((run) => run.resumes),
      of((run) => run.assistantVersion),
      of((run) => run.ifVersionCounts),
      of((run) => JSON.stringify(run.within)),
      ...claimArguments(claim),
    ],
    PREPARED,
  );
  const accepted = new Map(rows.flatMap((row) => (row.runId === null ? [] : [[row.runId, row]])));
  return {
    runs: runs.map(({ runId }) => accepted.get(runId)),
    claimed: rows.flatMap((row) => (row.o_run_id === null ? [] : [claimedRun(row)])),
  };
}

type NoRun = Readonly<{ runId: null }>;
type NoClaim = Readonly<{ o_run_id: null }>;

const STATEMENT = `
with asked as (
  select *
  from unnest($1::text[], $2::uuid[], $3::uuid[], $4::boolean[], $5::boolean[], $6::uuid[], $7::text[], $8::smallint[],
    $9::text[], $10::jsonb[], $11::jsonb[], $12::jsonb[], $13::bytea[], $14::boolean[], $15::int[],
    $16::boolean[], $17::jsonb[]) with ordinality
    as a(tenant_id, run_id, thread_id, fresh, ephemeral, assistant_id, graph_id, priority, multitask_strategy,
      metadata_below, metadata, thread_metadata, request, resumes, assistant_version, if_version_counts,
      within, position)
  where not a.if_version_counts or version_counts(a.tenant_id, a.assistant_id, a.assistant_version)
), made as (
  insert into threads (tenant_id, thread_id, status, ephemeral, metadata)
  select a.tenant_id, a.thread_id, 'busy', a.ephemeral, a.thread_metadata
  from asked a
  where a.fresh
  returning tenant_id, thread_id
), free as materialized (
  select t.tenant_id, t.thread_id, t.metadata
  from threads t
  where (t.tenant_id, t.thread_id) in (select tenant_id, thread_id from asked where not fresh)
    and t.status in ('idle', 'error') and not t.ephemeral and t.config = '{}'
  order by t.tenant_id, t.thread_id
  for no key update skip locked
), allowed as materialized (
  select f.tenant_id, f.thread_id, f.metadata
  from free f
  join asked a using (tenant_id, thread_id)
  where f.metadata @> a.within
), taken as (
  update threads t
  set status = 'busy', metadata = t.metadata || a.thread_metadata, updated_at = clock_timestamp()
  from allowed f
  join asked a using (tenant_id, thread_id)
  where t.tenant_id = f.tenant_id and t.thread_id = f.thread_id
), accepted as (
  insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, priority, head, multitask_strategy, metadata,
    request, resumes, pin, stays, assistant_version)
  select a.tenant_id, a.run_id, a.thread_id, a.assistant_id, a.graph_id,
    greatest(a.priority, (select best_priority from tenants p where p.tenant_id = a.tenant_id)), true, a.multitask_strategy,
    a.metadata_below || t.metadata || a.metadata, a.request, a.resumes, p.pin, p.stays, a.assistant_version
  from asked a
  join (
    select tenant_id, thread_id, '{}'::jsonb as metadata from made
    union all
    select tenant_id, thread_id, metadata from allowed
  ) t using (tenant_id, thread_id)
  cross join lateral run_pin(a.tenant_id, a.assistant_id, a.thread_id, a.resumes) p
  order by a.position
  returning *
), logged as (
  insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
  select tenant_id, thread_id, run_id, 0, 'run.created', jsonb_build_object('graph_id', graph_id)
  from accepted
  returning 1
), claimed as materialized (
  -- After all of the above: it needs the count, and a volatile function sees what the statement that calls it has written.
  select c.*
  from (select count(*)::int as n from logged having count(*) > 0 and $18 > 0) done
  cross join lateral claim_runs(least($18::int, done.n), $19, $20, $21, $22, $23, $24) c
)
select ${RUN_COLUMNS}, claimed.*
from accepted
full join claimed on claimed.o_run_id = accepted.run_id`;
