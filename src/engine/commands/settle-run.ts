// Ends an attempt: run, thread, questions, timers, last stream events and log are true together or not at all.
import type { Lease } from "../../core/clock.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { TimerId } from "../../core/ids.js";
import type { Outcome, PendingInterrupt, RunError, ThreadStatus } from "../../core/run.js";
import { askApprovals, withdrawApprovals } from "../../approvals/approvals.js";
import { appendEvent } from "../../runs/events.js";
import { lockUnfinishedRuns, makeNextHead } from "../../runs/runs.js";
import { endAttempt, handBack, type Ending } from "../../runs/settle.js";
import { insertStreamChunks, type StreamLine } from "../../runs/stream-chunks.js";
import { lockThread, updateThreadStatus, type LockedThread } from "../../runs/thread-lock.js";
import { setTimer } from "../../schedule/timers.js";
import { setCleanupTimers } from "./cleanup-timers.js";

export type SettleOptions = Readonly<{
  /** Stream events that must not be seen before the settled state: questions and errors. */
  finalChunks: readonly StreamLine[];
  moveAfterMs: number;
  /** At most 200 characters of an error for lists, or null when previews are off. */
  preview: (error: RunError) => string | null;
}>;

/** Writes the outcome. Throws `lease_lost` when another attempt owns the run; nothing is written then. */
export async function settleRun(deps: Deps, lease: Lease, outcome: Outcome, options: SettleOptions): Promise<void> {
  const freed = await deps.db.tx(async (sql) => {
    const thread = await lockThread(sql, lease);
    if (thread === undefined) throw leaseLost(lease);
    const unfinished = await lockUnfinishedRuns(sql, lease);
    if (options.finalChunks.length > 0) await insertStreamChunks(sql, lease, options.finalChunks);
    const written = await writeOutcome(sql, lease, outcome, options);
    if (written === undefined) throw leaseLost(lease);
    await appendEvent(sql, lease, settledEvent(lease, outcome));
    await setTimers(deps, sql, lease, outcome, { thread, moveAfterMs: options.moveAfterMs, wakeAt: written });
    if (outcome.kind === "released") return written === null;
    if (outcome.kind === "sleeping") {
      await withdrawOvertaken(sql, lease, []);
      await updateThreadStatus(sql, { ...lease, status: "busy", stateChanged: true });
      return false;
    }
    const others = unfinished.filter((run) => run.runId !== lease.runId);
    await settleApprovals(deps, sql, lease, outcome, { thread, others });
    const next = await makeNextHead(sql, lease);
    const status: ThreadStatus = others.length > 0 ? "busy" : threadStatusAfter(outcome);
    await updateThreadStatus(sql, { ...lease, status, stateChanged: true });
    return next;
  });
  if (freed) deps.notifier.notify("runs");
  deps.notifier.notify("stream", lease.runId);
  if (outcome.kind !== "success" && outcome.kind !== "error") deps.notifier.notify("timers");
}

/** Writes the run's row; returns when it goes on (null: not by a timer), or undefined when the lease is lost. */
async function writeOutcome(
  sql: Sql,
  lease: Lease,
  outcome: Outcome,
  options: SettleOptions,
): Promise<Date | null | undefined> {
  const ending = {
    waitsFor: null,
    resultCheckpointId: outcome.kind === "released" ? null : outcome.checkpointId,
    errorCode: null,
    errorType: null,
    errorPreview: null,
    error: null,
  };
  switch (outcome.kind) {
    case "released":
      return handBack(sql, lease, outcome.afterMs > 0 ? { afterMs: outcome.afterMs } : null);
    case "sleeping":
      return handBack(sql, lease, { at: outcome.until });
    case "success":
      return ended(sql, lease, { ...ending, status: "success" });
    case "interrupted":
      return ended(sql, lease, {
        ...ending,
        status: "interrupted",
        waitsFor: outcome.interrupts.length > 0 ? "approval" : null,
      });
    case "error":
      return ended(sql, lease, {
        ...ending,
        status: "error",
        errorCode: outcome.error.code,
        errorType: outcome.error.type,
        errorPreview: options.preview(outcome.error),
        error: Buffer.from(JSON.stringify(outcome.error), "utf8"),
      });
  }
}

async function ended(sql: Sql, lease: Lease, ending: Ending): Promise<null | undefined> {
  return (await endAttempt(sql, lease, ending)) ? null : undefined;
}

async function settleApprovals(
  deps: Deps,
  sql: Sql,
  lease: Lease,
  outcome: Exclude<Outcome, { kind: "released" | "sleeping" }>,
  facts: Readonly<{ thread: LockedThread; others: readonly Readonly<{ runId: Lease["runId"] }>[] }>,
): Promise<void> {
  const interrupts = outcome.kind === "interrupted" ? outcome.interrupts : [];
  await withdrawOvertaken(sql, lease, interrupts);
  // On the thread of a stateless run, which nobody sees, no answer could come.
  if (outcome.kind !== "interrupted" || interrupts.length === 0 || facts.thread.ephemeral) return;
  const asked = await askApprovals(sql, {
    ...lease,
    checkpointId: outcome.checkpointId,
    questions: interrupts.map((i) => ({ approvalId: deps.ids.next(), interruptId: i.interruptId, node: i.node })),
    answering: facts.others.map((run) => run.runId),
  });
  if (asked === 0) return;
  await appendEvent(sql, lease, {
    type: "approval.asked",
    attempt: lease.attempt,
    payload: { interrupt_ids: interrupts.map((i) => i.interruptId) },
  });
}

/** What the state doesn't wait for any more can't be answered. */
async function withdrawOvertaken(sql: Sql, lease: Lease, open: readonly PendingInterrupt[]): Promise<void> {
  const { tenantId, threadId } = lease;
  const except = open.map((i) => i.interruptId);
  await withdrawApprovals(sql, { tenantId, threadId, reason: "the thread moved on", except });
}

async function setTimers(
  deps: Deps,
  sql: Sql,
  lease: Lease,
  outcome: Outcome,
  facts: Readonly<{ thread: LockedThread; moveAfterMs: number; wakeAt: Date | null }>,
): Promise<void> {
  const timer = { tenantId: lease.tenantId, timerId: deps.ids.next<TimerId>(), refId: lease.runId };
  if (facts.wakeAt !== null) await setTimer(sql, { ...timer, kind: "run.release", when: { at: facts.wakeAt } });
  if (outcome.kind === "interrupted" && outcome.wakeAt !== null) {
    await setTimer(sql, { ...timer, kind: "run.wake", when: { at: outcome.wakeAt } });
  }
  if (outcome.kind === "released") return;
  // The thread of a stateless run that sleeps is still needed.
  const thread = outcome.kind === "sleeping" ? { ...facts.thread, ephemeral: false } : facts.thread;
  await setCleanupTimers(deps, sql, thread, facts.moveAfterMs);
}

function threadStatusAfter(outcome: Outcome): ThreadStatus {
  if (outcome.kind === "interrupted") return "interrupted";
  return outcome.kind === "error" ? "error" : "idle";
}

function settledEvent(lease: Lease, outcome: Outcome) {
  const type =
    outcome.kind === "released" ? "run.released" : outcome.kind === "sleeping" ? "run.sleeping" : "run.settled";
  return {
    type,
    attempt: lease.attempt,
    payload: {
      outcome: outcome.kind,
      ...(outcome.kind === "error" ? { code: outcome.error.code, type: outcome.error.type } : {}),
    },
  } as const;
}

export function leaseLost(lease: Lease): EngineError {
  return new EngineError("lease_lost", `Attempt ${lease.attempt} of run ${lease.runId} lost its lease; it stops here`, {
    details: { run_id: lease.runId, attempt: lease.attempt },
  });
}
