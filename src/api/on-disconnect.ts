// A client that wants its run cancelled when it goes away: it may only have lost its connection, and be on its way back.
import { cancelRun } from "../engine/commands/cancel-run.js";
import type { Engine } from "../engine/engine.js";
import type { RunRow } from "../runs/runs.js";

/** Time for two tries of a stock client to connect again. */
const GRACE_MS = 5_000;

export type OnDisconnect = Readonly<{
  /** While its connection is open: whoever waits for it to come back, in any process, hears that it has. Ends what it returns. */
  watch(): () => void;
  /** Its connection is gone: cancels the run, unless the client comes back before its time is over. */
  left(): Promise<void>;
}>;

/** `returning`: it may have been connected before. */
export function cancelWhenGone(
  engine: Engine,
  run: RunRow,
  { returning }: Readonly<{ returning: boolean }>,
): OnDisconnect {
  const { tenantId, threadId, runId } = run;
  const { notifier } = engine.deps;
  return {
    watch() {
      const isHere = (): void => notifier.notify("watched", runId);
      const stop = notifier.listen("left", isHere, runId);
      if (returning) isHere();
      return stop;
    },
    async left() {
      if (await comesBack(engine, run)) return;
      const { moveAfterMs } = engine.edits;
      const reason = "its client disconnected";
      await cancelRun(engine.deps, { tenantId, threadId, runId, reason, moveAfterMs, unlessShared: true });
    },
  };
}

async function comesBack({ deps: { notifier, clock } }: Engine, { runId }: RunRow): Promise<boolean> {
  const back = new AbortController();
  const stop = notifier.listen("watched", (id) => void (id !== undefined && back.abort()), runId);
  notifier.notify("left", runId);
  await clock.sleep(GRACE_MS, back.signal);
  stop();
  return back.signal.aborted;
}
