// Questions that wait for a person, over all threads; and the answer to one.
import { Hono } from "hono";
import { z } from "zod";
import { type ApprovalRow, getApproval, LISTED, listApprovals } from "../../approvals/approvals.js";
import { EngineError } from "../../core/errors.js";
import type { ApprovalId, TenantId, ThreadId } from "../../core/ids.js";
import { decideApproval } from "../../engine/commands/decide-approval.js";
import type { Engine } from "../../engine/engine.js";
import { graphShape } from "../../engine/refuse-unknown.js";
import { readThreadHeads } from "../../engine/thread-head.js";
import { getThread } from "../../runs/threads.js";
import { ask } from "../auth/ask.js";
import { callerOf } from "../caller.js";
import type { ApiEnv } from "../env.js";
import { markReplayed, onceOf } from "../idempotency.js";
import { json } from "../reply.js";
import { integer, one, pathId, readBody, readQuery } from "../request.js";
import { runShape } from "../../engine/run-shape.js";
import { absent, text, uuid } from "../schemas/parts.js";

export const approvalList = z.object({
  status: one.pipe(z.enum(LISTED).optional()),
  thread_id: one.pipe(uuid.optional()),
  limit: integer({ min: 1, max: 1_000, fallback: 100 }),
  offset: integer({ min: 0, max: 2_147_483_647, fallback: 0 }),
});

export const decisionBody = z.object({
  value: z.unknown().refine((value) => value !== undefined, "is required: what the graph's interrupt() returns"),
  decided_by: absent(text.min(1).max(200)),
});

export function approvalRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();

  routes.get("/v1/approvals", async (c) => {
    const { status = "pending", thread_id: threadId, limit, offset } = readQuery(c, approvalList);
    const tenantId = c.get("tenantId");
    const { within } = await ask(engine, c, "threads:search", {});
    const filter = { tenantId, status, within, limit, offset };
    const approvals = await listApprovals(
      engine.deps.db,
      threadId === undefined ? filter : { ...filter, threadId: threadId as ThreadId },
    );
    return json(c, await withQuestions(engine, tenantId, approvals));
  });

  routes.get("/v1/approvals/:approval_id", async (c) => {
    const tenantId = c.get("tenantId");
    const approvalId = pathId<ApprovalId>(c, "approval_id");
    const approval = await getApproval(engine.deps.db, { tenantId, approvalId });
    if (approval === undefined) throw new EngineError("not_found", `Approval ${approvalId} not found`);
    return json(c, (await withQuestions(engine, tenantId, [approval]))[0]);
  });

  /** Answers with the run that carries the decision. */
  routes.post("/v1/approvals/:approval_id/decide", async (c) => {
    const approvalId = pathId<ApprovalId>(c, "approval_id");
    const { value, decided_by: decidedBy = "api" } = await readBody(c, decisionBody);
    const caller = callerOf(engine, c);
    const { run, again } = await decideApproval(engine.deps, {
      tenantId: c.get("tenantId"),
      approvalId,
      value,
      shapeOf: (asking) => graphShape(engine, asking),
      caller,
      decidedBy,
      once: onceOf(engine, c),
    });
    if (again) markReplayed(c);
    c.header("Content-Location", `/threads/${run.threadId}/runs/${run.runId}`);
    return json(c, await runShape(engine, run));
  });

  return routes;
}

/** What is asked stands in the thread's state; a question that is closed has none any more. */
async function withQuestions(engine: Engine, tenantId: TenantId, approvals: readonly ApprovalRow[]) {
  const open = approvals.filter(({ status }) => status === "pending");
  const threadIds = [...new Set(open.map(({ threadId }) => threadId))];
  const threads = await Promise.all(threadIds.map((threadId) => getThread(engine.deps.db, { tenantId, threadId })));
  const heads = await readThreadHeads(
    engine,
    tenantId,
    threads.flatMap((thread) => (thread === undefined ? [] : [thread])),
  );
  return approvals.map((approval) => {
    const asked = Object.values(heads.get(approval.threadId)?.interrupts ?? {}).flat();
    const question = asked.find(({ id }) => id === approval.interruptId);
    return toWire(approval, approval.status === "pending" ? question?.value : undefined);
  });
}

function toWire(approval: ApprovalRow, value: unknown) {
  return {
    approval_id: approval.approvalId,
    thread_id: approval.threadId,
    run_id: approval.runId,
    checkpoint_id: approval.checkpointId,
    interrupt_id: approval.interruptId,
    node: approval.node,
    status: approval.status,
    value: value ?? null,
    form: approval.form,
    asked_at: approval.askedAt,
    deadline_at: approval.deadlineAt,
    overdue: approval.overdue,
    on_deadline: approval.deadlineAt === null ? null : approval.policy.onDeadline,
    deciders: approval.policy.deciders,
    at_least: approval.policy.atLeast,
    reminded_at: approval.remindedAt,
    escalated_at: approval.escalatedAt,
    escalate_to: approval.policy.escalateTo,
    decided_at: approval.decidedAt,
    decided_by: approval.decidedBy,
    decision: approval.decision,
    decided_run_id: approval.decidedRunId,
    withdrawn_reason: approval.withdrawnReason,
  };
}
