// The worker: fetches runs for its free slots, starts them, and hands them back when it must stop. It knows no graph.
import { setMaxListeners } from "node:events";
import type { Lease } from "../../core/clock.js";
import type { Deps } from "../../core/deps.js";
import { claimRuns, type ClaimedRun } from "../../runs/claim.js";
import { createLoop } from "./loop.js";

/** What runs one claimed run to its end; never rejects. `drain` asks it to stop at the next checkpoint, `abort` at once. */
export type Execute = (
  run: ClaimedRun,
  lease: Lease,
  signals: Readonly<{ drain: AbortSignal; abort: AbortSignal }>,
) => Promise<void>;

export type WorkerLoop = Readonly<{
  start(): void;
  /** Takes no more, asks the runs under way to stop at their next checkpoint, and aborts those that don't in `graceMs`. */
  stop(graceMs: number): Promise<void>;
  /** Claims and starts what fits; returns how many. For tests and for embedding. */
  tick(): Promise<number>;
  /** Runs under way. */
  active(): number;
}>;

export type WorkerOptions = Readonly<{
  owner: string;
  graphIds: readonly string[];
  /** Of each graph's code. */
  versions: readonly string[];
  concurrency: number;
  leaseMs: number;
  pollMs: number;
  /** Resolves when leases will be kept; nothing is claimed before. */
  ready: Promise<void>;
  execute: Execute;
}>;

type Active = Readonly<{ runId: string; done: Promise<void>; abort: AbortController }>;

export function createWorker(deps: Deps, options: WorkerOptions): WorkerLoop {
  const active = new Map<string, Active>();
  /** The last claim left nothing that this worker may take: only a notification or a poll finds more. */
  let drained = false;
  let isReady = false;
  const drain = new AbortController();
  // Every run under way listens.
  setMaxListeners(0, drain.signal);

  const begin = (run: ClaimedRun): void => {
    const lease: Lease = { ...run, owner: options.owner };
    const abort = new AbortController();
    // By attempt: a run that this process lost may come back to it while the lost attempt is still ending.
    const key = `${run.runId}:${run.attempt}`;
    const done = options.execute(run, lease, { drain: drain.signal, abort: abort.signal }).finally(() => {
      active.delete(key);
      if (!drained) loop.wake();
    });
    active.set(key, { runId: run.runId, done, abort });
  };
  const tick = async (): Promise<number> => {
    const slots = options.concurrency - active.size;
    if (!isReady || slots <= 0 || drain.signal.aborted) return 0;
    const runs = await claimRuns(deps.db, { ...options, slots });
    drained = runs.length < slots;
    for (const run of runs) begin(run);
    return runs.length;
  };
  // Either nothing is left or no slot is free: no point in asking again at once.
  const loop = createLoop(deps, {
    name: "worker",
    tick: async () => (await tick(), 0),
    pollMs: options.pollMs,
    topics: ["runs"],
  });
  void options.ready.then(() => {
    isReady = true;
    loop.wake();
  });
  // A cancelled run is fenced off already; this only stops the work for nothing.
  const onCancel = (runId: string | undefined): void => {
    for (const run of active.values()) if (run.runId === runId) run.abort.abort(new Error("run cancelled"));
  };
  let unlisten = (): void => {};

  return {
    start() {
      unlisten = deps.notifier.listen("cancel", onCancel);
      loop.start();
    },
    async stop(graceMs) {
      drain.abort();
      await loop.stop();
      const ended = Promise.all([...active.values()].map((run) => run.done));
      const grace = new AbortController();
      await Promise.race([ended, deps.clock.sleep(graceMs, grace.signal)]);
      grace.abort();
      for (const run of active.values()) run.abort.abort(new Error("worker stopping"));
      await ended;
      unlisten();
    },
    tick,
    active: () => active.size,
  };
}
