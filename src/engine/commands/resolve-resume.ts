// Which open questions a resume answers: turns a plain value into an id map, or says why it can't be.
import { EngineError } from "../../core/errors.js";
import type { Sql } from "../../core/deps.js";
import { lastDecision, pendingApprovals, type ApprovalRow } from "../../approvals/approvals.js";
import type { ThreadKey } from "../../runs/thread-lock.js";
import { answerAs } from "../hitl.js";
import { resumeMapOf, type CheckpointRef } from "./request.js";

/** A plain answer this soon after another decision on the thread may be its double click. */
const DOUBLE_CLICK_MS = 5_000;

export type Resolved = Readonly<{
  /** By interrupt id, each in the shape its question takes. */
  answers: Readonly<Record<string, unknown>>;
  asked: readonly ApprovalRow[];
}>;

/**
 * What a resume answers. The thread must be locked, so that one of many answers at once finds the question open.
 * Throws `not_pending` naming what is open, and who decided what, for everything that can't be meant.
 */
export async function resolveResume(
  sql: Sql,
  ask: ThreadKey & Readonly<{ resume: unknown; checkpoint: CheckpointRef | null }>,
): Promise<Resolved> {
  const pending = await pendingApprovals(sql, ask);
  const given = resumeMapOf(ask.resume) ?? (await resolvePlain(sql, ask, pending));
  const ids = Object.keys(given);
  const asked = pending.filter(({ interruptId }) => ids.includes(interruptId));
  const unknown = ids.filter((id) => !asked.some(({ interruptId }) => interruptId === id));
  if (unknown.length > 0) throw await notPending(sql, ask, pending, `Interrupt ${unknown.join(", ")} is not open`);
  const answers = asked.map(({ interruptId: id, form }) => [id, answerAs(form, given[id])] as const);
  return { answers: Object.fromEntries(answers), asked };
}

async function resolvePlain(
  sql: Sql,
  ask: ThreadKey & Readonly<{ resume: unknown; checkpoint: CheckpointRef | null }>,
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

async function notPending(
  sql: Sql,
  key: ThreadKey,
  pending: readonly ApprovalRow[],
  what: string,
): Promise<EngineError> {
  const last = await lastDecision(sql, { ...key, withinMs: DOUBLE_CLICK_MS });
  const ids = pending.map((a) => a.interruptId);
  const open = ids.length === 0 ? "nothing is pending" : `pending: ${ids.join(", ")}`;
  const before =
    last === undefined
      ? ""
      : ` Interrupt ${last.interruptId} was decided${last.decision === null ? "" : ` (${last.decision})`} by ${last.decidedBy} at ${last.decidedAt?.toISOString()}, run ${last.decidedRunId}.`;
  return new EngineError("not_pending", `${what} on thread ${key.threadId}: ${open}.${before}`, {
    details: {
      pending: ids,
      decided: last && {
        interrupt_id: last.interruptId,
        decision: last.decision,
        decided_by: last.decidedBy,
        decided_at: last.decidedAt?.toISOString(),
        run_id: last.decidedRunId,
      },
    },
  });
}
