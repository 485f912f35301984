// What people, and the tools they use, answer to `approve`: many words and shapes for yes, no, and yes with other details.
type Fields = Readonly<Record<string, unknown>>;

/** In one shape each, so that two who mean the same say the same. */
export type ApproveAnswer = Readonly<
  { message?: string } & ({ type: "approve" } | { type: "reject" } | { type: "edit"; details: unknown })
>;

const YES = new Set<unknown>([true, "yes", "approve", "accept"]);
const NO = new Set<unknown>([false, "no", "reject", "ignore"]);

/** Undefined: it is neither, and nobody should guess. */
export function approveAnswerOf(answer: unknown): ApproveAnswer | undefined {
  // Agent Inbox answers with a list.
  if (Array.isArray(answer)) return answer.length === 1 ? approveAnswerOf(answer[0]) : undefined;
  if (typeof answer !== "object" || answer === null) return typed(answer, undefined);
  const { type, approved, details, message } = answer as Fields;
  const given = typed(type ?? approved, details);
  return given && { ...given, ...(typeof message === "string" ? { message } : {}) };
}

function typed(given: unknown, details: unknown): ApproveAnswer | undefined {
  const word = typeof given === "string" ? given.toLowerCase() : given;
  if (NO.has(word)) return { type: "reject" };
  const isYes = YES.has(word);
  if (details !== undefined && (isYes || word === "edit")) return { type: "edit", details };
  return isYes ? { type: "approve" } : undefined;
}
