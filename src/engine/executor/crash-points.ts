// Where a test may have an attempt die, as if its process had been killed there: nothing of it is stored any more, and nobody is
// told. What it had stored stays, and its lease with it.
import type { Lease } from "../../core/clock.js";
import type { Settle } from "../commands/settle-run.js";
import type { Combiner } from "../commit.js";
import { leaseLost } from "../lease-lost.js";
import type { Execute } from "../loops/worker.js";

/** `claimed`: before anything is read. `committed`: a commit is durable, and its graph doesn't know yet. `settling`: all but the end is stored. */
export type CrashPoint = "claimed" | "committed" | "settling";

/** Whether the attempt dies here. */
export type CrashHook = (point: CrashPoint, lease: Lease) => boolean;

type Mortal = Readonly<{ combiner: Combiner; settle: Settle }>;

/** What an executor stores with, dying where the hook says so. */
export function dyingAt(hook: CrashHook, { combiner, settle }: Mortal): Mortal {
  return {
    combiner: {
      ...combiner,
      forLease(lease, over) {
        const send = combiner.forLease(lease, over);
        return async (op) => {
          const done = await send(op);
          if (hook("committed", lease)) throw leaseLost(lease);
          return done;
        };
      },
    },
    settle(lease, ...ending) {
      return hook("settling", lease) ? Promise.reject(leaseLost(lease)) : settle(lease, ...ending);
    },
  };
}

export function dyingWhenClaimed(hook: CrashHook, execute: Execute): Execute {
  return (run, lease, signals) => (hook("claimed", lease) ? Promise.resolve() : execute(run, lease, signals));
}
