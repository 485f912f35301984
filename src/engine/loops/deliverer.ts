// The deliverer: takes messages that are due, sends them, and finds out what became of those of which nobody knows. Any number of
// processes may run it at once.
import type { Deps } from "../../core/deps.js";
import { claimDeliveries, nextDeliveryInMs, recoverDeliveries } from "../../delivery/outbox.js";
import type { Accounts } from "../channel-accounts.js";
import { deliver, type DeliverOptions, LOOK_AFTER_MS } from "../deliver.js";
import { findOut, RECONCILE_WINDOW_MS } from "../find-out.js";
import { createLoop, type Loop } from "./loop.js";

export type DelivererOptions = Readonly<{
  accounts: Accounts;
  owner: string;
  pollMs: number;
  /** Messages on their way at the same time. */
  concurrency?: number;
  windowMs?: number;
  at?: DeliverOptions["at"];
}>;

const CONCURRENCY = 20;
/** Of the longest send: what is left of a lease when one begins must be longer than it. */
const SENDS_PER_LEASE = 4;
const GRACE_MS = 1_000;

export function createDeliverer(deps: Deps, options: DelivererOptions): Loop {
  const { owner, accounts, pollMs } = options;
  const concurrency = options.concurrency ?? CONCURRENCY;
  const leaseMs = SENDS_PER_LEASE * longestSend(accounts);
  const underWay = new Set<Promise<void>>();
  const over = new AbortController();
  const sending = { accounts, over: over.signal, ...(options.at && { at: options.at }) };
  const finding = { accounts, windowMs: options.windowMs ?? RECONCILE_WINDOW_MS };
  let lookedAtMs = Number.NEGATIVE_INFINITY;

  const loop = createLoop(deps, {
    name: "deliverer",
    pollMs,
    topics: ["deliveries"],
    nextDueInMs: async () => (underWay.size >= concurrency ? null : nextDeliveryInMs(deps.db)),
    tick: async (stopping) => {
      if (deps.clock.monotonicMs() - lookedAtMs >= pollMs) {
        lookedAtMs = deps.clock.monotonicMs();
        await recoverDeliveries(deps.db, LOOK_AFTER_MS);
        await findOut(deps, finding);
      }
      const slots = concurrency - underWay.size;
      if (slots <= 0 || stopping.aborted) return 0;
      const claimed = await claimDeliveries(deps.db, { slots, worker: owner, leaseMs });
      for (const delivery of claimed) {
        const sent = deliver(deps, sending, delivery).finally(() => {
          underWay.delete(sent);
          loop.wake();
        });
        underWay.add(sent);
      }
      // With all slots taken there is nothing to look for before one is free.
      return claimed.length === slots ? 0 : claimed.length;
    },
  });
  return {
    ...loop,
    /** What is on its way is waited for: a deploy leaves nothing unknown. */
    async stop() {
      await loop.stop();
      const cut = new AbortController();
      await Promise.race([Promise.all(underWay), deps.clock.sleep(longestSend(accounts) + GRACE_MS, cut.signal)]);
      cut.abort();
      over.abort();
      await Promise.all(underWay);
    },
  };
}

function longestSend({ channels }: Accounts): number {
  return Math.max(0, ...[...channels.values()].map(({ defaults }) => defaults.timeoutMs));
}
