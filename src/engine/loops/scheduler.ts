// The scheduler: turns due timers into their effects, and forgets those that are long over. Any number of processes may run
// it at once.
import type { Deps } from "../../core/deps.js";
import { deleteGoneCalls } from "../../budgets/model-calls.js";
import { deleteOldInbound } from "../../delivery/inbound.js";
import { deleteOldKeys } from "../../runs/idempotency-keys.js";
import { deleteOldCronFirings } from "../../schedule/cron-firings.js";
import { deleteOldFirings } from "../../schedule/firings.js";
import { deleteOldTimers, nextDueInMs } from "../../schedule/timers.js";
import { createFiring, FIRED_KINDS } from "../commands/fire-timers.js";
import type { TellEngine } from "../commands/tell-followup.js";
import { createLoop, type Loop } from "./loop.js";

/** How long one can still see what fired. */
const KEEP_MS = 7 * 24 * 60 * 60_000;
/** As long a request that comes again finds what it made. */
const KEEP_KEYS_MS = 25 * 60 * 60_000;
/** Longer than any channel brings a webhook again. */
const KEEP_INBOUND_MS = 14 * 24 * 60 * 60_000;
/** As long one can see what became of a schedule's times. */
const KEEP_FIRINGS_MS = 100 * 24 * 60 * 60_000;
/** What a timer may take before the next one has its turn. */
const PATIENCE_MS = 500;
/** Of follow-ups and outreach; each takes a connection. */
const AT_ONCE = 6;
const GRACE_MS = 3_000;
const FORGET_EVERY_MS = 60 * 60_000;

export function createScheduler(deps: Deps, options: Readonly<{ pollMs: number; telling?: TellEngine }>): Loop {
  let forgetAtMs = deps.clock.monotonicMs() + FORGET_EVERY_MS * deps.random();
  const firing = createFiring(deps, PATIENCE_MS, options.telling ?? null, AT_ONCE);
  const loop = createLoop(deps, {
    name: "scheduler",
    pollMs: options.pollMs,
    topics: ["timers"],
    tick: async () => {
      const fired = await firing.round();
      if (fired > 0 || deps.clock.monotonicMs() < forgetAtMs) return fired;
      forgetAtMs = deps.clock.monotonicMs() + FORGET_EVERY_MS;
      await deleteOldTimers(deps.db, KEEP_MS);
      await deleteGoneCalls(deps.db);
      await deleteOldKeys(deps.db, KEEP_KEYS_MS);
      await deleteOldInbound(deps.db, KEEP_INBOUND_MS);
      await deleteOldFirings(deps.db, KEEP_FIRINGS_MS);
      await deleteOldCronFirings(deps.db, KEEP_FIRINGS_MS);
      return 0;
    },
    nextDueInMs: () => nextDueInMs(deps.db, FIRED_KINDS),
  });
  return {
    ...loop,
    async stop() {
      await loop.stop();
      // What is slow for longer is due again elsewhere: it is done in one transaction or not at all.
      await Promise.race([firing.done(), deps.clock.sleep(GRACE_MS)]);
    },
  };
}
