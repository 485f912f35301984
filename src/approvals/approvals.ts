// Questions to people (table `approvals`): one row per pending interrupt, decided once.
// The question's text is not here: it stays in the checkpoint that asked it.
import type { Sql } from "../core/deps.js";
import type { ApprovalId, RunId, TenantId, ThreadId } from "../core/ids.js";

export type ApprovalRow = Readonly<{
  tenantId: TenantId;
  approvalId: ApprovalId;
  threadId: ThreadId;
  runId: RunId;
  checkpointId: string | null;
  interruptId: string;
  node: string | null;
  status: "pending" | "decided" | "withdrawn";
  askedAt: Date;
  decidedAt: Date | null;
  decidedBy: string | null;
  decidedRunId: RunId | null;
  decision: string | null;
  withdrawnReason: string | null;
}>;

const COLUMNS = `
  tenant_id as "tenantId", approval_id as "approvalId", thread_id as "threadId", run_id as "runId",
  checkpoint_id as "checkpointId", interrupt_id as "interruptId", node, status, asked_at as "askedAt",
  decided_at as "decidedAt", decided_by as "decidedBy", decided_run_id as "decidedRunId", decision,
  withdrawn_reason as "withdrawnReason"`;

type ThreadKey = Readonly<{ tenantId: TenantId; threadId: ThreadId }>;

export async function getApproval(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; approvalId: ApprovalId }>,
): Promise<ApprovalRow | undefined> {
  const { rows } = await sql.query<ApprovalRow>(
    `select ${COLUMNS} from approvals where tenant_id = $1 and approval_id = $2`,
    [key.tenantId, key.approvalId],
  );
  return rows[0];
}

/** Oldest question first. */
export async function listApprovals(
  sql: Sql,
  filter: Readonly<{
    tenantId: TenantId;
    status?: ApprovalRow["status"];
    threadId?: ThreadId;
    limit: number;
    offset: number;
  }>,
): Promise<ApprovalRow[]> {
  const { rows } = await sql.query<ApprovalRow>(
    `select ${COLUMNS}
    from approvals
    where tenant_id = $1 and ($2::text is null or status = $2) and ($3::uuid is null or thread_id = $3)
    order by asked_at, approval_id
    limit $4 offset $5`,
    [filter.tenantId, filter.status ?? null, filter.threadId ?? null, filter.limit, filter.offset],
  );
  return rows;
}

export async function pendingApprovals(sql: Sql, key: ThreadKey): Promise<ApprovalRow[]> {
  return listApprovals(sql, { ...key, status: "pending", limit: 10_000, offset: 0 });
}

/** The runs of a thread whose questions are open. */
export async function runsThatAsk(sql: Sql, key: ThreadKey): Promise<RunId[]> {
  const { rows } = await sql.query<{ runId: RunId }>(
    `select distinct run_id as "runId" from approvals where tenant_id = $1 and thread_id = $2 and status = 'pending'`,
    [key.tenantId, key.threadId],
  );
  return rows.map(({ runId }) => runId);
}

/** The last decision on a thread, and whether it was made within the last `withinMs` of database time. */
export async function lastDecision(
  sql: Sql,
  key: ThreadKey & Readonly<{ withinMs: number }>,
): Promise<(ApprovalRow & Readonly<{ recent: boolean }>) | undefined> {
  const { rows } = await sql.query<ApprovalRow & { recent: boolean }>(
    `select ${COLUMNS}, decided_at > clock_timestamp() - $3::float8 * interval '1 ms' as recent
    from approvals
    where tenant_id = $1 and thread_id = $2 and status = 'decided'
    order by decided_at desc
    limit 1`,
    [key.tenantId, key.threadId, key.withinMs],
  );
  return rows[0];
}

/** Claims the pending rows of these interrupts; first wins. Returns the rows it claimed. */
export async function decideApprovals(
  sql: Sql,
  decision: ThreadKey &
    Readonly<{
      interruptIds: readonly string[];
      decidedBy: string;
      decidedRunId: RunId;
      decisions: readonly (string | null)[];
    }>,
): Promise<ApprovalRow[]> {
  const { rows } = await sql.query<ApprovalRow>(
    `update approvals a
    set status = 'decided', decided_at = clock_timestamp(), decided_by = $5, decided_run_id = $6, decision = d.decision
    from unnest($3::text[], $4::text[]) d(id, decision)
    where a.tenant_id = $1 and a.thread_id = $2 and a.status = 'pending' and a.interrupt_id = d.id
    returning ${COLUMNS.replace("decision,", "a.decision,")}`,
    [
      decision.tenantId,
      decision.threadId,
      decision.interruptIds,
      decision.decisions,
      decision.decidedBy,
      decision.decidedRunId,
    ],
  );
  return rows;
}

/** Withdraws the thread's pending questions: those of one run, or all, except those listed. Returns how many. */
export async function withdrawApprovals(
  sql: Sql,
  withdrawal: ThreadKey & Readonly<{ reason: string; except?: readonly string[]; runId?: RunId }>,
): Promise<number> {
  const { rowCount } = await sql.query(
    `update approvals
    set status = 'withdrawn', decided_at = clock_timestamp(), withdrawn_reason = $3
    where tenant_id = $1 and thread_id = $2 and status = 'pending' and interrupt_id <> all($4::text[])
      and ($5::uuid is null or run_id = $5)`,
    [withdrawal.tenantId, withdrawal.threadId, withdrawal.reason, withdrawal.except ?? [], withdrawal.runId ?? null],
  );
  return rowCount;
}

/**
 * Opens a question per interrupt. One that is open already stays the same question, asked by this run now; one whose answer
 * is on its way (decided for a run that `answering` names) is not asked again. Returns how many are open by it.
 */
export async function askApprovals(
  sql: Sql,
  ask: ThreadKey &
    Readonly<{
      runId: RunId;
      checkpointId: string | null;
      questions: readonly Readonly<{ approvalId: ApprovalId; interruptId: string; node: string | null }>[];
      answering: readonly RunId[];
    }>,
): Promise<number> {
  const { rowCount } = await sql.query(
    `insert into approvals (tenant_id, approval_id, thread_id, run_id, checkpoint_id, interrupt_id, node)
    select $1, q.approval_id, $2, $3, $4, q.interrupt_id, q.node
    from unnest($5::uuid[], $6::text[], $7::text[]) q(approval_id, interrupt_id, node)
    where not exists (
      select 1
      from approvals d
      where d.tenant_id = $1 and d.thread_id = $2 and d.interrupt_id = q.interrupt_id
        and d.status = 'decided' and d.decided_run_id = any($8::uuid[])
    )
    on conflict (tenant_id, thread_id, interrupt_id) where status = 'pending'
    do update set run_id = excluded.run_id, checkpoint_id = excluded.checkpoint_id`,
    [
      ask.tenantId,
      ask.threadId,
      ask.runId,
      ask.checkpointId,
      ask.questions.map((q) => q.approvalId),
      ask.questions.map((q) => q.interruptId),
      ask.questions.map((q) => q.node),
      ask.answering,
    ],
  );
  return rowCount;
}
