// Questions to people (table `approvals`): one row per pending interrupt, decided once.
// The question's text is not here: it stays in the checkpoint that asked it.
import { type Within, withinParam } from "../core/access.js";
import { type ApprovalPolicy, NO_POLICY, type Question, type QuestionForm } from "../core/approval.js";
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
  form: QuestionForm;
  actions: number;
  policy: ApprovalPolicy;
  deadlineAt: Date | null;
  /** Its deadline is over, though nobody has closed it yet. */
  overdue: boolean;
  remindedAt: Date | null;
  escalatedAt: Date | null;
  status: "pending" | "decided" | "withdrawn";
  askedAt: Date;
  decidedAt: Date | null;
  decidedBy: string | null;
  decidedRunId: RunId | null;
  decision: string | null;
  withdrawnReason: string | null;
}>;

/** What is listed as pending can still be answered; what is overdue waits for a scheduler to close it. */
export const LISTED = ["pending", "overdue", "decided", "withdrawn"] as const;
export type Listed = (typeof LISTED)[number];

const OVERDUE = "a.status = 'pending' and a.deadline_at is not null and a.deadline_at <= clock_timestamp()";
const COLUMNS = `
  a.tenant_id as "tenantId", a.approval_id as "approvalId", a.thread_id as "threadId", a.run_id as "runId",
  a.checkpoint_id as "checkpointId", a.interrupt_id as "interruptId", a.node, a.form, a.actions, a.policy,
  a.deadline_at as "deadlineAt",
  ${OVERDUE} as overdue, a.reminded_at as "remindedAt", a.escalated_at as "escalatedAt", a.status,
  a.asked_at as "askedAt", a.decided_at as "decidedAt", a.decided_by as "decidedBy", a.decided_run_id as "decidedRunId",
  a.decision, a.withdrawn_reason as "withdrawnReason"`;

type Stored = Omit<ApprovalRow, "policy"> & Readonly<{ policy: Readonly<Record<string, unknown>> }>;

/** A policy's names in the database; what is as usual is left out there. */
const POLICY_FIELDS = [
  ["deciders", "deciders"],
  ["at_least", "atLeast"],
  ["deadline_ms", "deadlineMs"],
  ["on_deadline", "onDeadline"],
  ["remind_ms", "remindMs"],
  ["escalate_ms", "escalateMs"],
  ["escalate_to", "escalateTo"],
  ["allowed", "allowed"],
  ["on_message", "onMessage"],
] as const;

export function storedPolicy(policy: ApprovalPolicy): Readonly<Record<string, unknown>> {
  const unusual = POLICY_FIELDS.filter(([, name]) => policy[name] !== NO_POLICY[name]);
  return Object.fromEntries(unusual.map(([stored, name]) => [stored, policy[name]]));
}

function fromStored<R extends Stored>(row: R): Omit<R, "policy"> & Readonly<{ policy: ApprovalPolicy }> {
  const given = POLICY_FIELDS.filter(([stored]) => stored in row.policy);
  const policy = Object.fromEntries(given.map(([stored, name]) => [name, row.policy[stored]]));
  return { ...row, policy: { ...NO_POLICY, ...policy } };
}

type ThreadKey = Readonly<{ tenantId: TenantId; threadId: ThreadId }>;
export type ApprovalKey = Readonly<{ tenantId: TenantId; approvalId: ApprovalId }>;

export async function getApproval(sql: Sql, key: ApprovalKey): Promise<ApprovalRow | undefined> {
  const { rows } = await sql.query<Stored>(
    `select ${COLUMNS} from approvals a where a.tenant_id = $1 and a.approval_id = $2`,
    [key.tenantId, key.approvalId],
  );
  return rows.map(fromStored)[0];
}

/** Oldest question first. */
export async function listApprovals(
  sql: Sql,
  filter: Readonly<{
    tenantId: TenantId;
    status?: Listed;
    threadId?: ThreadId;
    within?: Within;
    limit: number;
    offset: number;
  }>,
): Promise<ApprovalRow[]> {
  const { rows } = await sql.query<Stored>(
    `select ${COLUMNS}
    from approvals a
    where a.tenant_id = $1 and ($3::uuid is null or a.thread_id = $3)
      and case $2::text
        when 'pending' then a.status = 'pending' and not (${OVERDUE})
        when 'overdue' then ${OVERDUE}
        else $2 is null or a.status = $2
      end
      and ($4::jsonb is null or a.thread_id in (select * from threads_within($1, $4)))
    order by a.asked_at, a.approval_id
    limit $5 offset $6`,
    [
      filter.tenantId,
      filter.status ?? null,
      filter.threadId ?? null,
      withinParam(filter.within),
      filter.limit,
      filter.offset,
    ],
  );
  return rows.map(fromStored);
}

/** All that are open, the overdue ones too. */
export async function pendingApprovals(sql: Sql, key: ThreadKey): Promise<ApprovalRow[]> {
  const { rows } = await sql.query<Stored>(
    `select ${COLUMNS} from approvals a where a.tenant_id = $1 and a.thread_id = $2 and a.status = 'pending'
    order by a.asked_at, a.approval_id`,
    [key.tenantId, key.threadId],
  );
  return rows.map(fromStored);
}

/** The run that the answers to a run's questions, and to those of the runs that they made, have led to; itself where none did. */
export async function answeringRun(sql: Sql, run: ThreadKey & Readonly<{ runId: RunId }>): Promise<RunId> {
  const { rows } = await sql.query<{ runId: RunId }>(
    `with recursive chain as (
      select $3::uuid as run_id, 0 as depth
      union
      select a.decided_run_id, c.depth + 1
      from chain c
      join approvals a on a.tenant_id = $1 and a.thread_id = $2 and a.run_id = c.run_id and a.decided_run_id <> c.run_id
      where c.depth < 1000
    )
    select run_id as "runId" from chain order by depth desc, run_id desc limit 1`,
    [run.tenantId, run.threadId, run.runId],
  );
  return rows[0]?.runId ?? run.runId;
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
  const { rows } = await sql.query<Stored & { recent: boolean }>(
    `select ${COLUMNS}, a.decided_at > clock_timestamp() - $3::float8 * interval '1 ms' as recent
    from approvals a
    where a.tenant_id = $1 and a.thread_id = $2 and a.status = 'decided'
    order by a.decided_at desc
    limit 1`,
    [key.tenantId, key.threadId, key.withinMs],
  );
  return rows.map(fromStored)[0];
}

/** How these questions of a thread were closed: the last of each. */
export async function closedQuestions(
  sql: Sql,
  key: ThreadKey & Readonly<{ interruptIds: readonly string[] }>,
): Promise<ApprovalRow[]> {
  const { rows } = await sql.query<Stored>(
    `select distinct on (a.interrupt_id) ${COLUMNS}
    from approvals a
    where a.tenant_id = $1 and a.thread_id = $2 and a.interrupt_id = any($3::text[]) and a.status <> 'pending'
    order by a.interrupt_id, a.decided_at desc`,
    [key.tenantId, key.threadId, key.interruptIds],
  );
  return rows.map(fromStored);
}

/** The question as it was asked last: open or closed. */
export async function findQuestion(
  sql: Sql,
  key: ThreadKey & Readonly<{ interruptId: string }>,
): Promise<ApprovalRow | undefined> {
  const { rows } = await sql.query<Stored>(
    `select ${COLUMNS}
    from approvals a
    where a.tenant_id = $1 and a.thread_id = $2 and a.interrupt_id = $3
    order by a.asked_at desc
    limit 1`,
    [key.tenantId, key.threadId, key.interruptId],
  );
  return rows.map(fromStored)[0];
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
  const { rows } = await sql.query<Stored>(
    `update approvals a
    set status = 'decided', decided_at = clock_timestamp(), decided_by = $5, decided_run_id = $6, decision = d.said
    from unnest($3::text[], $4::text[]) d(id, said)
    where a.tenant_id = $1 and a.thread_id = $2 and a.status = 'pending' and a.interrupt_id = d.id
    returning ${COLUMNS}`,
    [
      decision.tenantId,
      decision.threadId,
      decision.interruptIds,
      decision.decisions,
      decision.decidedBy,
      decision.decidedRunId,
    ],
  );
  return rows.map(fromStored);
}

/** Withdraws the thread's pending questions: those of one run, or all, except those listed. Returns them. */
export async function withdrawApprovals(
  sql: Sql,
  withdrawal: ThreadKey &
    Readonly<{ reason: string; except?: readonly string[]; runId?: RunId; approvalId?: ApprovalId }>,
): Promise<ApprovalRow[]> {
  const { rows } = await sql.query<Stored>(
    `update approvals a
    set status = 'withdrawn', decided_at = clock_timestamp(), withdrawn_reason = $3
    where a.tenant_id = $1 and a.thread_id = $2 and a.status = 'pending' and a.interrupt_id <> all($4::text[])
      and ($5::uuid is null or a.run_id = $5) and ($6::uuid is null or a.approval_id = $6)
    returning ${COLUMNS}`,
    [
      withdrawal.tenantId,
      withdrawal.threadId,
      withdrawal.reason,
      withdrawal.except ?? [],
      withdrawal.runId ?? null,
      withdrawal.approvalId ?? null,
    ],
  );
  return rows.map(fromStored);
}

/**
 * Opens a question per interrupt. One that is open already stays the same question, asked by this run now; one whose answer
 * is on its way (decided for a run that `answering` names) is not asked again. Returns those that are open by it.
 */
export async function askApprovals(
  sql: Sql,
  ask: ThreadKey &
    Readonly<{
      runId: RunId;
      checkpointId: string | null;
      questions: readonly (Question & Readonly<{ approvalId: ApprovalId }>)[];
      answering: readonly RunId[];
    }>,
): Promise<ApprovalRow[]> {
  const { questions } = ask;
  const { rows } = await sql.query<Stored>(
    `insert into approvals as a (tenant_id, approval_id, thread_id, run_id, checkpoint_id, interrupt_id, node, form,
      actions, policy, deadline_at)
    select $1, q.approval_id, $2, $3, $4, q.interrupt_id, q.node, q.form, q.actions, q.policy,
      clock_timestamp() + (q.policy ->> 'deadline_ms')::float8 * interval '1 ms'
    from unnest($5::uuid[], $6::text[], $7::text[], $9::text[], $10::int[], $11::jsonb[])
      q(approval_id, interrupt_id, node, form, actions, policy)
    where not exists (
      select 1
      from approvals d
      where d.tenant_id = $1 and d.thread_id = $2 and d.interrupt_id = q.interrupt_id
        and d.status = 'decided' and d.decided_run_id = any($8::uuid[])
    )
    on conflict (tenant_id, thread_id, interrupt_id) where status = 'pending'
    do update set run_id = excluded.run_id, checkpoint_id = excluded.checkpoint_id
    returning ${COLUMNS}`,
    [
      ask.tenantId,
      ask.threadId,
      ask.runId,
      ask.checkpointId,
      questions.map((q) => q.approvalId),
      questions.map((q) => q.interruptId),
      questions.map((q) => q.node),
      ask.answering,
      questions.map((q) => q.form),
      questions.map((q) => q.actions),
      questions.map((q) => JSON.stringify(storedPolicy(q.policy))),
    ],
  );
  return rows.map(fromStored);
}

/** Notes that those who may decide were reminded, or that others may now. False when it is not open any more. */
export async function markApproval(
  sql: Sql,
  key: ApprovalKey & Readonly<{ what: "reminded" | "escalated" }>,
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update approvals
    set reminded_at = case when $3 = 'reminded' then clock_timestamp() else reminded_at end,
      escalated_at = case when $3 = 'escalated' then clock_timestamp() else escalated_at end
    where tenant_id = $1 and approval_id = $2 and status = 'pending'`,
    [key.tenantId, key.approvalId, key.what],
  );
  return rowCount === 1;
}
