// What a question to a person comes with: who may answer, until when, and what happens if nobody does. Ids and times only, no
// content.

/**
 * The shape of a question, which is the shape of its answer. `langchain`: humanInTheLoopMiddleware, in JS or Python casing;
 * `agent_inbox`: HumanInterrupt, one or a list; `approve`: our own helper; `other`: whatever the graph's author made up.
 */
export type QuestionForm = "langchain" | "agent_inbox" | "approve" | "other";

/** People by id and roles; who is either belongs. */
export type People = Readonly<{ people: readonly string[]; roles: readonly string[] }>;

export type ApprovalPolicy = Readonly<{
  /** Who may decide; null: anyone who may use the thread. */
  deciders: People | null;
  /** So many must give the same answer; one that says no is enough to reject. */
  atLeast: number;
  /** How long after it was asked; null: it waits for ever. */
  deadlineMs: number | null;
  /** What then: the answer that says no, the end of the question, or a node to go to. */
  onDeadline: "reject" | "end" | Readonly<{ goto: string }>;
  remindMs: number | null;
  escalateMs: number | null;
  /** Who may decide as well once it was escalated. */
  escalateTo: People | null;
  /** What may be decided of each action, as its question says; null: it doesn't say. */
  allowed: readonly (readonly string[] | null)[] | null;
  /** A new input while the question is open: it withdraws the question, is refused, or waits for the answer. */
  onMessage: "withdraw" | "refuse" | "queue";
}>;

/** Where `approve` puts its settings in what it asks. */
export const POLICY = "__perdure_policy";

export const NO_POLICY: ApprovalPolicy = {
  deciders: null,
  atLeast: 1,
  deadlineMs: null,
  onDeadline: "reject",
  remindMs: null,
  escalateMs: null,
  escalateTo: null,
  allowed: null,
  onMessage: "withdraw",
};

/** Who asks for something: known by what stands in front of the API, or not. */
export type Caller = Readonly<{ person: string | null; roles: readonly string[]; isEngine?: true }>;

/** The engine itself, which carries out what was decided beforehand. */
export const ENGINE: Caller = { person: null, roles: [], isEngine: true };

/** Whether the caller is among those who may decide. A caller nobody knows never is, unless anyone may. */
export function mayDecide(policy: ApprovalPolicy, caller: Caller, escalated: boolean): boolean {
  if (policy.deciders === null || caller.isEngine === true) return true;
  const groups = escalated && policy.escalateTo !== null ? [policy.deciders, policy.escalateTo] : [policy.deciders];
  return groups.some(
    ({ people, roles }) =>
      (caller.person !== null && people.includes(caller.person)) || caller.roles.some((role) => roles.includes(role)),
  );
}

/** A question as it is opened. */
export type Question = Readonly<{
  interruptId: string;
  node: string | null;
  form: QuestionForm;
  /** So many actions it is about: an answer has one decision for each. */
  actions: number;
  policy: ApprovalPolicy;
}>;
