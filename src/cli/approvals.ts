// `perdure approvals`: the questions that wait for a person, and their answers.
import { type ApprovalRow, getApproval, type Listed, listApprovals } from "../approvals/approvals.js";
import { EngineError } from "../core/errors.js";
import { type ApprovalId, DEFAULT_TENANT } from "../core/ids.js";
import { decideApproval, type ShapeOf } from "../engine/commands/decide-approval.js";
import type { Engine } from "../engine/engine.js";
import { answerTo, type YesOrNo } from "../engine/hitl.js";
import { renderJson } from "../engine/render.js";
import { graphShape } from "../engine/refuse-unknown.js";
import { readThreadHeads } from "../engine/thread-head.js";
import { getThread } from "../runs/threads.js";
import { type Output, table } from "./output.js";
import { json, wire } from "./wire.js";

type Print = Output & Readonly<{ json: boolean }>;

export async function approvalsLs(
  engine: Engine,
  filter: Readonly<{ status: Listed | null; limit: number }>,
  print: Print,
): Promise<void> {
  const approvals = await listApprovals(engine.deps.db, {
    tenantId: DEFAULT_TENANT,
    limit: filter.limit,
    offset: 0,
    ...(filter.status === null ? {} : { status: filter.status }),
  });
  const questions = await questionsOf(engine, approvals);
  const asked = approvals.map((approval) => ({ approval, question: questions.get(approval.approvalId) }));
  if (print.json) return print.line(json(asked.map(({ approval, question }) => ({ ...wire(approval), question }))));
  const rows = asked.map(({ approval, question }) => ({
    approval: approval.approvalId,
    status: approval.overdue ? "overdue" : approval.status,
    node: approval.node,
    asked: approval.askedAt,
    thread: approval.threadId,
    decision: approval.decision ?? approval.withdrawnReason,
    by: approval.decidedBy,
    question: question === undefined ? null : shortened(JSON.stringify(question)),
  }));
  print.line(
    table(rows, filter.status === "pending" ? "Nothing waits for an answer." : "There are no such approvals."),
  );
}

export type Answer = YesOrNo | Readonly<{ kind: "value"; value: unknown }>;

/** Answers in the shape the question asks for; a shape nobody knows gets true or false. */
export async function approvalsAnswer(
  engine: Engine,
  decision: Readonly<{ approvalId: ApprovalId; answer: Answer; decidedBy: string; roles: readonly string[] }>,
  print: Print,
): Promise<void> {
  const { approvalId, answer, decidedBy } = decision;
  const approval = await getApproval(engine.deps.db, { tenantId: DEFAULT_TENANT, approvalId });
  if (approval === undefined) {
    throw new EngineError("not_found", `There is no approval ${approvalId}; \`perdure approvals ls\` lists them`);
  }
  const value =
    answer.kind === "value" ? answer.value : answerTo((await questionsOf(engine, [approval])).get(approvalId), answer);
  const caller = { person: decidedBy, roles: decision.roles };
  const shapeOf: ShapeOf = (asking) => graphShape(engine, asking);
  const input = { tenantId: DEFAULT_TENANT, approvalId, value, caller, shapeOf, decidedBy, once: null };
  const { run } = await decideApproval(engine.deps, input);
  if (print.json) return print.line(json(wire(run)));
  print.line(`Answered. Run ${run.runId} goes on with it on thread ${run.threadId}.`);
}

/** What the checkpoints that asked say; nothing of those that are answered. */
async function questionsOf(
  engine: Engine,
  approvals: readonly ApprovalRow[],
): Promise<ReadonlyMap<ApprovalId, unknown>> {
  const pending = approvals.filter(({ status }) => status === "pending");
  const ids = [...new Set(pending.map(({ threadId }) => threadId))];
  const threads = await Promise.all(
    ids.map((threadId) => getThread(engine.deps.db, { tenantId: DEFAULT_TENANT, threadId })),
  );
  const found = threads.filter((thread) => thread !== undefined);
  const heads = await readThreadHeads(engine, DEFAULT_TENANT, found);
  const questions = [...heads.values()].flatMap(({ interrupts }) => Object.values(interrupts).flat());
  return new Map(
    pending.flatMap(({ approvalId, interruptId }) => {
      const question = questions.find(({ id }) => id === interruptId);
      return question === undefined ? [] : [[approvalId, renderJson(question.value)] as const];
    }),
  );
}

function shortened(text: string): string {
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}
