// Tells who follows threads which run comes next on each. All that wait in a process ask together, with one statement: when
// something was heard, but not more often than four times a second, and else every two seconds.
import { batched } from "../core/batch.js";
import type { Deps } from "../core/deps.js";
import { createEar, type Ear } from "../core/ear.js";
import type { RunId } from "../core/ids.js";
import { isTransientDbError } from "../core/retry.js";
import { type Ask, nextRuns } from "../runs/next-run.js";

const POLL_MS = 2_000;
const AT_MOST_EVERY_MS = 250;
/** So many with one statement. */
const AT_ONCE = 200;
const NEWS = "news";

export type ThreadNews = Readonly<{
  /** The next run, as soon as there is one; undefined when the signal was aborted or the time is over before. */
  next(ask: Ask, options: Readonly<{ signal: AbortSignal; waitMs: number }>): Promise<RunId | undefined>;
}>;

type Waiting = Readonly<{ ask: Ask; answer: (found: RunId | undefined, error?: Error) => void }>;

export function createThreadNews(deps: Pick<Deps, "db" | "notifier" | "clock" | "random">): ThreadNews {
  const { db, clock, random } = deps;
  const ask = batched<Ask, RunId | undefined>(AT_ONCE, (asks) => nextRuns(db, asks));
  const waiting = new Set<Waiting>();
  let looking = false;

  const look = async (one: Waiting): Promise<void> => {
    try {
      const found = await ask(one.ask);
      if (found !== undefined) one.answer(found);
    } catch (error) {
      // A database that is away for a while is asked again.
      if (!isTransientDbError(error)) one.answer(undefined, error as Error);
    }
  };
  const keepLooking = async (): Promise<void> => {
    const ear = listen(deps, (threadId) => {
      for (const one of waiting) if (one.ask.threadId === threadId) void look(one);
    });
    while (waiting.size > 0) {
      await clock.sleep(AT_MOST_EVERY_MS);
      await ear.wait(POLL_MS * (0.75 + random() / 2));
      ear.forget();
      await Promise.all([...waiting].map(look));
    }
    ear.close();
    looking = false;
  };

  return {
    async next(asked, { signal, waitMs }) {
      const over = new AbortController();
      const end = (): void => over.abort(NEWS);
      const answered: { found?: RunId | undefined; error?: Error } = {};
      const one: Waiting = {
        ask: asked,
        answer(found, error) {
          Object.assign(answered, { found, error });
          end();
        },
      };
      waiting.add(one);
      signal.addEventListener("abort", end, { once: true });
      if (signal.aborted) end();
      try {
        void look(one);
        if (!looking) {
          looking = true;
          void keepLooking();
        }
        await clock.sleep(waitMs, over.signal);
      } finally {
        waiting.delete(one);
        signal.removeEventListener("abort", end);
      }
      if (answered.error !== undefined) throw answered.error;
      return answered.found;
    },
  };
}

/** What may be about any thread is gathered; what is about one is passed on. */
function listen(
  { notifier, clock }: Pick<Deps, "notifier" | "clock">,
  ofThread: (threadId: string) => void,
): Ear & Readonly<{ close(): void }> {
  const ear = createEar(clock);
  const stops = [
    notifier.listen("runs", ear.hear),
    notifier.listen("lines", ear.hear),
    notifier.listen("stream", ear.hear),
    notifier.listen("threads", (id) => {
      if (id === undefined) ear.hear();
      else ofThread(id);
    }),
  ];
  return {
    ...ear,
    close() {
      for (const stop of stops) stop();
    },
  };
}
