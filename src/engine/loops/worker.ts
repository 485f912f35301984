// The worker: fetches runs for its free slots, starts them, and hands them back when it must stop. It knows no graph.
import { AsyncResource } from "node:async_hooks";
import { setMaxListeners } from "node:events";
import type { Lease } from "../../core/clock.js";
import type { Deps } from "../../core/deps.js";
import { isTransientDbError } from "../../core/retry.js";
import { claimRuns, type ClaimedRun, type ConfiguredLimits, returnUnknownClaims } from "../../runs/claim.js";
import type { Fill, Slots } from "../slots.js";
import { createLoop } from "./loop.js";

export type Signals = Readonly<{
  /** Asks it to stop at the next checkpoint. */
  drain: AbortSignal;
  /** At once. */
  abort: AbortSignal;
  /** To be told when it only waits for another run, and by what is returned that it doesn't any more: meanwhile it takes no slot. */
  rest?: (() => () => void) | undefined;
}>;

/** What runs one claimed run to its end; never rejects. */
export type Execute = (run: ClaimedRun, lease: Lease, signals: Signals) => Promise<void>;

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
  /** How many runs may be executed at a time, over all workers, where the database doesn't say. */
  limits?: ConfiguredLimits;
  concurrency: number;
  leaseMs: number;
  pollMs: number;
  /** Resolves when leases will be kept; nothing is claimed before. */
  ready: Promise<void>;
  execute: Execute;
  /** Where others of the process find the free slots. */
  slots?: Slots;
}>;

/** `waits`: for how many runs it waits at the moment. */
type Active = { runId: string; attempt: number; done: Promise<void>; abort: AbortController; waits: number };

export function createWorker(deps: Deps, options: WorkerOptions): WorkerLoop {
  const active = new Map<string, Active>();
  /** The last claim left nothing that this worker may take: only a notification or a poll finds more. */
  let drained = false;
  let isReady = false;
  /** Slots that claims on their way may fill. */
  let reserved = 0;
  const claiming = new Set<Promise<unknown>>();
  /** A claim failed and may have been done: until that is put right, no run is claimed. */
  let unsure = false;
  // Whoever fills a slot may itself be part of a run, or of a request: none of that is the new one's.
  const execute = AsyncResource.bind(options.execute);
  const drain = new AbortController();
  // Every run under way listens.
  setMaxListeners(0, drain.signal);

  const begin = (run: ClaimedRun): void => {
    const lease: Lease = { ...run, owner: options.owner };
    const { runId, attempt } = run;
    const abort = new AbortController();
    // By attempt: a run that this process lost may come back to it while the lost attempt is still ending.
    const key = `${runId}:${attempt}`;
    const begun: Active = { runId, attempt, done: Promise.resolve(), abort, waits: 0 };
    active.set(key, begun);
    const rest = () => resting(begun);
    begun.done = execute(run, lease, { drain: drain.signal, abort: abort.signal, rest }).finally(() => {
      active.delete(key);
      if (!drained) loop.wake();
    });
  };
  /** Else runs that wait for others could take all the slots that those need. */
  const resting = (run: Active): (() => void) => {
    run.waits += 1;
    if (!drained) loop.wake();
    let isOver = false;
    return () => {
      if (!isOver) run.waits -= 1;
      isOver = true;
    };
  };
  const busySlots = (): number => [...active.values()].filter(({ waits }) => waits === 0).length;
  const freeSlots = (): number =>
    isReady && !unsure && !drain.signal.aborted ? options.concurrency - busySlots() - reserved : 0;
  const claimFor: Fill = async (max, by) => {
    const slots = Math.max(0, Math.min(max, freeSlots()));
    reserved += slots;
    const claim = by({ ...options, slots });
    claiming.add(claim);
    try {
      const runs = await claim;
      for (const run of runs) begin(run);
      return runs;
    } catch (error) {
      if (slots > 0 && isTransientDbError(error)) {
        unsure = true;
        loop.wake();
      }
      throw error;
    } finally {
      reserved -= slots;
      claiming.delete(claim);
    }
  };
  /** For others: they took a turn that was the loop's. */
  const fill: Fill = async (max, by) => {
    const runs = await claimFor(max, by);
    if (!drained && freeSlots() > 0) loop.wake();
    return runs;
  };
  /** What was claimed by a statement whose answer was lost would else wait for the end of its lease, and count as a crash. */
  const putRight = async (): Promise<void> => {
    await Promise.allSettled(claiming);
    const known = [...active.values()];
    const returned = await returnUnknownClaims(deps.db, { owner: options.owner, known });
    unsure = false;
    if (returned > 0) deps.log.info({ runs: returned }, "runs whose claim was not answered are pending again");
  };
  const tick = async (): Promise<number> => {
    if (unsure && !drain.signal.aborted) await putRight();
    const slots = freeSlots();
    if (slots <= 0) {
      drained = false;
      return 0;
    }
    const runs = await claimFor(slots, (claim) => claimRuns(deps.db, claim));
    drained = runs.length < slots;
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
  let leave: (() => void)[] = [];

  return {
    start() {
      leave = [deps.notifier.listen("cancel", onCancel), options.slots?.serve(fill) ?? (() => {})];
      loop.start();
    },
    async stop(graceMs) {
      drain.abort();
      await loop.stop();
      await Promise.allSettled(claiming);
      const ended = Promise.all([...active.values()].map((run) => run.done));
      const grace = new AbortController();
      await Promise.race([ended, deps.clock.sleep(graceMs, grace.signal)]);
      grace.abort();
      for (const run of active.values()) run.abort.abort(new Error("worker stopping"));
      await ended;
      if (unsure) await putRight().catch(() => undefined);
      for (const off of leave.splice(0)) off();
    },
    tick,
    active: () => active.size,
  };
}
