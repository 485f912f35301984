// What is left to do for a thread when a run of it ended: its content moves, and a stateless run's thread goes.
import type { Deps, Sql } from "../../core/deps.js";
import type { ThreadKey } from "../../runs/thread-lock.js";
import { setTimer } from "../../schedule/timers.js";

/** How long a stateless run's result can still be fetched after it ended. */
const EPHEMERAL_KEEP_MS = 300_000;

export async function setCleanupTimers(
  deps: Deps,
  sql: Sql,
  thread: ThreadKey & Readonly<{ ephemeral: boolean }>,
  moveAfterMs: number,
): Promise<void> {
  const { tenantId, threadId } = thread;
  const due = [
    { kind: "move", afterMs: moveAfterMs },
    ...(thread.ephemeral ? [{ kind: "thread.delete", afterMs: EPHEMERAL_KEEP_MS } as const] : []),
  ] as const;
  for (const { kind, afterMs } of due) {
    await setTimer(sql, { tenantId, timerId: deps.ids.next(), kind, refId: threadId, when: { afterMs } });
  }
}
