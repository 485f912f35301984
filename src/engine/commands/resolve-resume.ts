// Which open questions a resume answers: turns a plain value into an id map, or says why it can't be.
import { EngineError } from "../../core/errors.js";
import type { Sql } from "../../core/deps.js";
import { closedQuestions, lastDecision, pendingApprovals, type ApprovalRow } from "../../approvals/approvals.js";
import type { ThreadKey } from "../../runs/thread-lock.js";
import { answerAs } from "../hitl.js";
import { howClosed } from "./questions.js";
import { resumeMapOf, type CheckpointRef } from "./request.js";

/** A plain answer this soon after another decision on the thread may be its double click. */
const DOUBLE_CLICK_MS = 5_000;

export type Resolved = Readonly<{
  /** By interrupt id, each in the shape its question takes. */
  answers: Readonly<Record<string, unknown>>;
  asked: readonly ApprovalRow[];
}>;

type Ask = ThreadKey & Readonly<{ resume: unknown; checkpoint: CheckpointRef | null; isEngine: boolean }>;

/**
 * What a resume answers. The thread must be locked, so that one of many answers at once finds the question open.
 * Throws `not_pending` naming what is open, and who decided what, for everything that can't be meant or comes too late.
 */
export async function resolveResume(sql: Sql, ask: Ask): Promise<Resolved> {
  const pending = await pendingApprovals(sql, ask);
  const given = byId(ask.resume, pending) ?? (await resolvePlain(sql, ask, pending));
  const ids = Object.keys(given);
  const asked = pending.filter(({ interruptId }) => ids.includes(interruptId));
  const unknown = ids.filter((id) => !asked.some(({ interruptId }) => interruptId === id));
  if (unknown.length > 0) throw await notOpen(sql, ask, pending, unknown);
  const late = asked.find(({ overdue }) => overdue);
  if (late !== undefined && !ask.isEngine) throw tooLate(ask, late);
  const answers = asked.map((question) => {
    const id = question.interruptId;
    return [id, answerAs(question, given[id])] as const;
  });
  return { answers: Object.fromEntries(answers), asked };
}

/** Ids that were cut or copied wrong are still meant as ids: a value of this look answers nothing. */
const LIKE_AN_ID = /^[0-9a-f]{20,}$/i;
const MIN_PREFIX = 8;

/** The answers by id, right or wrong ones; undefined for a plain value. */
function byId(resume: unknown, pending: readonly ApprovalRow[]): Readonly<Record<string, unknown>> | undefined {
  const map = resumeMapOf(resume);
  if (map !== undefined || resume === null || typeof resume !== "object" || Array.isArray(resume)) return map;
  const keys = Object.keys(resume);
  const means = (key: string): boolean =>
    key.length >= MIN_PREFIX && pending.some(({ interruptId }) => interruptId.startsWith(key.toLowerCase()));
  const isMap = keys.some(means) || (keys.length > 0 && keys.every((key) => LIKE_AN_ID.test(key)));
  return isMap ? (resume as Record<string, unknown>) : undefined;
}

async function resolvePlain(
  sql: Sql,
  ask: Ask,
  pending: readonly ApprovalRow[],
): Promise<Readonly<Record<string, unknown>>> {
  const [question, another] = pending;
  if (question === undefined) throw await notPending(sql, ask, pending, "Nothing waits for an answer");
  if (another !== undefined) {
    throw await notPending(sql, ask, pending, "Several questions are open; answer by id with {interrupt id: value}");
  }
  const seen = ask.checkpoint?.checkpoint_id;
  if (seen !== undefined && seen !== question.checkpointId) {
    throw await notPending(sql, ask, pending, `Checkpoint ${seen} is not the one that asks`);
  }
  const last = seen === undefined ? await lastDecision(sql, { ...ask, withinMs: DOUBLE_CLICK_MS }) : undefined;
  if (last?.recent === true) {
    throw await notPending(
      sql,
      ask,
      pending,
      "Another answer was accepted a moment ago; name the interrupt id or the checkpoint you saw",
    );
  }
  return { [question.interruptId]: ask.resume };
}

/** Ids that aren't open: each is told what became of it. */
async function notOpen(
  sql: Sql,
  key: ThreadKey,
  pending: readonly ApprovalRow[],
  unknown: readonly string[],
): Promise<EngineError> {
  const closed = await closedQuestions(sql, { ...key, interruptIds: unknown });
  const named = unknown.map((id) => (id.length > MAX_SHOWN ? `${id.slice(0, MAX_SHOWN)}…` : id)).join(", ");
  return refusal(key, pending, `Interrupt ${named} is not open`, closed);
}

const MAX_SHOWN = 64;

async function notPending(
  sql: Sql,
  key: ThreadKey,
  pending: readonly ApprovalRow[],
  what: string,
): Promise<EngineError> {
  const last = await lastDecision(sql, { ...key, withinMs: DOUBLE_CLICK_MS });
  return refusal(key, pending, what, last === undefined ? [] : [last]);
}

function refusal(
  { threadId }: ThreadKey,
  pending: readonly ApprovalRow[],
  what: string,
  closed: readonly ApprovalRow[],
): EngineError {
  const ids = pending.map((a) => a.interruptId);
  const open = ids.length === 0 ? "nothing is pending" : `pending: ${ids.join(", ")}`;
  const before = closed.map((row) => ` Interrupt ${row.interruptId} ${howClosed(row)}.`).join("");
  const decided = closed.find(({ status }) => status === "decided");
  return new EngineError("not_pending", `${what} on thread ${threadId}: ${open}.${before}`, {
    details: {
      pending: ids,
      decided: decided && {
        interrupt_id: decided.interruptId,
        decision: decided.decision,
        decided_by: decided.decidedBy,
        decided_at: decided.decidedAt?.toISOString(),
        run_id: decided.decidedRunId,
      },
    },
  });
}

function tooLate({ threadId }: ThreadKey, { interruptId, deadlineAt, policy }: ApprovalRow): EngineError {
  const at = deadlineAt?.toISOString();
  return new EngineError(
    "not_pending",
    `Interrupt ${interruptId} on thread ${threadId} was to be answered until ${at}; it is closed as was said for that case`,
    { details: { interrupt_id: interruptId, deadline_at: at, on_deadline: policy.onDeadline } },
  );
}
