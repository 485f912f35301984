// Gives the runs of dead workers to others, or to a person when they killed too many.
import type { Deps } from "../../core/deps.js";
import { MAX_CRASHES, type RunError } from "../../core/run.js";
import { withdrawApprovals } from "../../approvals/approvals.js";
import { expiredRuns, requeueLostRun, type LostRun } from "../../runs/claim.js";
import { appendEvent } from "../../runs/events.js";
import { hasUnfinishedRuns, lockUnfinishedRuns, makeNextHead } from "../../runs/runs.js";
import { endAttempt } from "../../runs/settle.js";
import { lockThread, updateThreadStatus } from "../../runs/thread-lock.js";
import { setTimer } from "../../schedule/timers.js";

const BATCH = 100;

/**
 * One round: every run whose lease is over is pending again, or ended when it crashed `MAX_CRASHES` times without progress.
 * Each in a transaction of its own, so that one that can't be handled stops no other. Returns how many it handled.
 */
export async function sweepLostRuns(deps: Deps, options: Readonly<{ moveAfterMs: number }>): Promise<number> {
  const lost = await expiredRuns(deps.db, BATCH);
  let handled = 0;
  for (const run of lost) {
    const done = await deps.db.tx(async (sql) => {
      if ((await lockThread(sql, run)) === undefined) return false;
      await lockUnfinishedRuns(sql, run);
      if (run.kind === "run" && run.crashes < MAX_CRASHES) {
        if (!(await requeueLostRun(sql, run))) return false;
        await appendEvent(sql, run, {
          type: "run.lease_lost",
          attempt: run.attempt,
          payload: { crashes: run.crashes },
        });
        return true;
      }
      return giveUp(deps, sql, run, options.moveAfterMs);
    });
    if (!done) continue;
    handled += 1;
    deps.log.warn({ run_id: run.runId, attempt: run.attempt, crashes: run.crashes }, "a worker died under this run");
    deps.notifier.notify("stream", run.runId);
  }
  if (handled > 0) deps.notifier.notify("runs");
  return handled;
}

async function giveUp(
  deps: Deps,
  sql: Parameters<Parameters<Deps["db"]["tx"]>[0]>[0],
  run: LostRun,
  moveAfterMs: number,
): Promise<boolean> {
  const error: RunError = {
    code: "worker_lost",
    type: "WorkerLostError",
    message:
      run.kind === "edit"
        ? `The process that edited thread ${run.threadId} died; nothing is half-done: read the state and edit again.`
        : `Attempt ${run.attempt} of run ${run.runId} killed its worker, ${run.crashes} times in a row without progress. ` +
          "It will not be tried again by itself: look at what its next step does, then start a new run with input null.",
  };
  const ended = await endAttempt(
    sql,
    { ...run, owner: null },
    {
      status: "error",
      waitsFor: run.kind === "run" ? "person" : null,
      resultCheckpointId: null,
      errorCode: error.code,
      errorType: error.type,
      errorPreview: `The worker died ${run.crashes} times in a row without progress.`,
      error: Buffer.from(JSON.stringify(error), "utf8"),
    },
  );
  if (!ended) return false;
  await appendEvent(sql, run, { type: "run.gave_up", attempt: run.attempt, payload: { crashes: run.crashes } });
  await withdrawApprovals(sql, { tenantId: run.tenantId, threadId: run.threadId, reason: "the run ended" });
  await makeNextHead(sql, run);
  await setTimer(sql, {
    tenantId: run.tenantId,
    timerId: deps.ids.next(),
    kind: "move",
    refId: run.threadId,
    when: { afterMs: moveAfterMs },
  });
  const busy = await hasUnfinishedRuns(sql, run);
  await updateThreadStatus(sql, { ...run, status: busy ? "busy" : "error" });
  return true;
}
