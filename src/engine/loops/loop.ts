// What every loop shares: start, stop, wake, and a poll with jitter. The tick knows the work; the loop knows only time.
import type { Deps, Topic } from "../../core/deps.js";
import { isTransientDbError } from "../../core/retry.js";
import { stackFrames } from "../../observe/frames.js";

export type Loop = Readonly<{
  start(): void;
  /** Resolves when the round under way has ended; no round begins after the call. */
  stop(): Promise<void>;
  wake(): void;
}>;

export type LoopOptions = Readonly<{
  name: string;
  /** Does one round and returns how much it did: more than 0 means "look again at once". A long one may end early once `stopping` is aborted. */
  tick: (stopping: AbortSignal) => Promise<number>;
  pollMs: number;
  /** Notifications that wake it. It never depends on them. */
  topics?: readonly Topic[];
  /** When the next thing is due, if known: the loop sleeps no longer than that. */
  nextDueInMs?: () => Promise<number | null>;
}>;

/** A loop over `tick`. A failing round is logged and tried again after a poll: no error ends a loop. */
export function createLoop(deps: Deps, options: LoopOptions): Loop {
  const stopping = new AbortController();
  // One for each round. A signal made of it and a lasting one would leave a trace in the lasting one, round by round.
  let wakeUp = new AbortController();
  let rest = new AbortController();
  let running: Promise<void> | undefined;
  const unlisten: (() => void)[] = [];

  const wake = (): void => wakeUp.abort();
  const pause = async (): Promise<void> => {
    const due = (await options.nextDueInMs?.()) ?? Number.POSITIVE_INFINITY;
    const poll = options.pollMs * (0.8 + 0.4 * deps.random());
    // What is due and was not done by this round is somebody else's for the moment.
    await deps.clock.sleep(due > 0 ? Math.min(poll, due) : poll, wakeUp.signal);
  };
  const round = async (): Promise<void> => {
    wakeUp = new AbortController();
    try {
      if ((await options.tick(stopping.signal)) === 0) await pause();
    } catch (error) {
      const code = String((error as { code?: unknown }).code ?? "internal");
      const fields = { loop: options.name, code, error: (error as Error).name };
      if (isTransientDbError(error)) deps.log.warn(fields, "the database is away, trying again");
      else deps.log.error({ ...fields, frames: stackFrames(error) }, "a round failed, trying again");
      // Nobody but `stop` ends this pause: what fails must not be tried as often as it is asked for.
      rest = new AbortController();
      await deps.clock.sleep(stopping.signal.aborted ? 0 : options.pollMs * (0.5 + deps.random()), rest.signal);
    }
  };

  return {
    start() {
      if (running !== undefined) return;
      for (const topic of options.topics ?? []) unlisten.push(deps.notifier.listen(topic, wake));
      running = (async () => {
        while (!stopping.signal.aborted) await round();
      })();
    },
    async stop() {
      for (const off of unlisten.splice(0)) off();
      stopping.abort();
      wake();
      rest.abort();
      await running;
    },
    wake,
  };
}
