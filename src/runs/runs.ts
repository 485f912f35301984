// Rows of the table `runs` as people and commands read them, and how they are locked, cancelled and deleted. New ones: new-runs.ts; whose
// turn it is: order.ts.
// Lock order everywhere: threads row, then runs by run_id, then their children.
import { type Within, withinParam } from "../core/access.js";
import { PREPARED, type Sql } from "../core/deps.js";
import type { AssistantId, ConversationId, FollowupId, RunId, TenantId, ThreadId } from "../core/ids.js";
import type { MultitaskStrategy, Priority, RunStatus } from "../core/run.js";

export type RunRow = Readonly<{
  tenantId: TenantId;
  runId: RunId;
  threadId: ThreadId;
  assistantId: AssistantId;
  /** Of its assistant, which it was made with; null: unknown. */
  assistantVersion: number | null;
  graphId: string;
  kind: "run" | "edit";
  status: RunStatus;
  priority: Priority;
  /** It goes on with what is there, and leaves the questions that are open open. */
  resumes: boolean;
  head: boolean;
  attempt: number;
  crashes: number;
  failures: number;
  begun: boolean;
  leaseOwner: string | null;
  leaseExpiresAt: Date | null;
  availableAt: Date | null;
  /** Until then messages that come on its thread become part of its input. */
  mergeUntil: Date | null;
  /** So many requests' have. */
  merged: number;
  waitsFor: "approval" | "timer" | "person" | "provider" | null;
  /** What it waits for, or waited for last, because that was out of reach. */
  provider: string | null;
  /** What a person did about it after it had failed, and the run that goes on for it. */
  resolved: "retried" | "closed" | null;
  resolvedBy: string | null;
  resolvedAt: Date | null;
  resolvedRunId: RunId | null;
  multitaskStrategy: MultitaskStrategy;
  agentVersion: string | null;
  /** The only version that may execute it; empty: any. */
  pin: string;
  /** Where what it says goes; null: to whoever looks. */
  conversationId: ConversationId | null;
  /** Of which follow-up it is, and whether it does the work or tells of it. */
  followupId: FollowupId | null;
  followupPart: "work" | "tell" | null;
  /** Told when it is over; null: nobody is. */
  webhook: string | null;
  /** Of its states only the last one stays once it is over. */
  keepsLast: boolean;
  metadata: Readonly<Record<string, unknown>>;
  errorCode: string | null;
  errorType: string | null;
  errorPreview: string | null;
  cancelReason: string | null;
  resultCheckpointId: string | null;
  createdAt: Date;
  updatedAt: Date;
  startedAt: Date | null;
  finishedAt: Date | null;
}>;

/** A row of `runs` as `RunRow` names it. */
export const RUN_COLUMNS = `
  tenant_id as "tenantId", run_id as "runId", thread_id as "threadId", assistant_id as "assistantId",
  assistant_version as "assistantVersion", graph_id as "graphId", kind, status, priority, resumes, head, attempt, crashes, failures, begun,
  lease_owner as "leaseOwner", lease_expires_at as "leaseExpiresAt",
  available_at as "availableAt", merge_until as "mergeUntil", merged, waits_for as "waitsFor", provider,
  resolved, resolved_by as "resolvedBy", resolved_at as "resolvedAt", resolved_run_id as "resolvedRunId",
  multitask_strategy as "multitaskStrategy",
  agent_version as "agentVersion", pin, conversation_id as "conversationId",
  followup_id as "followupId", followup_part as "followupPart", webhook, keeps_last as "keepsLast", metadata, error_code as "errorCode",
  error_type as "errorType",
  error_preview as "errorPreview", cancel_reason as "cancelReason", result_checkpoint_id as "resultCheckpointId",
  created_at as "createdAt", updated_at as "updatedAt", started_at as "startedAt", finished_at as "finishedAt"`;

/** The run, if the tenant has one with this id (on this thread, when one is given). Edits are no runs to the outside. */
export async function getRun(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; runId: RunId; threadId?: ThreadId }>,
): Promise<RunRow | undefined> {
  const { rows } = await sql.query<RunRow>(
    `select ${RUN_COLUMNS}
    from runs
    where tenant_id = $1 and run_id = $2 and ($3::uuid is null or thread_id = $3) and kind = 'run'`,
    [key.tenantId, key.runId, key.threadId ?? null],
  );
  return rows[0];
}

export type RunOfThread = RunRow & Readonly<{ threadConfig: Readonly<Record<string, unknown>> }>;

/** The runs with these ids and what their threads are configured with, in the order of the ids; undefined where there is none. */
export async function getRuns(
  sql: Sql,
  keys: readonly Readonly<{ tenantId: TenantId; runId: RunId }>[],
): Promise<(RunOfThread | undefined)[]> {
  const { rows } = await sql.query<RunOfThread>(
    `select ${RUN_COLUMNS}, (
      select t.config from threads t where t.tenant_id = runs.tenant_id and t.thread_id = runs.thread_id
    ) as "threadConfig"
    from runs
    where (tenant_id, run_id) in (select * from unnest($1::text[], $2::uuid[])) and kind = 'run'`,
    [keys.map((key) => key.tenantId), keys.map((key) => key.runId)],
    PREPARED,
  );
  const found = new Map(rows.map((row) => [`${row.tenantId} ${row.runId}`, row]));
  return keys.map((key) => found.get(`${key.tenantId} ${key.runId}`));
}

export type RunFilter = Readonly<{
  tenantId: TenantId;
  threadId?: ThreadId;
  status?: RunStatus | undefined;
  graphId?: string;
  /** Contained in the run's metadata, as jsonb `@>` means it. */
  metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Only those that failed and wait for a person. */
  needsAttention?: boolean;
  /** Only those of threads that who asks may see. */
  within?: Within;
  limit: number;
  offset: number;
}>;

/** Newest first. */
export async function listRuns(sql: Sql, filter: RunFilter): Promise<RunRow[]> {
  const { rows } = await sql.query<RunRow>(
    `select ${RUN_COLUMNS}
    from runs
    where tenant_id = $1 and kind = 'run'
      and ($2::uuid is null or thread_id = $2)
      and ($3::text is null or status = $3)
      and ($4::text is null or graph_id = $4)
      and (not $5::boolean or waits_for = 'person')
      and ($6::jsonb is null or thread_id in (select * from threads_within($1, $6)))
      and ($7::jsonb is null or metadata @> $7)
    order by seq desc
    limit $8 offset $9`,
    [
      filter.tenantId,
      filter.threadId ?? null,
      filter.status ?? null,
      filter.graphId ?? null,
      filter.needsAttention ?? false,
      withinParam(filter.within),
      filter.metadata === undefined ? null : JSON.stringify(filter.metadata),
      filter.limit,
      filter.offset,
    ],
  );
  return rows;
}

/** Pending and running runs of a thread, edits included, in their order; locked by run_id until the transaction ends. */
export async function lockUnfinishedRuns(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
): Promise<RunRow[]> {
  const { rows } = await sql.query<RunRow & { seq: number }>(
    `with locked as materialized (
      select run_id
      from runs
      where tenant_id = $1 and thread_id = $2 and status in ('pending', 'running')
      order by run_id
      for no key update
    )
    select ${RUN_COLUMNS}, seq
    from runs
    where tenant_id = $1 and run_id in (select run_id from locked) and status in ('pending', 'running')
    order by seq`,
    [key.tenantId, key.threadId],
  );
  return rows;
}

/** Of what these runs are, for one that goes on for them: their conversation and follow-up, the newest's. */
export async function belongingsOfRuns(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; runIds: readonly RunId[] }>,
): Promise<Pick<RunRow, "conversationId" | "followupId" | "followupPart">> {
  const { rows } = await sql.query<Pick<RunRow, "conversationId" | "followupId" | "followupPart">>(
    `select conversation_id as "conversationId", followup_id as "followupId", followup_part as "followupPart"
    from runs
    where tenant_id = $1 and run_id = any($2::uuid[]) and (conversation_id is not null or followup_id is not null)
    order by seq desc
    limit 1`,
    [of.tenantId, of.runIds],
  );
  return rows[0] ?? { conversationId: null, followupId: null, followupPart: null };
}

/** Whether somebody has asked something of the thread since: not an answer, and nothing that was scheduled. */
export async function hasWrittenSince(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; threadId: ThreadId; since: Date }>,
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `select 1
    from runs
    where tenant_id = $1 and thread_id = $2 and kind = 'run' and created_at > $3 and not resumes and followup_id is null
    limit 1`,
    [of.tenantId, of.threadId, of.since],
  );
  return rowCount > 0;
}

/** How many of these runs have a slot or could take one. */
export async function countReady(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; runIds: readonly RunId[] }>,
): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    `select count(*)::int as n
    from runs
    where tenant_id = $1 and run_id = any ($2::uuid[]) and status in ('pending', 'running') and available_at is null`,
    [of.tenantId, of.runIds],
  );
  return rows[0]?.n ?? 0;
}

/** Those of the runs that are over, or gone. */
export async function endedRuns(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; runIds: readonly RunId[] }>,
): Promise<RunId[]> {
  const { rows } = await sql.query<{ runId: RunId }>(
    `select asked.run_id as "runId"
    from unnest($2::uuid[]) asked(run_id)
    where not exists (
      select 1
      from runs r
      where r.tenant_id = $1 and r.run_id = asked.run_id and r.status in ('pending', 'running'))`,
    [of.tenantId, of.runIds],
  );
  return rows.map(({ runId }) => runId);
}

/** What became of an edit; undefined when there is none with this id. */
export async function editStatus(sql: Sql, key: RunKey): Promise<RunStatus | undefined> {
  const { rows } = await sql.query<{ status: RunStatus }>(
    "select status from runs where tenant_id = $1 and run_id = $2 and kind = 'edit'",
    [key.tenantId, key.runId],
  );
  return rows[0]?.status;
}

/** How the finished runs and edits of a thread ended, by run id. */
export async function outcomesOfThread(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
): Promise<ReadonlyMap<string, RunStatus>> {
  const { rows } = await sql.query<{ runId: string; status: RunStatus }>(
    `select run_id as "runId", status
    from runs
    where tenant_id = $1 and thread_id = $2 and status not in ('pending', 'running')`,
    [key.tenantId, key.threadId],
  );
  return new Map(rows.map(({ runId, status }) => [runId, status]));
}

export type RunKey = Readonly<{ tenantId: TenantId; runId: RunId }>;

/** Ends unfinished runs as cancelled, whoever holds them: their fence fails from then on. Returns those it changed. */
export async function cancelRuns(
  sql: Sql,
  cancel: Readonly<{ tenantId: TenantId; runIds: readonly RunId[]; reason: string }>,
): Promise<RunRow[]> {
  const { rows } = await sql.query<RunRow>(
    `update runs
    set status = 'interrupted', head = false, lease_owner = null, lease_expires_at = null,
      available_at = null, waits_for = null, provider = null, cancel_reason = $3,
      finished_at = clock_timestamp(), updated_at = clock_timestamp()
    where tenant_id = $1 and run_id = any($2::uuid[]) and status in ('pending', 'running')
    returning ${RUN_COLUMNS}`,
    [cancel.tenantId, cancel.runIds, cancel.reason],
  );
  return rows;
}

/** Deletes runs that are over, with their logs and streams. The thread must be locked. */
export async function deleteRuns(
  sql: Sql,
  gone: Readonly<{ tenantId: TenantId; threadId: ThreadId; runIds: readonly RunId[] }>,
): Promise<void> {
  await sql.query("delete from runs where tenant_id = $1 and thread_id = $2 and run_id = any ($3::uuid[])", [
    gone.tenantId,
    gone.threadId,
    gone.runIds,
  ]);
}

/** The thread a run (or edit) belongs to. */
export async function runThread(sql: Sql, key: RunKey): Promise<ThreadId | undefined> {
  const { rows } = await sql.query<{ threadId: ThreadId }>(
    `select thread_id as "threadId" from runs where tenant_id = $1 and run_id = $2`,
    [key.tenantId, key.runId],
  );
  return rows[0]?.threadId;
}

/** Whether anything of the thread is still to be done. An input that waits for an answer is not: a person is. */
export async function hasUnfinishedRuns(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
): Promise<boolean> {
  const { rows } = await sql.query<{ found: boolean }>(
    `select exists (
      select 1
      from runs
      where tenant_id = $1 and thread_id = $2 and status in ('pending', 'running') and waits_for is distinct from 'approval'
    ) as found`,
    [key.tenantId, key.threadId],
  );
  return rows[0]?.found ?? false;
}

/** Runs with one of these statuses, in the order they came; on one thread, if one is given. */
export async function runsWithStatus(
  sql: Sql,
  page: Readonly<{
    tenantId: TenantId;
    threadId: ThreadId | null;
    statuses: readonly RunStatus[];
    within?: Within;
    after: number;
    limit: number;
  }>,
): Promise<(Pick<RunRow, "threadId" | "runId"> & Readonly<{ seq: number }>)[]> {
  const { rows } = await sql.query<Pick<RunRow, "threadId" | "runId"> & { seq: number }>(
    `select thread_id as "threadId", run_id as "runId", seq
    from runs
    where tenant_id = $1 and ($2::uuid is null or thread_id = $2) and kind = 'run' and status = any($3::text[])
      and seq > $4 and ($5::jsonb is null or thread_id in (select * from threads_within($1, $5)))
    order by seq
    limit $6`,
    [page.tenantId, page.threadId, page.statuses, page.after, withinParam(page.within), page.limit],
  );
  return rows;
}

/** Unfinished runs of an assistant, some of them. */
export async function unfinishedRunsOf(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; assistantId: AssistantId; limit: number }>,
): Promise<Pick<RunRow, "threadId" | "runId">[]> {
  const { rows } = await sql.query<Pick<RunRow, "threadId" | "runId">>(
    `select thread_id as "threadId", run_id as "runId"
    from runs
    where tenant_id = $1 and assistant_id = $2 and kind = 'run' and status in ('pending', 'running')
    limit $3`,
    [of.tenantId, of.assistantId, of.limit],
  );
  return rows;
}

/** Those of the threads on which something is at work now, or will be as soon as a worker is free. */
export async function activeThreads(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; threadIds: readonly ThreadId[] }>,
): Promise<ReadonlySet<ThreadId>> {
  const { rows } = await sql.query<{ threadId: ThreadId }>(
    `select distinct thread_id as "threadId"
    from runs
    where tenant_id = $1 and thread_id = any($2::uuid[])
      and (status = 'running' or (status = 'pending' and waits_for is null and (available_at is null or merge_until is not null)))`,
    [of.tenantId, of.threadIds],
  );
  return new Set(rows.map(({ threadId }) => threadId));
}
