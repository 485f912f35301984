// A run that has killed a worker before is executed in a process of its own, so that it can't take its neighbours with it.
import type { ChildProcess } from "node:child_process";
import type { Lease } from "../../core/clock.js";
import type { Deps } from "../../core/deps.js";
import { linked } from "../../core/linked.js";
import { createPlaces, type Places } from "../../core/places.js";
import type { ClaimedRun } from "../../runs/claim.js";
import { noteKilled } from "../../runs/failures.js";
import type { Heartbeat } from "../heartbeat/heartbeat.js";
import type { Execute, Signals } from "../loops/worker.js";

/** What the worker says to the process: first the claim, later perhaps to stop. */
export type ToIsolated =
  | Readonly<{ kind: "execute"; run: ClaimedRun; lease: Lease }>
  | Readonly<{ kind: "drain" | "abort" }>;
/** What the process says once: it keeps the lease itself from now on. */
const HOLDING = "holding";
/** What it says when it only waits for another run, and when it doesn't any more. */
const RESTING = "resting";
const WORKING = "working";

type End = Readonly<{ how: string; killed: boolean }>;

/** Time to write the last word after an abort, before the process is killed. */
const ABORT_GRACE_MS = 5_000;

/** Such processes of a worker at a time: each has the memory of one, and connections of its own. */
const MAX_APART = 2;

/**
 * Executes in process what never crashed, and the others through `start`, which starts `receiveClaim` with a channel.
 * Such a process is killed by its run at worst: the lease is over then, as if a worker had died. When a machine dies, all of its
 * runs come at once: those that crashed once and find no place are executed in process, those that crashed again wait for one.
 */
export function isolateCrashed(
  deps: Deps,
  heartbeat: Heartbeat,
  inProcess: Execute,
  start: () => ChildProcess,
): Execute {
  const places = createPlaces(MAX_APART);
  return async (run, lease, signals) => {
    if (run.crashes === 0) return inProcess(run, lease, signals);
    if (!places.tryTake()) {
      if (run.crashes === 1) return inProcess(run, lease, signals);
      if (!(await waitForPlace(places, heartbeat, lease, signals))) return giveBack(inProcess, run, lease, signals);
    }
    try {
      await executeApart(deps, heartbeat, start, run, lease, signals);
    } finally {
      places.giveBack();
    }
  };
}

/** False when the lease is over, or the worker stops, before there is one. */
async function waitForPlace(places: Places, heartbeat: Heartbeat, lease: Lease, signals: Signals): Promise<boolean> {
  const waiting = linked(signals.abort);
  const stop = (): void => waiting.abort();
  signals.drain.addEventListener("abort", stop);
  if (signals.drain.aborted) stop();
  heartbeat.hold(lease, stop);
  const found = await places.take(waiting.signal);
  signals.drain.removeEventListener("abort", stop);
  return found;
}

/** An attempt that is over before its graph begins. */
function giveBack(inProcess: Execute, run: ClaimedRun, lease: Lease, { drain }: Signals): Promise<void> {
  return inProcess(run, lease, { drain, abort: AbortSignal.abort(new Error("no place was free in time")) });
}

async function executeApart(
  deps: Deps,
  heartbeat: Heartbeat,
  start: () => ChildProcess,
  run: ClaimedRun,
  lease: Lease,
  signals: Signals,
): Promise<void> {
  const child = start();
  const ended = new Promise<End>((resolve) => {
    child.once("exit", (code, signal) => resolve({ how: String(signal ?? code), killed: signal !== null }));
    child.once("error", (error) => resolve({ how: error.name, killed: false }));
  });
  let isAborted = false;
  const tell = (message: ToIsolated): void => {
    // It may have ended between our looking and our sending.
    if (child.connected) child.send(message, () => undefined);
  };
  const onDrain = (): void => tell({ kind: "drain" });
  const onAbort = (): void => {
    isAborted = true;
    tell({ kind: "abort" });
    setTimeout(() => child.kill("SIGKILL"), ABORT_GRACE_MS).unref();
  };
  // Until the process has come up the lease is kept here: starting may take longer than it lasts.
  heartbeat.hold(lease, onAbort);
  const waits: (() => void)[] = [];
  child.on("message", (message) => {
    if (message === HOLDING) heartbeat.release(lease);
    if (message === RESTING && signals.rest !== undefined) waits.push(signals.rest());
    if (message === WORKING) waits.pop()?.();
  });
  // Bytes do not cross: the process reads the request itself.
  tell({ kind: "execute", run: { ...run, request: null }, lease });
  signals.drain.addEventListener("abort", onDrain);
  signals.abort.addEventListener("abort", onAbort);
  if (signals.drain.aborted) onDrain();
  if (signals.abort.aborted) onAbort();
  const { how, killed } = await ended;
  heartbeat.release(lease);
  signals.drain.removeEventListener("abort", onDrain);
  signals.abort.removeEventListener("abort", onAbort);
  if (how === "0") return;
  const fields = { run_id: lease.runId, attempt: lease.attempt, crashes: run.crashes, ended: how };
  deps.log.warn(fields, "the process of an isolated run died");
  // Perhaps of the run; one that couldn't start died of something else, and its lease runs out.
  if (killed && !isAborted) {
    await noteKilled(deps.db, lease).catch(() => deps.log.warn(fields, "its lease will run out"));
  }
}

/** A claim as the process that executes it sees it. */
export type ReceivedClaim = Readonly<{
  run: ClaimedRun;
  lease: Lease;
  drain: AbortSignal;
  abort: AbortSignal;
  /** To be called when the lease is kept here. */
  holding(): void;
  rest: NonNullable<Signals["rest"]>;
}>;

/** The other side, in the process that was started: executes the one claim it is sent. It ends with the worker. */
export async function receiveClaim(execute: (claim: ReceivedClaim) => Promise<void>): Promise<void> {
  const drain = new AbortController();
  const abort = new AbortController();
  // A terminal signals the whole group; here only the worker says when to stop.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => undefined);
  const { run, lease } = await new Promise<Extract<ToIsolated, { kind: "execute" }>>((resolve, reject) => {
    process.on("message", (message: ToIsolated) => {
      if (message.kind === "execute") resolve(message);
      else if (message.kind === "drain") drain.abort();
      else abort.abort(new Error("stopped by the worker"));
    });
    process.once("disconnect", () => {
      const gone = new Error("the worker is gone");
      abort.abort(gone);
      reject(gone);
      // Whatever it waits for, as for a database that is away, it waits for nobody any more.
      setTimeout(() => process.exit(1), ABORT_GRACE_MS).unref();
    });
  });
  const tell = (what: string): void => void process.send?.(what);
  const rest = () => {
    tell(RESTING);
    return () => tell(WORKING);
  };
  await execute({ run, lease, drain: drain.signal, abort: abort.signal, holding: () => tell(HOLDING), rest });
}
