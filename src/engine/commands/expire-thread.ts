// The end of a thread's time to live: it goes, or only its newest state stays, when nothing has happened on it for as long. A run that
// has come meanwhile keeps it, whoever looks and however far they came: what says so is read under the thread's lock.
import type { Deps, Sql } from "../../core/deps.js";
import { isEngineError } from "../../core/errors.js";
import type { ThreadId } from "../../core/ids.js";
import type { ThreadTtl } from "../../core/thread-ttl.js";
import { hasToTell } from "../../delivery/deliveries.js";
import { lockThread, type ThreadKey } from "../../runs/thread-lock.js";
import { ttlLeft } from "../../runs/threads.js";
import { endClaim, postponeClaim, type TimerClaim } from "../../schedule/timer-claims.js";
import { deleteThread } from "./delete-thread.js";
import { pruneThread } from "./prune-thread.js";

/** A thread with unfinished runs, or with something to be told, is looked at again after this. */
const BUSY_MS = 60_000;

/** Does what a thread's timer of kind `thread.ttl` is for, and ends its claim or puts it off. Throws what stands in the way of pruning. */
export async function expireThread(
  deps: Deps,
  timer: TimerClaim,
  hold: Readonly<{ owner: string; leaseMs: number }>,
): Promise<"deleted" | "pruned" | "kept"> {
  const key = { tenantId: timer.tenantId, threadId: timer.refId as ThreadId };
  const strategy = await deps.db.tx((sql) => overOrLater(sql, key, timer));
  if (strategy === null) return "kept";
  if (strategy === "delete") {
    if (await deleteThread(deps, key, async (sql, { status }) => status !== "busy" && (await isOver(sql, key))))
      return "deleted";
    await postponeClaim(deps.db, timer, { afterMs: 0, error: null });
    return "kept";
  }
  await keepLatest(deps, key, hold);
  await deps.db.tx(async (sql) => {
    if ((await overOrLater(sql, key, timer)) !== null) await endClaim(sql, timer);
  });
  return "pruned";
}

/** What is to be done now; null when it isn't time yet, and the timer says when it will be. */
async function overOrLater(sql: Sql, key: ThreadKey, timer: TimerClaim): Promise<ThreadTtl["strategy"] | null> {
  const thread = await lockThread(sql, key);
  const left = thread && (await ttlLeft(sql, key));
  if (thread === undefined || left === undefined) {
    await endClaim(sql, timer);
    return null;
  }
  const afterMs = thread.status === "busy" || (await hasToTell(sql, key)) ? BUSY_MS : left.leftMs;
  if (afterMs <= 0) return left.strategy;
  await postponeClaim(sql, timer, { afterMs, error: null });
  return null;
}

async function isOver(sql: Sql, key: ThreadKey): Promise<boolean> {
  const left = await ttlLeft(sql, key);
  return left !== undefined && left.leftMs <= 0;
}

async function keepLatest(
  deps: Deps,
  key: ThreadKey,
  hold: Readonly<{ owner: string; leaseMs: number }>,
): Promise<void> {
  const policy = { keepLatest: 1, olderThanMs: null, outcomes: null };
  try {
    await pruneThread(deps, { ...key, ...hold, policy, thorough: false, dryRun: false });
  } catch (error) {
    // Somebody is at it, or has deleted it: the timer says how it goes on.
    if (!isEngineError(error, "thread_busy") && !isEngineError(error, "not_found")) throw error;
  }
}
