// What wakes who watches a run: notifications, else a poll; and when it is time to say that the watcher is still there.
import type { Deps, Topic } from "../../core/deps.js";
import { createEar, type Ear } from "../../core/ear.js";
import type { RunId } from "../../core/ids.js";

const DEFAULT_POLL_MS = 2_000;

export type News = Pick<Ear, "hear" | "forget"> &
  Readonly<{
    /** Whether the database is to be looked at, for another reason than `hear`; it isn't then, until there is one. */
    takeDue(): boolean;
    /** Something was sent: the next heartbeat is a full interval away. */
    sent(): void;
    /** Resolves when there may be news, or when it is time for a heartbeat. */
    wait(): Promise<"look" | "heartbeat">;
    close(): void;
  }>;

export type NewsOptions = Readonly<{
  topics: readonly Topic[];
  runId: RunId;
  signal: AbortSignal;
  heartbeatMs: number;
  /** The first heartbeat comes as soon as it is waited. */
  beatAtOnce?: boolean | undefined;
  pollMs?: number | undefined;
  /** Whose notifications say nothing new for now. */
  ignores?: (topic: Topic) => boolean;
}>;

export function createNews(deps: Pick<Deps, "clock" | "notifier" | "random">, options: NewsOptions): News {
  const { clock, notifier, random } = deps;
  const { topics, runId, signal, heartbeatMs, beatAtOnce = false, pollMs = DEFAULT_POLL_MS } = options;
  const { ignores = () => false } = options;
  const ear = createEar(clock);
  let due = true;
  let owed = beatAtOnce;
  let sentMs = clock.monotonicMs();
  const stops = topics.map((topic) =>
    notifier.listen(
      topic,
      (id) => {
        if (id !== undefined && ignores(topic)) return;
        due = true;
        ear.hear();
      },
      runId,
    ),
  );
  signal.addEventListener("abort", ear.hear, { once: true });
  if (signal.aborted) ear.hear();

  return {
    hear: ear.hear,
    forget: ear.forget,
    takeDue() {
      const was = due;
      due = false;
      return was;
    },
    sent: () => void (sentMs = clock.monotonicMs()),
    async wait() {
      const beatMs = owed ? 0 : sentMs + heartbeatMs - clock.monotonicMs();
      const lookMs = pollMs * (0.75 + random() / 2);
      const heard = !owed && (await ear.wait(Math.min(beatMs, lookMs)));
      if (!heard && beatMs > lookMs) due = true;
      if (heard || signal.aborted || beatMs > lookMs) return "look";
      owed = false;
      sentMs = clock.monotonicMs();
      return "heartbeat";
    },
    close() {
      for (const stop of stops) stop();
      signal.removeEventListener("abort", ear.hear);
    },
  };
}
