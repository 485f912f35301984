// Removes the states that a run with durability "exit" has stored on its way: while it ran they were what the next attempt would have gone
// on from; once it is over only the one it ended in stays.
import type { Deps } from "../../core/deps.js";
import { unlessGone } from "../../core/errors.js";
import type { RunId } from "../../core/ids.js";
import { getRun } from "../../runs/runs.js";
import { endClaim, type TimerClaim } from "../../schedule/timer-claims.js";
import { pruneThread } from "./prune-thread.js";

/** Does what a run's timer of kind `run.prune` is for. Throws `thread_busy` and what else stands in the way of pruning. */
export async function keepLastState(
  deps: Deps,
  timer: TimerClaim,
  hold: Readonly<{ owner: string; leaseMs: number }>,
): Promise<void> {
  const { tenantId } = timer;
  const runId = timer.refId as RunId;
  const run = await getRun(deps.db, { tenantId, runId });
  if (run !== undefined) {
    const only = { runId, keeps: run.resultCheckpointId };
    const policy = { keepLatest: 1, olderThanMs: null, outcomes: null, only };
    const prune = { tenantId, threadId: run.threadId, ...hold, policy, thorough: false, dryRun: false };
    // Of a run without a thread that anybody sees everything goes by itself.
    await unlessGone(pruneThread(deps, prune));
  }
  await endClaim(deps.db, timer);
}
