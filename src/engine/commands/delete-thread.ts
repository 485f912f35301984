// Deletes a thread and everything it owns: rows in one transaction, objects after it. A tombstone keeps what is still on
// its way (a mover's pack, a late worker) from bringing anything back.
import { forgetThread } from "../../budgets/model-calls.js";
import { type DoomedPack, doomThread } from "../../checkpoint/queries.js";
import type { Deps, Sql } from "../../core/deps.js";
import type { RunId, ThreadId, TimerId } from "../../core/ids.js";
import { lockUnfinishedRuns } from "../../runs/runs.js";
import { type LockedThread, lockThread, type ThreadKey } from "../../runs/thread-lock.js";
import { deleteThreadRow, searchThreads, type ThreadFilter } from "../../runs/threads.js";
import { insertTombstone } from "../../runs/tombstones.js";
import { workedFollowups } from "../../schedule/followups.js";
import { cancelTimers, setTimer } from "../../schedule/timers.js";
import { derivedId } from "../followup-runs.js";
import { removeDoomed } from "../remove-doomed.js";
import { endRuns } from "./end-runs.js";

/** Threads that are looked for together. */
const AT_ONCE = 100;

type Deleted = Readonly<{ ended: readonly RunId[]; objects: readonly DoomedPack[] }>;

/** Asked once the thread is locked. */
type If = (sql: Sql, thread: LockedThread) => Promise<boolean>;

/** True if there was such a thread, ephemeral ones included, and `only` had it deleted. Safe to repeat. */
export async function deleteThread(deps: Deps, key: ThreadKey, only?: If): Promise<boolean> {
  const deleted = await deps.db.tx((sql) => deleteRows(deps, sql, key, only));
  if (deleted === undefined) return false;
  for (const runId of deleted.ended) {
    deps.notifier.notify("cancel", runId);
    deps.notifier.notify("stream", runId);
    deps.notifier.notify("ended", runId);
  }
  try {
    await removeDoomed(deps, deleted.objects);
  } catch (error) {
    const fields = { thread_id: key.threadId, code: String((error as { code?: unknown }).code ?? "internal") };
    deps.log.warn(fields, "a deleted thread's objects can't be deleted yet; the sweep will do it");
  }
  return true;
}

/** All that anybody sees of those that a filter finds, also those that come meanwhile. */
export async function deleteThreadsLike(deps: Deps, filter: ThreadFilter): Promise<void> {
  const page = { ...filter, sortBy: "thread_id", sortOrder: "asc", limit: AT_ONCE, offset: 0 } as const;
  for (;;) {
    const threads = await searchThreads(deps.db, page);
    if (threads.length === 0) return;
    for (const { threadId } of threads) await deleteThread(deps, { tenantId: filter.tenantId, threadId });
  }
}

/** Undefined when there is no such thread, or it isn't to go. */
async function deleteRows(
  deps: Deps,
  sql: Sql,
  key: ThreadKey,
  only: If = () => Promise.resolve(true),
): Promise<Deleted | undefined> {
  const thread = await lockThread(sql, key);
  if (thread === undefined || !(await only(sql, thread))) return undefined;
  const unfinished = await lockUnfinishedRuns(sql, key);
  const runIds = unfinished.map((run) => run.runId);
  const ended = await endRuns(sql, { ...key, runIds, reason: "the thread was deleted" });
  await cancelTimers(sql, {
    tenantId: key.tenantId,
    kinds: ["move", "repack", "prune", "thread.ttl"],
    refIds: [key.threadId],
  });
  if (!thread.ephemeral) await deleteWorkLater(deps, sql, key);
  await insertTombstone(sql, key);
  const objects = await doomThread(sql, key);
  await forgetThread(sql, key);
  await deleteThreadRow(sql, key);
  return { ended, objects };
}

/** The threads that the work of its follow-ups ran on hold what was said on it. */
async function deleteWorkLater({ ids }: Deps, sql: Sql, key: ThreadKey): Promise<void> {
  for (const followupId of await workedFollowups(sql, key)) {
    const timer = { tenantId: key.tenantId, timerId: ids.next<TimerId>(), kind: "thread.delete" } as const;
    await setTimer(sql, { ...timer, refId: derivedId<ThreadId>(followupId, "thread"), when: { afterMs: 0 } });
  }
}
