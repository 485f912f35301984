// Gives the runs of dead workers to others, or to a person when they killed too many.
import type { Deps, Sql } from "../../core/deps.js";
import { isTransientDbError } from "../../core/retry.js";
import { MAX_CRASHES, type RunError } from "../../core/run.js";
import { expiredRuns, type LostRun, lostRun, requeueLostRun } from "../../runs/claim.js";
import { appendEvent } from "../../runs/events.js";
import { noteCrashes } from "../../runs/failures.js";
import { makeNextHead } from "../../runs/order.js";
import { hasUnfinishedRuns, lockUnfinishedRuns } from "../../runs/runs.js";
import { endAttempt } from "../../runs/settle.js";
import { appendFinalChunk } from "../../runs/stream-chunks.js";
import { type LockedThread, lockThreadIfFree, updateThreadStatus } from "../../runs/thread-lock.js";
import { setCleanupTimers } from "./cleanup-timers.js";
import { undoEdit } from "./undo-edit.js";
import { withdrawQuestions } from "./questions.js";

const BATCH = 100;

type SweepOptions = Readonly<{ moveAfterMs: number }>;
type Expired = Awaited<ReturnType<typeof expiredRuns>>[number];

/**
 * One round: every run whose lease is over is pending again, or ended when it crashed `MAX_CRASHES` times without progress.
 * Each in a transaction of its own, so that one that can't be handled stops no other. Returns how many it handled.
 */
export async function sweepLostRuns(deps: Deps, options: SweepOptions): Promise<number> {
  let handled = 0;
  for (const expired of await expiredRuns(deps.db, BATCH)) {
    try {
      const lost = await deps.db.tx((sql) => sweepOne(deps, sql, expired, options));
      if (lost === undefined) continue;
      handled += 1;
      const { runId: run_id, attempt, crashes } = lost;
      deps.log.warn({ run_id, attempt, crashes }, "a worker died under this run");
      deps.notifier.notify("stream", lost.runId);
      deps.notifier.notify("ended", lost.runId);
    } catch (error) {
      if (isTransientDbError(error)) throw error;
      const code = String((error as { code?: unknown }).code ?? "internal");
      deps.log.error({ run_id: expired.runId, code }, "a lost run could not be swept, trying again");
    }
  }
  if (handled > 0) deps.notifier.notify("runs");
  return handled;
}

/** Undefined when there was nothing to do: somebody else did it, holds the thread, or the worker lives. */
async function sweepOne(
  deps: Deps,
  sql: Sql,
  expired: Expired,
  { moveAfterMs }: SweepOptions,
): Promise<LostRun | undefined> {
  const thread = await lockThreadIfFree(sql, expired);
  if (thread === undefined || thread === "held") return undefined;
  await lockUnfinishedRuns(sql, expired);
  const lost = await lostRun(sql, expired);
  if (lost === undefined) return undefined;
  if (lost.kind === "edit") return (await endEdit(sql, lost)) ? lost : undefined;
  if (lost.crashes >= MAX_CRASHES) return (await giveUp(deps, sql, thread, lost, moveAfterMs)) ? lost : undefined;
  if (!(await requeueLostRun(sql, lost))) return undefined;
  await appendEvent(sql, lost, {
    type: "run.lease_lost",
    attempt: lost.attempt,
    payload: { crashes: lost.crashes },
  });
  return lost;
}

async function giveUp(deps: Deps, sql: Sql, thread: LockedThread, run: LostRun, moveAfterMs: number): Promise<boolean> {
  const error: RunError = {
    code: "worker_lost",
    type: "WorkerLostError",
    message:
      `Attempt ${run.attempt} of run ${run.runId} killed its worker, ${run.crashes} times in a row without progress. ` +
      `It will not be tried again by itself: look at what its next step does, then \`perdure runs retry ${run.runId}\`.`,
  };
  const preview = `The worker died ${run.crashes} times in a row without progress.`;
  await noteCrashes(sql, run);
  if (!(await endLost(sql, run, { error, preview, waitsFor: "person" }))) return false;
  await appendFinalChunk(sql, run, {
    event: "error",
    json: JSON.stringify({ error: error.type, message: error.message }),
  });
  await withdrawQuestions(sql, { tenantId: run.tenantId, threadId: run.threadId, reason: "the run ended" });
  await makeNextHead(sql, run);
  // Also that of a stateless run stays, until the person has decided.
  await setCleanupTimers(deps, sql, { ...thread, ephemeral: false }, moveAfterMs);
  const busy = await hasUnfinishedRuns(sql, run);
  await updateThreadStatus(sql, { ...thread, metadata: {}, status: busy ? "busy" : "error" });
  return true;
}

async function endEdit(sql: Sql, run: LostRun): Promise<boolean> {
  const error: RunError = {
    code: "worker_lost",
    type: "WorkerLostError",
    message: `The process that edited thread ${run.threadId} died; nothing is half-done: read the state and edit again.`,
  };
  const preview = "The process that edited the thread died.";
  if (!(await endLost(sql, run, { error, preview, waitsFor: null }))) return false;
  await undoEdit(sql, run, { begun: run.begun, threadStatus: run.threadStatus ?? "idle" });
  return true;
}

async function endLost(
  sql: Sql,
  run: LostRun,
  end: Readonly<{ error: RunError; preview: string; waitsFor: "person" | null }>,
): Promise<boolean> {
  const ended = await endAttempt(
    sql,
    { ...run, owner: null },
    {
      status: "error",
      waitsFor: end.waitsFor,
      resultCheckpointId: null,
      errorCode: end.error.code,
      errorType: end.error.type,
      errorPreview: end.preview,
      error: Buffer.from(JSON.stringify(end.error), "utf8"),
    },
  );
  if (ended)
    await appendEvent(sql, run, { type: "run.gave_up", attempt: run.attempt, payload: { crashes: run.crashes } });
  return ended;
}
