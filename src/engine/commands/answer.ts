// An answer to open questions: may the caller give it, is it enough, and if it is, whose run takes it on.
import type { ApprovalRow } from "../../approvals/approvals.js";
import { listVotes, putVote, type VoteRow } from "../../approvals/votes.js";
import { type Caller, mayDecide } from "../../core/approval.js";
import { canonicalSha256 } from "../../core/canonical.js";
import type { Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import { appendEvent } from "../../runs/events.js";
import { decisionWord } from "./request.js";

export type Answers = Readonly<Record<string, unknown>>;

/** Throws `forbidden` unless the caller may answer each of these questions. */
export function refuseStrangers(asked: readonly ApprovalRow[], caller: Caller): void {
  const closed = asked.filter(({ policy, escalatedAt }) => !mayDecide(policy, caller, escalatedAt !== null));
  if (closed.length === 0) return;
  const who = caller.person === null ? "A caller nobody knows" : JSON.stringify(caller.person);
  const ids = closed.map(({ interruptId }) => interruptId);
  throw new EngineError(
    "forbidden",
    `${who} may not decide interrupt ${ids.join(", ")}; GET /v1/approvals says who may`,
    { details: { interrupt_ids: ids, deciders: closed[0]?.policy.deciders } },
  );
}

export type Vote = Readonly<{ decidedBy: string } | { waiting: EngineError }>;

/**
 * Counts an answer where more than one must give it: who decides when it is enough, else the error to tell when the vote is stored.
 * Undefined when no question needs it. One that says no is enough.
 */
export async function countVote(
  sql: Sql,
  asked: readonly ApprovalRow[],
  answers: Answers,
  caller: Caller,
): Promise<Vote | undefined> {
  const [question] = asked.filter(
    ({ policy, interruptId }) => policy.atLeast > 1 && !isRejection(answers[interruptId]),
  );
  if (question === undefined) return undefined;
  const { interruptId, policy } = question;
  if (asked.length > 1) {
    throw new EngineError(
      "bad_request",
      `Interrupt ${interruptId} needs ${policy.atLeast} people: answer it by itself`,
    );
  }
  if (caller.person === null) {
    throw new EngineError("forbidden", `Interrupt ${interruptId} needs ${policy.atLeast} people: say who you are`);
  }
  const answer = answers[interruptId];
  const answerSha256 = canonicalSha256(question.form === "approve" ? withoutMessage(answer) : answer);
  const decision = decisionWord(answer);
  await putVote(sql, { ...question, person: caller.person, decision, answerSha256 });
  await appendEvent(sql, question, {
    type: "approval.voted",
    attempt: 0,
    payload: { interrupt_id: interruptId, person: caller.person, decision },
  });
  const same = (await listVotes(sql, question)).filter((vote) => vote.answerSha256.equals(answerSha256));
  if (same.length >= policy.atLeast) return { decidedBy: same.map(({ person }) => person).join(", ") };
  return { waiting: needsMore(question, same) };
}

/** Who says why says the same. */
function withoutMessage(answer: unknown): unknown {
  const { message: _message, ...said } = answer as Readonly<Record<string, unknown>>;
  return said;
}

function needsMore({ approvalId, interruptId, policy }: ApprovalRow, same: readonly VoteRow[]): EngineError {
  const people = same.map(({ person }) => person);
  const message = `Counted: ${people.length} of ${policy.atLeast} say so (${people.join(", ")}); interrupt ${interruptId} stays open`;
  return new EngineError("more_votes_needed", message, {
    details: { approval_id: approvalId, interrupt_id: interruptId, votes: people, needed: policy.atLeast },
  });
}

const NO = new Set(["no", "false", "reject", "ignore"]);

function isRejection(answer: unknown): boolean {
  const words = decisionWord(answer)?.split(", ") ?? [];
  return words.length > 0 && words.every((word) => NO.has(word));
}
