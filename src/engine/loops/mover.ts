// The mover: takes due `move` timers, each a thread whose content goes to the object store, and from time to time deletes
// orphaned objects. An object store that is away makes it wait, and nobody else. Any number of processes may run it at once.
import type { Deps } from "../../core/deps.js";
import { isEngineError } from "../../core/errors.js";
import type { ThreadId } from "../../core/ids.js";
import { backoffMs, isTransientDbError } from "../../core/retry.js";
import { claimTimers, endClaim, postponeClaim, type TimerClaim } from "../../schedule/timer-claims.js";
import { nextDueInMs } from "../../schedule/timers.js";
import { moveThread, type MoveOptions } from "../move-thread.js";
import { type SweepOptions, sweepOrphans } from "../sweep-orphans.js";
import { createLoop, type Loop } from "./loop.js";

export type MoverOptions = Readonly<{
  /** Threads moved at the same time. */
  concurrency?: number;
  move?: MoveOptions;
}>;

/** Longer than a move takes; then the timer of a mover that died is due again. */
const CLAIM_MS = 10 * 60_000;
const CONCURRENCY = 4;
const BACKOFF_BASE_MS = 5_000;
const BACKOFF_CAP_MS = 5 * 60_000;
const SWEEP_EVERY_MS = 10 * 60_000;

export function createMover(
  deps: Deps,
  options: MoverOptions & Readonly<{ pollMs: number; sweep?: SweepOptions & Readonly<{ everyMs?: number }> }>,
): Loop {
  const sweepEveryMs = options.sweep?.everyMs ?? SWEEP_EVERY_MS;
  // Not at once: processes that start together would all sweep together.
  let sweepAtMs = deps.clock.monotonicMs() + sweepEveryMs * deps.random();
  return createLoop(deps, {
    name: "mover",
    pollMs: options.pollMs,
    topics: ["move"],
    nextDueInMs: () => nextDueInMs(deps.db, ["move"]),
    tick: async () => {
      const moved = await tickMover(deps, options);
      if (moved > 0 || deps.clock.monotonicMs() < sweepAtMs) return moved;
      sweepAtMs = deps.clock.monotonicMs() + sweepEveryMs;
      const swept = await sweepOrphans(deps, options.sweep).catch((error: unknown) => failed(deps, "sweep", error));
      if (typeof swept === "number" && swept > 0) deps.log.info({ objects: swept }, "orphaned objects were deleted");
      return 0;
    },
  });
}

/** One round: moves the threads that are due, as many as fit; returns how many it took. */
export async function tickMover(deps: Deps, options: MoverOptions = {}): Promise<number> {
  const limit = options.concurrency ?? CONCURRENCY;
  const due = await claimTimers(deps.db, { kind: "move", limit, forMs: CLAIM_MS });
  await Promise.all(due.map((timer) => moveOne(deps, options, timer)));
  return due.length;
}

async function moveOne(deps: Deps, options: MoverOptions, timer: TimerClaim): Promise<void> {
  const thread = { tenantId: timer.tenantId, threadId: timer.refId as ThreadId };
  try {
    const moved = await moveThread(deps, thread, options.move);
    const { packs, checkpoints, bodies, runs } = moved;
    if (packs > 0) {
      const fields = { tenant_id: thread.tenantId, thread_id: thread.threadId, packs, checkpoints, bodies, runs };
      deps.log.debug(fields, "a thread's content was moved");
    }
    if (moved.more) await postponeClaim(deps.db, timer, { afterMs: 0, error: null });
    else await endClaim(deps.db, timer);
  } catch (error) {
    const code = failed(deps, thread.threadId, error);
    const afterMs = backoffMs(timer.attempts, deps.random(), BACKOFF_BASE_MS, BACKOFF_CAP_MS);
    await postponeClaim(deps.db, timer, { afterMs, error: code });
  }
}

/** Logs what failed and returns its code. */
function failed(deps: Deps, what: string, error: unknown): string {
  const code = isEngineError(error) ? error.code : String((error as { code?: unknown }).code ?? "internal");
  if (isTransientDbError(error)) deps.log.warn({ thread_id: what, code }, "a move has to wait");
  else deps.log.error({ thread_id: what, code, error: (error as Error).name }, "a move failed");
  return code;
}
