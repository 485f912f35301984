// What opening and closing questions means beyond their own rows: their timers, the log of the run that asked, and the inputs
// that wait for an answer. The thread is locked by the caller.
import {
  type ApprovalRow,
  askApprovals,
  decideApprovals,
  pendingApprovals,
  withdrawApprovals,
} from "../../approvals/approvals.js";
import type { Deps, Sql } from "../../core/deps.js";
import { appendEvent } from "../../runs/events.js";
import { releaseQueuedInputs } from "../../runs/order.js";
import { hasUnfinishedRuns } from "../../runs/runs.js";
import type { ThreadKey } from "../../runs/thread-lock.js";
import { cancelTimers, setTimer } from "../../schedule/timers.js";

export const QUESTION_TIMERS = ["approval.deadline", "approval.remind", "approval.escalate"] as const;

/** Opens questions as `askApprovals` does, with their timers. */
export async function askQuestions(
  deps: Deps,
  sql: Sql,
  ask: Omit<Parameters<typeof askApprovals>[1], "questions"> &
    Readonly<{ questions: readonly Omit<Parameters<typeof askApprovals>[1]["questions"][number], "approvalId">[] }>,
): Promise<void> {
  const questions = ask.questions.map((question) => ({
    ...question,
    approvalId: deps.ids.next<ApprovalRow["approvalId"]>(),
  }));
  const open = await askApprovals(sql, { ...ask, questions });
  const added = open.filter((row) => questions.some(({ approvalId }) => approvalId === row.approvalId));
  for (const { tenantId, approvalId, policy } of added) {
    const times = [policy.deadlineMs, policy.remindMs, policy.escalateMs];
    for (const [i, afterMs] of times.entries()) {
      const kind = QUESTION_TIMERS[i];
      if (afterMs === null || kind === undefined) continue;
      await setTimer(sql, { tenantId, timerId: deps.ids.next(), kind, refId: approvalId, when: { afterMs } });
    }
  }
}

/** Withdraws questions as `withdrawApprovals` does. Returns those it closed. */
export async function withdrawQuestions(
  sql: Sql,
  withdrawal: Parameters<typeof withdrawApprovals>[1],
): Promise<readonly ApprovalRow[]> {
  const withdrawn = await withdrawApprovals(sql, withdrawal);
  await closed(sql, withdrawn);
  for (const row of withdrawn) {
    await appendEvent(sql, row, {
      type: "approval.withdrawn",
      attempt: 0,
      payload: { interrupt_id: row.interruptId, reason: withdrawal.reason },
    });
  }
  if (withdrawn.length > 0) await releaseInputs(sql, withdrawal);
  return withdrawn;
}

/** Decides questions as `decideApprovals` does. */
export async function decideQuestions(
  sql: Sql,
  decision: Parameters<typeof decideApprovals>[1],
): Promise<readonly ApprovalRow[]> {
  const decided = await decideApprovals(sql, decision);
  await closed(sql, decided);
  for (const row of decided) {
    await appendEvent(sql, row, {
      type: "approval.decided",
      attempt: 0,
      payload: {
        interrupt_id: row.interruptId,
        decision: row.decision,
        decided_by: row.decidedBy,
        decided_run_id: row.decidedRunId,
      },
    });
  }
  return decided;
}

async function closed(sql: Sql, rows: readonly ApprovalRow[]): Promise<void> {
  const [first] = rows;
  const timed = rows.filter(({ policy }) =>
    [policy.deadlineMs, policy.remindMs, policy.escalateMs].some((ms) => ms !== null),
  );
  if (first === undefined || timed.length === 0) return;
  const refIds = timed.map(({ approvalId }) => approvalId);
  await cancelTimers(sql, { tenantId: first.tenantId, kinds: QUESTION_TIMERS, refIds });
}

/** Inputs that waited for answers have their turn when no question holds them any more. */
async function releaseInputs(sql: Sql, thread: ThreadKey): Promise<void> {
  const open = await pendingApprovals(sql, thread);
  if (!open.some(({ policy }) => policy.onMessage === "queue")) await releaseQueuedInputs(sql, thread);
}

/** What a thread is when something of it has ended from outside: other questions of its may still be open. */
export async function statusLeft(sql: Sql, thread: ThreadKey): Promise<"busy" | "interrupted" | "idle"> {
  if (await hasUnfinishedRuns(sql, thread)) return "busy";
  return (await pendingApprovals(sql, thread)).length > 0 ? "interrupted" : "idle";
}

/** Who closed a question, when and how, for messages. */
export function howClosed(row: ApprovalRow): string {
  const at = row.decidedAt?.toISOString() ?? "";
  if (row.status === "withdrawn") return `was withdrawn at ${at}: ${row.withdrawnReason}`;
  const decision = row.decision === null ? "" : ` (${row.decision})`;
  return `was decided${decision} by ${row.decidedBy} at ${at}, run ${row.decidedRunId}`;
}
