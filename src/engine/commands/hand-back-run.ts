// An attempt that is over before its run is: given back at once, after a while, or when a sleep is over.
import type { Lease } from "../../core/clock.js";
import type { Deps } from "../../core/deps.js";
import type { TimerId } from "../../core/ids.js";
import type { Outcome } from "../../core/run.js";
import { appendEvent } from "../../runs/events.js";
import { lockUnfinishedRuns } from "../../runs/runs.js";
import { handBack } from "../../runs/settle.js";
import { insertStreamChunks, type StreamLine } from "../../runs/stream-chunks.js";
import { lockThread, updateThreadStatus } from "../../runs/thread-lock.js";
import { setTimer } from "../../schedule/timers.js";
import { leaseLost } from "../lease-lost.js";
import { setCleanupTimers } from "./cleanup-timers.js";
import { withdrawQuestions } from "./questions.js";

/** Makes the run pending again, with the timer that releases it. Throws `lease_lost`; nothing is written then. */
export async function handBackRun(
  deps: Deps,
  lease: Lease,
  outcome: Extract<Outcome, { kind: "released" | "sleeping" }>,
  options: Readonly<{ finalChunks: readonly StreamLine[]; moveAfterMs: number }>,
): Promise<void> {
  const { tenantId, threadId, runId } = lease;
  const sleeps = outcome.kind === "sleeping";
  const freed = await deps.db.tx(async (sql) => {
    const thread = await lockThread(sql, lease);
    if (thread === undefined) throw leaseLost(lease);
    await lockUnfinishedRuns(sql, lease);
    await insertStreamChunks(sql, lease, options.finalChunks);
    const when = sleeps ? { at: outcome.until } : outcome.afterMs > 0 ? { afterMs: outcome.afterMs } : null;
    const availableAt = await handBack(sql, lease, when);
    if (availableAt === undefined) throw leaseLost(lease);
    await appendEvent(sql, lease, {
      type: sleeps ? "run.sleeping" : "run.released",
      attempt: lease.attempt,
      payload: { outcome: outcome.kind },
    });
    if (availableAt !== null) {
      const timerId = deps.ids.next<TimerId>();
      await setTimer(sql, { tenantId, timerId, kind: "run.release", refId: runId, when: { at: availableAt } });
    }
    if (!sleeps) return availableAt === null;
    // What the state doesn't wait for any more can't be answered.
    await withdrawQuestions(sql, { tenantId, threadId, reason: "the thread moved on" });
    // The thread of a stateless run that sleeps is still needed.
    await setCleanupTimers(deps, sql, { ...thread, ephemeral: false }, options.moveAfterMs);
    await updateThreadStatus(sql, { ...lease, status: "busy", stateChanged: true });
    return false;
  });
  if (freed) deps.notifier.notify("runs");
  deps.notifier.notify("stream", runId);
  deps.notifier.notify("timers");
}
