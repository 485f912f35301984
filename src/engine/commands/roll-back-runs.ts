// Takes runs back: they and what they stored are gone, and the thread is as it was before them. What they did outside of it has
// happened, and the ledger of effects says so.
import { pendingApprovals } from "../../approvals/approvals.js";
import { forgetRunBudgets } from "../../budgets/budgets.js";
import { takeBackStates } from "../../checkpoint/rollback-queries.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { RunId, TimerId } from "../../core/ids.js";
import { askForNewManifests } from "../../runs/manifests.js";
import { makeNextHead } from "../../runs/order.js";
import { deleteRuns, getRun, hasUnfinishedRuns, lockUnfinishedRuns } from "../../runs/runs.js";
import { lockThread, type ThreadKey, updateThreadStatus } from "../../runs/thread-lock.js";
import { cancelTimers, setTimer } from "../../schedule/timers.js";
import { setCleanupTimers } from "./cleanup-timers.js";
import { endRuns } from "./end-runs.js";
import { withdrawQuestions } from "./questions.js";

/**
 * In the caller's transaction, which has locked the thread and its unfinished runs. States that others grew from stay. Questions
 * that the runs answered or withdrew stay closed; a run without input asks them anew.
 */
export async function rollBackRuns(
  deps: Deps,
  sql: Sql,
  back: ThreadKey & Readonly<{ runIds: readonly RunId[]; reason: string }>,
): Promise<void> {
  const { tenantId, threadId, runIds, reason } = back;
  if (runIds.length === 0) return;
  await endRuns(sql, back);
  for (const runId of runIds) await withdrawQuestions(sql, { tenantId, threadId, runId, reason });
  await cancelTimers(sql, { tenantId, kinds: ["run.release", "run.wake"], refIds: runIds });
  await takeBackStates(sql, back);
  await deleteRuns(sql, back);
  await forgetRunBudgets(sql, back);
  await askForNewManifests(sql, back);
  const timer = { tenantId, timerId: deps.ids.next<TimerId>(), kind: "prune", refId: threadId } as const;
  await setTimer(sql, { ...timer, when: { afterMs: 0 } });
}

/** Takes one run back, finished or not. Throws `not_found`. Whoever joins it is told that it is gone. */
export async function rollBackRun(
  deps: Deps,
  back: ThreadKey & Readonly<{ runId: RunId; moveAfterMs: number }>,
): Promise<void> {
  const { runId } = back;
  await deps.db.tx(async (sql) => {
    const thread = await lockThread(sql, back);
    const unfinished = thread && (await lockUnfinishedRuns(sql, back));
    if (thread === undefined || (await getRun(sql, back)) === undefined) {
      throw new EngineError("not_found", "Run not found", { details: { run_id: runId } });
    }
    const key = { tenantId: back.tenantId, threadId: back.threadId };
    await rollBackRuns(deps, sql, { ...key, runIds: [runId], reason: "the run was rolled back" });
    await makeNextHead(sql, key);
    await setCleanupTimers(deps, sql, thread, back.moveAfterMs);
    const others = (unfinished ?? []).some((run) => run.runId !== runId);
    await updateThreadStatus(sql, { ...key, status: await statusAfter(sql, key, others), stateChanged: true });
  });
  goneRuns(deps, [runId]);
  deps.notifier.notify("runs");
  deps.notifier.notify("move");
}

async function statusAfter(sql: Sql, key: ThreadKey, others: boolean): Promise<"busy" | "interrupted" | "idle"> {
  if (others && (await hasUnfinishedRuns(sql, key))) return "busy";
  return (await pendingApprovals(sql, key)).length > 0 ? "interrupted" : "idle";
}

/** Tells whoever works on runs that are gone, or looks at them. */
export function goneRuns(deps: Deps, runIds: readonly RunId[]): void {
  for (const runId of runIds) {
    deps.notifier.notify("cancel", runId);
    deps.notifier.notify("stream", runId);
    deps.notifier.notify("ended", runId);
  }
}
