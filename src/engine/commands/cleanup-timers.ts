// What is left to do for a thread when a run of it ended: its content moves; a stateless run's thread goes, and is not
// worth a pack. (`settle_runs` in migrations/0005_settle.sql does the same.)
import type { Deps, Sql } from "../../core/deps.js";
import type { ThreadKey } from "../../runs/thread-lock.js";
import { setTimer } from "../../schedule/timers.js";

/** How long a stateless run's result can still be fetched after it ended. */
export const EPHEMERAL_KEEP_MS = 300_000;

export async function setCleanupTimers(
  deps: Deps,
  sql: Sql,
  thread: ThreadKey & Readonly<{ ephemeral: boolean }>,
  moveAfterMs: number,
): Promise<void> {
  const { tenantId, threadId } = thread;
  const { kind, afterMs } = thread.ephemeral
    ? ({ kind: "thread.delete", afterMs: EPHEMERAL_KEEP_MS } as const)
    : ({ kind: "move", afterMs: moveAfterMs } as const);
  await setTimer(sql, { tenantId, timerId: deps.ids.next(), kind, refId: threadId, when: { afterMs } });
}
