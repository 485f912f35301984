// What happens to a question that nobody answers: those who may are reminded, others may as well, and at its deadline it is
// closed as was said beforehand, once, whoever is up by then.
import { type ApprovalRow, getApproval, markApproval } from "../../approvals/approvals.js";
import { ENGINE } from "../../core/approval.js";
import type { Deps, Sql } from "../../core/deps.js";
import type { ApprovalId, RunId } from "../../core/ids.js";
import { appendEvent } from "../../runs/events.js";
import { makeNextHead } from "../../runs/order.js";
import { lockThreadIfFree, updateThreadStatus } from "../../runs/thread-lock.js";
import { claimDueTimer, finishTimer, type TimerRow } from "../../schedule/timers.js";
import { canBeRejected, rejection } from "../hitl.js";
import { afterCreation, type CreatedRun, createRunIn } from "./create-run.js";
import { statusLeft, withdrawQuestions } from "./questions.js";
import type { RunCommand } from "./request.js";
import { type RunSettings, settingsOfRun } from "./settings-of-run.js";

const LATE = "Nobody answered in time.";

/** Notes on an open question that its time has come. Returns whether it was still open. */
export async function fireNotice(deps: Deps, timer: TimerRow, what: "reminded" | "escalated"): Promise<boolean> {
  return deps.db.tx(async (sql) => {
    const approval = await claimQuestion(sql, timer);
    if (approval === undefined) return false;
    await markApproval(sql, { ...approval, what });
    const payload = { interrupt_id: approval.interruptId };
    await appendEvent(sql, approval, { type: `approval.${what}`, attempt: 0, payload });
    return true;
  });
}

/** Closes a question whose time is over. Returns whether it was still open. */
export async function fireDeadline(deps: Deps, timer: TimerRow): Promise<boolean> {
  const { tenantId } = timer;
  const approval = await getApproval(deps.db, { tenantId, approvalId: timer.refId as ApprovalId });
  // Before the transaction, since what the run was asked may be in the object store.
  const asking = approval && (await settingsOfRun(deps, approval));
  const done = await deps.db.tx(async (sql) => {
    const question = await claimQuestion(sql, timer);
    return question && (await close(deps, sql, question, asking));
  });
  if (done === undefined) return false;
  if (done === "ended") deps.notifier.notify("runs");
  else afterCreation(deps, done);
  return true;
}

/** The question, with its thread locked and the timer done; undefined when it is not open any more, or
 * somebody else has the thread. */
async function claimQuestion(sql: Sql, timer: TimerRow): Promise<ApprovalRow | undefined> {
  const key = { tenantId: timer.tenantId, approvalId: timer.refId as ApprovalId };
  const approval = await getApproval(sql, key);
  if (approval !== undefined && (await lockThreadIfFree(sql, approval)) === "held") return undefined;
  if (!(await claimDueTimer(sql, timer))) return undefined;
  await finishTimer(sql, timer);
  const now = approval && (await getApproval(sql, key));
  return now?.status === "pending" ? now : undefined;
}

async function close(
  deps: Deps,
  sql: Sql,
  question: ApprovalRow,
  asking: RunSettings | undefined,
): Promise<CreatedRun | "ended"> {
  const { onDeadline } = question.policy;
  // Where no isn't among what it takes, the question ends: an answer would fail the run.
  if (onDeadline === "reject" && canBeRejected(question) && asking !== undefined) {
    const resume = { [question.interruptId]: rejection(question, LATE) };
    return goOn(deps, sql, question, asking, { resume });
  }
  await withdrawQuestions(sql, { ...question, reason: LATE });
  if (asking !== undefined) {
    const command = typeof onDeadline === "object" ? { goto: onDeadline.goto } : {};
    return goOn(deps, sql, question, asking, { ...command, ends_tasks: true });
  }
  // Whose assistant is gone, nobody goes on.
  await makeNextHead(sql, question);
  await updateThreadStatus(sql, { ...question, status: await statusLeft(sql, question) });
  return "ended";
}

async function goOn(
  deps: Deps,
  sql: Sql,
  { tenantId, threadId }: ApprovalRow,
  { run, assistant, request, priority }: RunSettings,
  command: RunCommand,
): Promise<CreatedRun> {
  const input = {
    ...{ tenantId, threadId, assistant, metadata: {}, request: { ...request, command } },
    ...({ multitaskStrategy: "enqueue", ifNotExists: "reject", onCompletion: "keep", afterSeconds: null } as const),
    priority,
    conversationId: run.conversationId,
    webhook: run.webhook,
    keepsLast: run.keepsLast,
    mergeWindowMs: 0,
    ...{ caller: ENGINE, createdBy: "deadline", graph: null },
  };
  const created = await createRunIn(deps, sql, input, deps.ids.next<RunId>());
  if ("waiting" in created) throw created.waiting;
  return created;
}
