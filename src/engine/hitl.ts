// The shapes in which agents ask people, and people's tools answer. LangChain's middleware asks in camelCase (JS) or snake_case
// (Python); Agent Chat UI reads the one, Agent Inbox answers with a list of its own. Nobody has to change: questions are shown
// in both casings, and answers are put into the shape that was asked for. What is stored stays as the graph made it.
import { EngineError } from "../core/errors.js";
import { approveAnswerOf } from "./approve-answers.js";
import { type ApprovalPolicy, POLICY, type QuestionForm } from "../core/approval.js";

type Fields = Readonly<Record<string, unknown>>;

/** How a question was asked, and for how many actions. */
export function formOf(question: unknown): Readonly<{ form: QuestionForm; actions: number }> {
  const fields = fieldsOf(question);
  const actions = fields?.actionRequests ?? fields?.action_requests;
  if (Array.isArray(actions)) return { form: "langchain", actions: actions.length };
  const requests = Array.isArray(question) ? (question as unknown[]) : [question];
  const isInbox = requests.length > 0 && requests.every((request) => fieldsOf(fieldsOf(request)?.action_request));
  if (isInbox) return { form: "agent_inbox", actions: requests.length };
  // By its policy: others may call theirs so, too, and take any answer.
  return { form: fields?.kind === "approval" && POLICY in fields ? "approve" : "other", actions: 1 };
}

/**
 * What LangChain's middleware lets be decided of each action; null where it doesn't say. Only words that it knows: others would be
 * content.
 */
export function allowedDecisions(question: unknown): ApprovalPolicy["allowed"] {
  const fields = fieldsOf(question);
  const actions = fields?.actionRequests ?? fields?.action_requests;
  const configs: unknown = fields?.reviewConfigs ?? fields?.review_configs;
  if (!Array.isArray(actions) || !Array.isArray(configs)) return null;
  const allowed = actions.map((action) => {
    const name = fieldsOf(action)?.name;
    const config = configs.map(fieldsOf).find((given) => (given?.actionName ?? given?.action_name) === name);
    const words = config?.allowedDecisions ?? config?.allowed_decisions;
    const known = Array.isArray(words) ? words.filter((word) => word === "edit" || DECISIONS.has(word as string)) : [];
    return known.length === 0 ? null : (known as string[]);
  });
  return allowed.every((words) => words === null) ? null : allowed;
}

/** The question with its actions under the names of every client; any other value as it is, without what is meant for us. */
export function shownToClients(question: unknown): unknown {
  const fields = fieldsOf(question);
  if (fields === undefined) return question;
  if (POLICY in fields) {
    const { [POLICY]: _policy, ...shown } = fields;
    return shown;
  }
  const actions = fields.actionRequests ?? fields.action_requests;
  if (!Array.isArray(actions)) return question;
  const configs = fields.reviewConfigs ?? fields.review_configs;
  const actionRequests = actions.map(inBothCasings);
  const reviewConfigs = Array.isArray(configs) ? configs.map(inBothCasings) : undefined;
  return {
    ...fields,
    actionRequests,
    action_requests: actionRequests,
    ...(reviewConfigs === undefined ? {} : { reviewConfigs, review_configs: reviewConfigs }),
  };
}

/** Questions that are for people, each once: calls that are one intent ask as one, each in its own task. */
export function askedOnce<T>(questions: readonly T[]): T[] {
  const ids = questions.map((question) => fieldsOf(question)?.id);
  return questions.filter((_, at) => ids[at] === undefined || ids.indexOf(ids[at]) === at);
}

/** Fields that clients know by several names; the first that is there counts for all. */
const SAME: readonly (readonly string[])[] = [
  ["args", "arguments"],
  ["actionName", "action_name"],
  ["allowedDecisions", "allowed_decisions"],
  ["argsSchema", "args_schema"],
  ["editedAction", "edited_action"],
];

function inBothCasings(item: unknown): unknown {
  const fields = fieldsOf(item);
  if (fields === undefined) return item;
  const more = SAME.flatMap((names) => {
    const given = names.find((name) => fields[name] !== undefined);
    return given === undefined ? [] : names.map((name): [string, unknown] => [name, fields[name] ?? fields[given]]);
  });
  return { ...fields, ...Object.fromEntries(more) };
}

type Asked = Readonly<{ form: QuestionForm; actions: number; policy?: Pick<ApprovalPolicy, "allowed"> }>;

/**
 * An answer in the shape its question takes; what is in no known shape goes to the graph as it came. Throws `bad_request` for one that
 * its question can't take: it would fail the run, or be taken for a no that nobody said.
 */
export function answerAs({ form, actions, policy }: Asked, answer: unknown): unknown {
  if (form === "approve") {
    const given = approveAnswerOf(answer);
    if (given === undefined)
      throw cantBeMeant('{"type": "approve"}, {"type": "reject"} or {"type": "edit", "details": …}');
    return given;
  }
  if (form !== "langchain") return answer;
  const responses = Array.isArray(answer) ? (answer as unknown[]) : [answer];
  const decisions = fieldsOf(answer)?.decisions ?? (responses.every(isInboxResponse) && responses.map(asDecision));
  if (!Array.isArray(decisions)) return answer;
  if (decisions.length !== actions || !decisions.every(isDecision)) {
    throw cantBeMeant(
      `${actions} decision(s), each with the type approve, edit (with editedAction: {name, args}) or reject`,
    );
  }
  refuseDisallowed(decisions as readonly Decided[], policy?.allowed ?? [], fieldsOf(answer)?.decisions !== undefined);
  return { ...(Array.isArray(answer) ? {} : withoutInbox(answer)), decisions: decisions.map(inBothCasings) };
}

type Decided = Readonly<{ type: string }>;

/** The middleware would fail the run. */
function refuseDisallowed(
  decisions: readonly Decided[],
  allowed: NonNullable<ApprovalPolicy["allowed"]>,
  named: boolean,
): void {
  decisions.forEach(({ type }, at) => {
    const words = allowed[at] ?? null;
    if (words === null || words.includes(type)) return;
    const path = `${named ? "decisions" : ""}[${at}].type`;
    throw new EngineError(
      "bad_request",
      `${path}: this action takes ${words.join(", ")}, but not ${type}; the question stays open`,
      { details: { path, allowed: words } },
    );
  });
}

/** Whether it can be answered with a no. */
export function canBeRejected({ policy }: Asked): boolean {
  return (policy?.allowed ?? []).every((words) => words === null || words.includes("reject"));
}

function cantBeMeant(wanted: string): EngineError {
  return new EngineError("bad_request", `This question takes ${wanted}; it stays open`);
}

function isDecision(value: unknown): boolean {
  const { type, editedAction, edited_action: edited = editedAction } = fieldsOf(value) ?? {};
  if (type === "edit")
    return typeof fieldsOf(edited)?.name === "string" && fieldsOf(fieldsOf(edited)?.args) !== undefined;
  return typeof type === "string" && DECISIONS.has(type);
}

/** Of LangChain in all its versions, besides edit. */
const DECISIONS = new Set(["approve", "reject", "respond"]);

const INBOX_TYPES = new Set(["accept", "ignore", "response", "edit"]);

function isInboxResponse(value: unknown): boolean {
  const fields = fieldsOf(value);
  return typeof fields?.type === "string" && INBOX_TYPES.has(fields.type) && "args" in fields;
}

function asDecision(response: unknown): Fields {
  const { type, args } = response as Readonly<{ type: string; args: unknown }>;
  if (type === "accept") return { type: "approve" };
  const edited = fieldsOf(args);
  if (type === "edit" && edited !== undefined)
    return { type, editedAction: { name: edited.action, args: edited.args } };
  return { type: "reject", ...(typeof args === "string" && args !== "" ? { message: args } : {}) };
}

function withoutInbox(answer: unknown): Fields {
  return isInboxResponse(answer) ? {} : (answer as Fields);
}

/** The answer that says no, whatever was asked: what is given when nobody answered in time. */
export function rejection(question: Asked, message: string): unknown {
  const each = <T>(one: T): T[] => Array.from({ length: question.actions }, () => one);
  switch (question.form) {
    case "langchain":
      return { decisions: each({ type: "reject", message }) };
    case "agent_inbox":
      return each({ type: "ignore", args: null });
    case "approve":
    case "other":
      return { type: "reject", message };
  }
}

/** The answer that says yes to all that was asked, as it was asked. */
export function acceptance(question: Readonly<{ form: QuestionForm; actions: number }>): unknown {
  const each = <T>(one: T): T[] => Array.from({ length: question.actions }, () => one);
  switch (question.form) {
    case "langchain":
      return { decisions: each({ type: "approve" }) };
    case "agent_inbox":
      return each({ type: "accept", args: null });
    case "approve":
      return { type: "approve" };
    case "other":
      return true;
  }
}

function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

export type YesOrNo = Readonly<{ kind: "approve" } | { kind: "reject"; message: string | null }>;

/** LangChain's middleware wants a decision per action, Agent Inbox's shape one response per request. */
export function answerTo(question: unknown, answer: YesOrNo): unknown {
  const fields = (question ?? {}) as Readonly<Record<string, unknown>>;
  const message = answer.kind === "reject" ? answer.message : null;
  const actions = fields.actionRequests ?? fields.action_requests;
  if (Array.isArray(actions)) {
    return { decisions: actions.map(() => ({ type: answer.kind, ...(message === null ? {} : { message }) })) };
  }
  if (message !== null && fields.kind === "approval") return { type: answer.kind, message };
  if (message !== null) {
    throw new EngineError("bad_request", "This question takes no message; give the whole answer with --value <json>");
  }
  const requests = Array.isArray(question) ? (question as unknown[]) : [question];
  if (requests.every((request) => (request as { action_request?: unknown } | null)?.action_request !== undefined)) {
    return requests.map(() => ({ type: answer.kind === "approve" ? "accept" : "ignore", args: null }));
  }
  return answer.kind === "approve";
}
