// The sweeper: finds the runs of dead workers. Any number of processes may run it at once.
import type { Deps } from "../../core/deps.js";
import { sweepLostRuns } from "../commands/sweep-lost-runs.js";
import { createLoop, type Loop } from "./loop.js";

export function createSweeper(deps: Deps, options: Readonly<{ pollMs: number; moveAfterMs: number }>): Loop {
  return createLoop(deps, {
    name: "sweeper",
    pollMs: options.pollMs,
    tick: () => sweepLostRuns(deps, options),
  });
}
