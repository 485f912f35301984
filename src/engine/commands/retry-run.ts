// What a person decides about a run that failed: go on with it, in a new run on the same thread, or leave it. A run that has
// ended stays ended, for whoever has seen its result; so it is a new one that goes on.
import { newestCheckpointOfRun } from "../../checkpoint/queries.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { RunId, TenantId } from "../../core/ids.js";
import { appendEvent } from "../../runs/events.js";
import { newerRun, resolveRun } from "../../runs/failures.js";
import { getRun, lockUnfinishedRuns, type RunRow } from "../../runs/runs.js";
import { type LockedThread, lockThread } from "../../runs/thread-lock.js";
import { setCleanupTimers } from "./cleanup-timers.js";
import { followupOf, insertAccepted } from "./create-run.js";
import { type MadeRun, type Once, runMadeBefore, takeOnce } from "./make-once.js";
import type { RunRequest } from "./request.js";
import { loadRunSettings } from "./settings-of-run.js";

export type Resolve = Readonly<{ tenantId: TenantId; runId: RunId; by: string }>;

/**
 * Goes on from the last checkpoint of a run that ended in error, or from its input if it has none, in the run it returns.
 * Throws `not_found`, and `conflict` when it didn't fail, the thread has gone on, or somebody was first.
 */
export async function retryRun(deps: Deps, retry: Resolve & Readonly<{ once: Once | null }>): Promise<MadeRun> {
  const { once } = retry;
  const before = once === null ? undefined : await runMadeBefore(deps, once);
  if (before !== undefined) return { run: before, again: true };
  const failed = await loadRunSettings(deps, retry);
  if (failed === undefined) throw notFound(retry.runId);
  const runId = deps.ids.next<RunId>();
  const run = await deps.db.tx(async (sql) => {
    const { run, thread } = await lockFailed(sql, retry);
    await takeOnce(sql, once, runId);
    if (run.resolved === "closed") throw resolvedBefore(run);
    const ahead = await lockUnfinishedRuns(sql, thread);
    const newer = (await newerRun(sql, run)) ?? ahead.find((other) => other.head)?.runId;
    if (newer !== undefined) throw goneOn(run, newer);
    await resolveRun(sql, { ...run, how: "retried", by: retry.by, byRunId: runId });
    await appendEvent(sql, run, { type: "run.retried", attempt: run.attempt, payload: { by_run_id: runId } });
    const begun = (await newestCheckpointOfRun(sql, run)) !== undefined;
    const input = {
      multitaskStrategy: "enqueue",
      afterSeconds: null,
      metadata: run.metadata,
      conversationId: run.conversationId,
      webhook: run.webhook,
      keepsLast: run.keepsLast,
      followup: followupOf(run),
    } as const;
    return insertAccepted(deps, sql, {
      input: { ...input, tenantId: retry.tenantId, assistant: failed.assistant, priority: failed.priority },
      thread,
      runId,
      request: begun ? goingOn(failed.request) : failed.request,
      threadFree: true,
    });
  });
  deps.notifier.notify("runs");
  return { run, again: false };
}

/**
 * Leaves a run that waits for a person as it is. Closing it again changes nothing. Returns the run.
 * Throws `not_found`, and `conflict` when it doesn't wait for a person, or was retried.
 */
export async function closeRun(deps: Deps, close: Resolve & Readonly<{ moveAfterMs: number }>): Promise<RunRow> {
  return deps.db.tx(async (sql) => {
    const { run, thread } = await lockFailed(sql, close);
    if (run.resolved === "closed") return run;
    if (run.waitsFor !== "person") {
      throw new EngineError("conflict", `Run ${run.runId} waits for nobody: there is nothing to close`);
    }
    await resolveRun(sql, { ...run, how: "closed", by: close.by, byRunId: null });
    await appendEvent(sql, run, { type: "run.closed", attempt: run.attempt });
    await setCleanupTimers(deps, sql, thread, close.moveAfterMs);
    return (await getRun(sql, close)) ?? run;
  });
}

async function lockFailed(sql: Sql, of: Resolve): Promise<{ run: RunRow; thread: LockedThread }> {
  const found = await getRun(sql, of);
  const thread = found && (await lockThread(sql, found));
  const run = thread && (await getRun(sql, of));
  if (thread === undefined || run === undefined) throw notFound(of.runId);
  if (run.resolved === "retried") throw resolvedBefore(run);
  if (run.status === "error" || run.status === "timeout") return { run, thread };
  throw new EngineError(
    "conflict",
    `Run ${run.runId} is ${run.status}: only one that ended in error can be retried or closed`,
    {
      details: { run_id: run.runId, status: run.status },
    },
  );
}

/** What is still asked for, when the state holds all that the run was given. */
function goingOn(request: RunRequest): RunRequest {
  return { ...request, input: null, command: null, checkpoint: null };
}

function notFound(runId: RunId): EngineError {
  return new EngineError("not_found", `Run ${runId}, its thread or its assistant is not there (any more)`);
}

function goneOn(run: RunRow, newer: RunId): EngineError {
  const text = `Thread ${run.threadId} has gone on with run ${newer}: fork it from a checkpoint of run ${run.runId} instead`;
  return new EngineError("conflict", text, { details: { run_id: newer, thread_id: run.threadId } });
}

function resolvedBefore(run: RunRow): EngineError {
  const at = run.resolvedAt?.toISOString() ?? "";
  const how = run.resolvedRunId === null ? "" : `, by run ${run.resolvedRunId}`;
  const text = `Run ${run.runId} was ${run.resolved} by ${run.resolvedBy} at ${at}${how}`;
  const details = { resolved: run.resolved, by: run.resolvedBy, at, run_id: run.resolvedRunId };
  return new EngineError("conflict", text, { details });
}
