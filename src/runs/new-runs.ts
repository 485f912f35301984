// New rows of the table `runs`: runs that are accepted, and edits, which hold their thread from the start.
import type { Sql } from "../core/deps.js";
import type { AssistantId, ConversationId, FollowupId, RunId, TenantId, ThreadId } from "../core/ids.js";
import type { MultitaskStrategy, Priority, ThreadStatus } from "../core/run.js";
import { RUN_COLUMNS, type RunRow } from "./runs.js";

export type NewRun = Readonly<{
  tenantId: TenantId;
  runId: RunId;
  threadId: ThreadId;
  assistantId: AssistantId;
  graphId: string;
  /** At best: its tenant's may not be as urgent. */
  priority: Priority;
  resumes: boolean;
  head: boolean;
  multitaskStrategy: MultitaskStrategy;
  metadata: Readonly<Record<string, unknown>>;
  /** UTF-8 JSON of everything in the request that is content. */
  request: Buffer;
  /** Null: at once. */
  delayMs: number | null;
  /** How long it waits for more messages, keeping its place; null: not at all. */
  mergeMs: number | null;
  /** It waits until the questions that are open on its thread are not any more. */
  afterAnswer: boolean;
  /** Where what it says goes; null: to whoever looks. */
  conversationId: ConversationId | null;
  /** Of which follow-up it is, and whether it does the work or tells of it. */
  followupId: FollowupId | null;
  followupPart: "work" | "tell" | null;
  /** Told when it is over. */
  webhook: string | null;
  keepsLast: boolean;
  assistantVersion: number | null;
  /** Only while its assistant has that version. */
  ifVersionCounts: boolean;
}>;

/** Inserts a pending run; returns it as stored, undefined when its assistant has another version by now. */
export async function insertRun(sql: Sql, run: NewRun): Promise<RunRow | undefined> {
  const { rows } = await sql.query<RunRow>(
    `insert into runs (
      tenant_id, run_id, thread_id, assistant_id, graph_id, priority, head,
      multitask_strategy, metadata, request, available_at, merge_until, waits_for, resumes, pin, stays,
      conversation_id, followup_id, followup_part, webhook, assistant_version, keeps_last)
    select $1, $2::uuid, $3, $4, $5, greatest($6, (select best_priority from tenants where tenant_id = $1)), $7::boolean, $8,
      $9::jsonb, $10::bytea,
      clock_timestamp() + coalesce($11::float8, case when not $12 then $13::float8 end) * interval '1 ms',
      clock_timestamp() + $13::float8 * interval '1 ms',
      case when $12 then 'approval' when $11::float8 is not null or $13::float8 is not null then 'timer' end, $14, p.pin,
      p.stays, $15::uuid, $16::uuid, $17::text, $18::text, $19::int, $21::boolean
    from run_pin($1, $4, $3, $14) p
    where not $20::boolean or version_counts($1, $4, $19)
    returning ${RUN_COLUMNS}`,
    [
      run.tenantId,
      run.runId,
      run.threadId,
      run.assistantId,
      run.graphId,
      run.priority,
      run.head,
      run.multitaskStrategy,
      JSON.stringify(run.metadata),
      run.request,
      run.delayMs,
      run.afterAnswer,
      run.mergeMs,
      run.resumes,
      run.conversationId,
      run.followupId,
      run.followupPart,
      run.webhook,
      run.assistantVersion,
      run.ifVersionCounts,
      run.keepsLast,
    ],
  );
  return rows[0];
}

/** Inserts an edit that holds its thread from the start: running, leased to `owner`. */
export async function insertEdit(
  sql: Sql,
  edit: Readonly<{
    tenantId: TenantId;
    runId: RunId;
    threadId: ThreadId;
    assistantId: AssistantId;
    graphId: string;
    owner: string;
    leaseMs: number;
    /** What the thread was before: what it is again if the edit dies. */
    threadStatus: ThreadStatus;
    /** More to remember with it. */
    metadata?: Readonly<Record<string, unknown>>;
  }>,
): Promise<void> {
  await sql.query(
    `insert into runs (
      tenant_id, run_id, thread_id, assistant_id, graph_id, kind, status, head, attempt,
      lease_owner, lease_expires_at, started_at, metadata)
    values ($1, $2, $3, $4, $5, 'edit', 'running', true, 1,
      $6, clock_timestamp() + $7::float8 * interval '1 ms', clock_timestamp(), $8)`,
    [
      edit.tenantId,
      edit.runId,
      edit.threadId,
      edit.assistantId,
      edit.graphId,
      edit.owner,
      edit.leaseMs,
      JSON.stringify({ ...edit.metadata, thread_status: edit.threadStatus }),
    ],
  );
}
