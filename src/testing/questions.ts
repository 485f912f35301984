// Questions and answers as people's tools see and give them: over the API.
import { EngineError } from "../core/errors.js";
import { answerTo } from "../engine/hitl.js";

type Ask = typeof globalThis.fetch;

export type OpenQuestion = Readonly<{
  approval_id: string;
  interrupt_id: string;
  node: string | null;
  /** What is asked, as clients see it. */
  value: unknown;
  deadline_at: string | null;
}>;

/** Yes or no in the shape the question takes, or the whole answer. */
export type Answer = "approve" | "reject" | Readonly<{ value: unknown }>;

const BASE = "http://perdure.test";

export async function openQuestionsOf(ask: Ask, threadId: string): Promise<readonly OpenQuestion[]> {
  const response = await ask(`${BASE}/v1/approvals?thread_id=${encodeURIComponent(threadId)}`);
  if (!response.ok) throw new Error(`the questions of thread ${threadId} can't be read: ${await response.text()}`);
  return (await response.json()) as OpenQuestion[];
}

/** Throws an Error with what the API says when it refuses the answer. */
export async function answerWith(
  ask: Ask,
  threadId: string,
  answer: Answer,
  by: Readonly<{ person?: string; roles?: readonly string[] }>,
): Promise<void> {
  const [question, ...others] = await openQuestionsOf(ask, threadId);
  if (question === undefined) throw new EngineError("not_pending", `Thread ${threadId} asks nothing`);
  if (others.length > 0) {
    throw new EngineError(
      "not_pending",
      `Thread ${threadId} asks ${others.length + 1} things; answer them over the API, by id`,
    );
  }
  const value = typeof answer === "string" ? answerTo(question.value, { kind: answer, message: null }) : answer.value;
  const response = await ask(`${BASE}/v1/approvals/${question.approval_id}/decide`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(by.person === undefined ? {} : { "x-perdure-person": by.person }),
      ...(by.roles === undefined ? {} : { "x-perdure-roles": by.roles.join(",") }),
    },
    body: JSON.stringify({ value }),
  });
  if (!response.ok) throw new Error(`the answer is refused (${response.status}): ${await response.text()}`);
}
