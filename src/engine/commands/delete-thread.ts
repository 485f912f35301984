// Deletes a thread and everything it owns: rows in one transaction, objects after it. A tombstone keeps what is still on
// its way (a mover's pack, a late worker) from bringing anything back.
import { eraseThreadObjects } from "../../bodies/erase.js";
import { deleteThreadCheckpoints } from "../../checkpoint/queries.js";
import type { Deps, Sql } from "../../core/deps.js";
import type { RunId } from "../../core/ids.js";
import { lockUnfinishedRuns } from "../../runs/runs.js";
import { lockThread, type ThreadKey } from "../../runs/thread-lock.js";
import { deleteThreadRow } from "../../runs/threads.js";
import { insertTombstone } from "../../runs/tombstones.js";
import { cancelTimers, setTimer } from "../../schedule/timers.js";
import { endRuns } from "./end-runs.js";

/** Until then a pack that was on its way may still arrive: the objects are erased once more. */
const ERASE_AGAIN_MS = 600_000;

type Deleted = Readonly<{ ended: readonly RunId[]; erasedLater: boolean }>;

/** True if there was such a thread, ephemeral ones included. Safe to repeat. */
export async function deleteThread(deps: Deps, key: ThreadKey): Promise<boolean> {
  const deleted = await deps.db.tx((sql) => deleteRows(deps, sql, key));
  for (const runId of deleted?.ended ?? []) {
    deps.notifier.notify("cancel", runId);
    deps.notifier.notify("stream", runId);
    deps.notifier.notify("ended", runId);
  }
  try {
    await eraseThreadObjects(deps.bodies, key);
  } catch (error) {
    if (deleted?.erasedLater !== true) throw error;
    deps.log.warn({ thread_id: key.threadId }, "a deleted thread's objects could not be erased yet; a timer will");
  }
  return deleted !== undefined;
}

/** Undefined when there is no such thread. */
async function deleteRows(deps: Deps, sql: Sql, key: ThreadKey): Promise<Deleted | undefined> {
  const thread = await lockThread(sql, key);
  if (thread === undefined) return undefined;
  const unfinished = await lockUnfinishedRuns(sql, key);
  const runIds = unfinished.map((run) => run.runId);
  const ended = await endRuns(sql, { ...key, runIds, reason: "the thread was deleted" });
  await cancelTimers(sql, { tenantId: key.tenantId, kinds: ["move", "repack"], refIds: [key.threadId] });
  await insertTombstone(sql, key);
  await deleteThreadCheckpoints(sql, key);
  await deleteThreadRow(sql, key);
  // An ephemeral thread is deleted by such a timer already, which tries until it worked.
  if (!thread.ephemeral) {
    await setTimer(sql, {
      tenantId: key.tenantId,
      timerId: deps.ids.next(),
      kind: "thread.delete",
      refId: key.threadId,
      when: { afterMs: ERASE_AGAIN_MS },
    });
  }
  return { ended, erasedLater: !thread.ephemeral };
}
