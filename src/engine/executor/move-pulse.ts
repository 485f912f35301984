// A run that goes on for long must not keep its bodies in Postgres until it ends: now and then the mover is asked to look.
import type { Lease } from "../../core/clock.js";
import type { Deps } from "../../core/deps.js";
import { setTimer } from "../../schedule/timers.js";

const SHORTEST_MS = 1_000;

/** Asks every `everyMs` (at least a second); returns what ends it. */
export function startMovePulse(deps: Deps, lease: Lease, everyMs: number): () => void {
  const { tenantId, threadId } = lease;
  const ask = async (): Promise<void> => {
    try {
      await setTimer(deps.db, {
        tenantId,
        timerId: deps.ids.next(),
        kind: "move",
        refId: threadId,
        when: { afterMs: 0 },
      });
      deps.notifier.notify("move");
    } catch (error) {
      // The next pulse asks again, and so does settling.
      deps.log.debug(
        { run_id: lease.runId, code: String((error as { code?: unknown }).code) },
        "could not ask for a move",
      );
    }
  };
  const timer = setInterval(() => void ask(), Math.max(everyMs, SHORTEST_MS));
  return () => clearInterval(timer);
}
