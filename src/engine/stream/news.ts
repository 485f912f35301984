// What wakes who watches a run: notifications, else a poll; and when it is time to say that the watcher is still there.
import type { Deps } from "../../core/deps.js";
import type { RunId } from "../../core/ids.js";

const DEFAULT_POLL_MS = 2_000;
/** Without a reason an error would be made for nobody. */
const NEWS = "news";

export type News = Readonly<{
  /** What is heard from here on is news. To be called before looking. */
  forget(): void;
  /** Something was sent: the next heartbeat is a full interval away. */
  sent(): void;
  /** Resolves when there may be news, or when it is time for a heartbeat. */
  wait(): Promise<"look" | "heartbeat">;
  close(): void;
}>;

export function createNews(
  deps: Pick<Deps, "clock" | "notifier" | "random">,
  options: Readonly<{
    topic: "stream" | "ended";
    runId: RunId;
    signal: AbortSignal;
    heartbeatMs: number;
    pollMs?: number | undefined;
  }>,
): News {
  const { clock, notifier, random } = deps;
  const { runId, signal, heartbeatMs, pollMs = DEFAULT_POLL_MS } = options;
  let heard = false;
  let wake = new AbortController();
  let sentMs = clock.monotonicMs();
  const stop = notifier.listen(options.topic, (id) => {
    if (id !== undefined && id !== runId) return;
    heard = true;
    wake.abort(NEWS);
  });
  const onAbort = (): void => wake.abort(NEWS);
  signal.addEventListener("abort", onAbort, { once: true });

  return {
    forget: () => void (heard = false),
    sent: () => void (sentMs = clock.monotonicMs()),
    async wait() {
      wake = new AbortController();
      if (heard || signal.aborted) return "look";
      const beatMs = sentMs + heartbeatMs - clock.monotonicMs();
      const lookMs = pollMs * (0.75 + random() / 2);
      await clock.sleep(Math.max(0, Math.min(beatMs, lookMs)), wake.signal);
      if (heard || signal.aborted || beatMs > lookMs) return "look";
      sentMs = clock.monotonicMs();
      return "heartbeat";
    },
    close() {
      stop();
      signal.removeEventListener("abort", onAbort);
    },
  };
}
