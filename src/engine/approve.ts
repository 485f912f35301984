// Asking a person from inside a graph, with who may answer, until when, and what then.
import { interrupt } from "@langchain/langgraph";
import { POLICY } from "../core/approval.js";
import { approveAnswerOf } from "./approve-answers.js";
import { approvalSettings, type ApprovalSettings } from "./approval-policy.js";

/** What to ask, and what the question comes with; lengths of time are like "24h", or milliseconds. */
export type Approve = ApprovalSettings &
  Readonly<{
    question: string;
    /** What it is about, for whoever decides: shown with the question, and may be edited in the answer. */
    details?: unknown;
  }>;

export type Decision = Readonly<{
  approved: boolean;
  /** What whoever decided said about it. */
  message: string | null;
  /** As it was asked, or as it was edited. */
  details: unknown;
}>;

/**
 * Parks the run until somebody who may has decided, for as long as it takes, and holds nothing meanwhile. As with LangGraph's
 * `interrupt`, the node is entered again from its top, so what stands before the call runs twice.
 *
 * Answers: `true`, `"yes"`, `"approve"`, `{type: "approve"}`, `{approved: true}` and, with other details, `{type: "edit", details}` approve;
 * `false`, `"no"`, `"reject"`, `{type: "reject"}` and `{approved: false}` do not; each object may have a `message`. Any other answer is
 * refused, and the question stays open.
 *
 * @example
 * const { approved } = approve({
 *   question: `Pay ${amount} to ${to}?`, deciders: { roles: ["finance"] }, atLeast: 2, deadline: "24h",
 * });
 * @throws TypeError when a setting can't be meant
 */
export function approve({ question, details, ...settings }: Approve): Decision {
  const parsed = approvalSettings.safeParse(settings);
  if (!parsed.success) {
    const issues = parsed.error.issues.map(
      ({ path, message }) => `${path.length === 0 ? "" : `${path.join(".")} `}${message}`,
    );
    throw new TypeError(`approve: ${issues.join("; ")}`);
  }
  const asked = { kind: "approval", question, ...(details === undefined ? {} : { details }), [POLICY]: settings };
  return decisionOf(interrupt(asked), details);
}

function decisionOf(answer: unknown, details: unknown): Decision {
  const given = approveAnswerOf(answer);
  return {
    approved: given !== undefined && given.type !== "reject",
    message: given?.message ?? null,
    details: given?.type === "edit" ? given.details : details,
  };
}
