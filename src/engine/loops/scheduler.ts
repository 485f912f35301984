// The scheduler: turns due timers into their effects. Any number of processes may run it at once.
import type { Deps } from "../../core/deps.js";
import { nextDueInMs } from "../../schedule/timers.js";
import { FIRED_KINDS, fireTimers } from "../commands/fire-timers.js";
import { createLoop, type Loop } from "./loop.js";

export function createScheduler(deps: Deps, options: Readonly<{ pollMs: number }>): Loop {
  return createLoop(deps, {
    name: "scheduler",
    pollMs: options.pollMs,
    topics: ["timers"],
    tick: () => fireTimers(deps),
    nextDueInMs: () => nextDueInMs(deps.db, FIRED_KINDS),
  });
}
