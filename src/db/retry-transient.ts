// Trying a database operation again while the server or the way to it is away. For operations that may run twice:
// reads, and writes that know their own repetition (a lost reply may stand for a commit).
import type { Clock } from "../core/clock.js";
import { backoffMs, isTransientDbError } from "../core/retry.js";

export type RetryOptions = Readonly<{
  clock: Clock;
  random: () => number;
  /** How long to go on, from the first try. */
  deadlineMs: number;
  /** Looked at only when something failed. */
  signal?: AbortSignal;
}>;

/** The operation's result; its last error once the deadline is near, the signal aborted or trying again is no use. */
export async function retryTransient<T>(operation: () => Promise<T>, options: RetryOptions): Promise<T> {
  const { clock, random, deadlineMs } = options;
  const endMs = clock.monotonicMs() + deadlineMs;
  for (let n = 1; ; n++) {
    try {
      return await operation();
    } catch (error) {
      const waitMs = backoffMs(n, random());
      if (!isTransientDbError(error) || clock.monotonicMs() + waitMs > endMs) throw error;
      const { signal } = options;
      await clock.sleep(waitMs, signal);
      if (signal?.aborted) throw error;
    }
  }
}
