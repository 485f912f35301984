// An attempt that is over before its run is: given back at once, after a while, when a sleep is over, or after a failure that
// may pass.
import type { Lease } from "../../core/clock.js";
import type { Deps, Sql } from "../../core/deps.js";
import type { RunEvent } from "../../core/events.js";
import type { RunId, TimerId } from "../../core/ids.js";
import { backoffMs } from "../../core/retry.js";
import type { Outcome } from "../../core/run.js";
import { type BreakerKey, breakerWaitMs, countBreakerFailure } from "../../runs/breakers.js";
import { appendEvent } from "../../runs/events.js";
import { countFailure, noteCheaper, noteOutage } from "../../runs/failures.js";
import { lockUnfinishedRuns } from "../../runs/runs.js";
import { handBack, type HandBackWhen } from "../../runs/settle.js";
import { insertStreamChunks, type StreamLine } from "../../runs/stream-chunks.js";
import { type LockedThread, lockThread, updateThreadStatus } from "../../runs/thread-lock.js";
import { setTimer } from "../../schedule/timers.js";
import { leaseLost } from "../lease-lost.js";
import { setCleanupTimers } from "./cleanup-timers.js";
import { withdrawQuestions } from "./questions.js";

export type HandedBack = Extract<Outcome, { kind: "released" | "sleeping" | "retry" | "outage" }>;

/** When it goes on, and what its log says of that; null when it was tried as often, or has waited as long, as it may. */
type Decision = Readonly<{ when: HandBackWhen; event: Omit<RunEvent, "attempt"> }> | null;

/** Between two tries of a step that failed. */
const RETRY_MS = 1_000;
const RETRY_CAP_MS = 60_000;
/** Between two tries of what is away, while its breaker is closed: longer with each failure. */
const OUTAGE_RETRY_MS = 2_000;
const OUTAGE_RETRY_CAP_MS = 60_000;
/** Those that wait for the same don't come back in the same moment. */
const SPREAD = 0.2;

/**
 * Makes the run pending again, with the timer that releases it. False when it has failed too often or waited too long: then
 * only that is written, and the run has to be ended. Throws `lease_lost`; nothing is written then.
 */
export async function handBackRun(
  deps: Deps,
  lease: Lease,
  outcome: HandedBack,
  options: Readonly<{ finalChunks: readonly StreamLine[]; moveAfterMs: number }>,
): Promise<boolean> {
  const handed = await deps.db.tx(async (sql) => {
    const thread = await lockThread(sql, lease);
    if (thread === undefined) throw leaseLost(lease);
    await lockUnfinishedRuns(sql, lease);
    const decision = await decide(deps, sql, lease, outcome);
    if (decision === null) return undefined;
    await insertStreamChunks(sql, lease, options.finalChunks);
    const availableAt = await handBack(sql, lease, decision.when);
    if (availableAt === undefined) throw leaseLost(lease);
    await appendEvent(sql, lease, { ...decision.event, attempt: lease.attempt });
    if (availableAt !== null) await setRelease(deps, sql, lease, availableAt);
    if (outcome.kind === "sleeping") await fallAsleep(deps, sql, thread, options.moveAfterMs);
    return { atOnce: availableAt === null };
  });
  if (handed === undefined) return false;
  if (handed.atOnce) deps.notifier.notify("runs");
  deps.notifier.notify("stream", lease.runId);
  deps.notifier.notify("timers");
  return true;
}

async function decide(deps: Deps, sql: Sql, lease: Lease, outcome: HandedBack): Promise<Decision> {
  switch (outcome.kind) {
    case "sleeping":
      return { when: { at: outcome.until }, event: { type: "run.sleeping", payload: { outcome: outcome.kind } } };
    case "released": {
      const { afterMs, cheaper = false } = outcome;
      if (cheaper && !(await noteCheaper(sql, lease))) throw leaseLost(lease);
      const event = { type: "run.released", payload: { outcome: cheaper ? "cheaper_model" : outcome.kind } } as const;
      return { when: afterMs > 0 ? { afterMs } : null, event };
    }
    case "retry":
      return decideRetry(sql, lease, outcome, deps.random());
    case "outage":
      return decideOutage(sql, lease, outcome, deps.random());
  }
}

async function decideRetry(
  sql: Sql,
  lease: Lease,
  outcome: Extract<Outcome, { kind: "retry" }>,
  random: number,
): Promise<Decision> {
  const failures = await countFailure(sql, lease);
  if (failures === undefined) throw leaseLost(lease);
  if (failures >= outcome.maxAttempts) return null;
  const afterMs = Math.max(outcome.afterMs, backoffMs(failures, random, RETRY_MS, RETRY_CAP_MS));
  const payload = { code: outcome.error.code, type: outcome.error.type, failures, after_ms: Math.round(afterMs) };
  return { when: { afterMs }, event: { type: "run.retrying", payload } };
}

async function decideOutage(
  sql: Sql,
  lease: Lease,
  outcome: Extract<Outcome, { kind: "outage" }>,
  random: number,
): Promise<Decision> {
  const { provider, called, patienceMs } = outcome;
  const sinceMs = await noteOutage(sql, lease, provider);
  if (sinceMs === undefined) throw leaseLost(lease);
  if (sinceMs >= patienceMs) return null;
  const key = { tenantId: lease.tenantId, provider, runId: lease.runId };
  const pauseMs = called
    ? await pauseAfter(sql, key, outcome.afterMs, random)
    : ((await breakerWaitMs(sql, key)) ?? OUTAGE_RETRY_MS);
  const afterMs = Math.round(pauseMs * (1 + SPREAD * random));
  const payload = { code: outcome.error.code, provider, after_ms: afterMs };
  return { when: { afterMs, provider }, event: { type: "run.waiting", payload } };
}

async function pauseAfter(
  sql: Sql,
  key: BreakerKey & Readonly<{ runId: RunId }>,
  retryAfterMs: number,
  random: number,
): Promise<number> {
  const { failures, openMs } = await countBreakerFailure(sql, { ...key, retryAfterMs });
  return Math.max(retryAfterMs, openMs, backoffMs(failures, random, OUTAGE_RETRY_MS, OUTAGE_RETRY_CAP_MS));
}

async function setRelease(deps: Deps, sql: Sql, lease: Lease, at: Date): Promise<void> {
  const timerId = deps.ids.next<TimerId>();
  await setTimer(sql, { tenantId: lease.tenantId, timerId, kind: "run.release", refId: lease.runId, when: { at } });
}

async function fallAsleep(deps: Deps, sql: Sql, thread: LockedThread, moveAfterMs: number): Promise<void> {
  // What the state doesn't wait for any more can't be answered.
  await withdrawQuestions(sql, { ...thread, reason: "the thread moved on" });
  // The thread of a stateless run that sleeps is still needed.
  await setCleanupTimers(deps, sql, { ...thread, ephemeral: false }, moveAfterMs);
  const { tenantId, threadId } = thread;
  await updateThreadStatus(sql, { tenantId, threadId, status: "busy", stateChanged: true });
}
