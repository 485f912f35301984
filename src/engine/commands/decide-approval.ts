// Decides one open question: makes the run that carries the answer, with the settings of the run that asked.
import type { Caller } from "../../core/approval.js";
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { ApprovalId, TenantId } from "../../core/ids.js";
import { getApproval, type ApprovalRow } from "../../approvals/approvals.js";
import { createRunOnce, type MadeRun, type Once, runMadeBefore } from "./make-once.js";
import type { CreateRunInput } from "./create-run.js";
import { howClosed } from "./questions.js";
import { type RunSettings, settingsOfRun } from "./settings-of-run.js";

export type ShapeOf = (asking: RunSettings) => Promise<CreateRunInput["graph"]>;

/**
 * Answers the approval and returns the run that goes on with it. First wins.
 * Throws `not_found`, `graph_changed`, `forbidden`, `more_votes_needed`, and `not_pending` naming who decided what when it isn't open any more.
 */
export async function decideApproval(
  deps: Deps,
  decision: Readonly<{
    tenantId: TenantId;
    approvalId: ApprovalId;
    value: unknown;
    caller: Caller;
    /** The graph that asked, as it is now. */
    shapeOf: ShapeOf;
    /** Who decides, where the caller isn't known. */
    decidedBy: string;
    once: Once | null;
  }>,
): Promise<MadeRun> {
  const { once } = decision;
  const before = once === null ? undefined : await runMadeBefore(deps, once);
  if (before !== undefined) return { run: before, again: true };
  const approval = await getApproval(deps.db, decision);
  if (approval === undefined) throw new EngineError("not_found", `Approval ${decision.approvalId} not found`);
  if (approval.status !== "pending") throw alreadyClosed(approval);
  const { tenantId, threadId, runId } = approval;
  const asking = await settingsOfRun(deps, { tenantId, runId });
  if (asking === undefined) {
    throw new EngineError("not_found", `The run or assistant that asked approval ${approval.approvalId} is gone`);
  }
  const input = {
    tenantId,
    threadId,
    assistant: asking.assistant,
    request: { ...asking.request, command: { resume: { [approval.interruptId]: decision.value } } },
    metadata: {},
    multitaskStrategy: "enqueue",
    ifNotExists: "reject",
    onCompletion: "keep",
    afterSeconds: null,
    priority: asking.priority,
    conversationId: null,
    webhook: asking.run.webhook,
    keepsLast: asking.run.keepsLast,
    mergeWindowMs: 0,
    caller: decision.caller,
    graph: await decision.shapeOf(asking),
    createdBy: decision.decidedBy,
  } as const;
  return createRunOnce(deps, input, once);
}

function alreadyClosed(approval: ApprovalRow): EngineError {
  return new EngineError("not_pending", `Approval ${approval.approvalId} ${howClosed(approval)}`, {
    details: {
      approval_id: approval.approvalId,
      status: approval.status,
      decision: approval.decision,
      decided_by: approval.decidedBy,
      decided_at: approval.decidedAt?.toISOString(),
      run_id: approval.decidedRunId,
    },
  });
}
