// An attempt under way: its lease, its signals, and the one way by which it stores.
import type { Lease } from "../../core/clock.js";
import { linked } from "../../core/linked.js";
import type { ClaimedRun } from "../../runs/claim.js";
import type { SettledCall } from "../../budgets/model-calls.js";
import { type Commit, emptyOp } from "../../checkpoint/ops.js";
import type { Combiner } from "../commit.js";
import type { Heartbeat } from "../heartbeat/heartbeat.js";
import type { Signals } from "../loops/worker.js";
import type { Outages } from "./outages.js";

export type Attempt = Readonly<{
  run: ClaimedRun;
  lease: Lease;
  /** Aborted: the lease is over, the run cancelled or the worker stopping. Nothing of the attempt may be stored any more. */
  over: AbortSignal;
  /** Ends the graph: `over`, or a failure of which the run still has to tell. */
  stop: AbortSignal;
  drain: AbortSignal;
  /** As `Signals` of the worker have it. */
  rest: Signals["rest"];
  fail: (why: unknown) => void;
  /** What ended the graph from outside, if something did: LangGraph may wrap or swallow what a saver throws. */
  failure: () => unknown;
  commit: Commit;
  /** What calls of models came to, for the next commit. */
  calls: SettledCall[];
  /** Stores them without one, when nothing else is to be stored. */
  settleCalls(): Promise<void>;
}>;

export function startAttempt(
  options: Readonly<{ heartbeat: Heartbeat; combiner: Combiner; outages: Outages }>,
  run: ClaimedRun,
  lease: Lease,
  signals: Signals,
): Attempt {
  const ending = linked(signals.abort);
  const over = ending.signal;
  const stopping = linked(over);
  const stop = stopping.signal;
  options.heartbeat.hold(lease, (why) => ending.abort(new Error(`lease ${why}`)));
  const send = options.combiner.forLease(lease, over);
  // One that waited before it began says with its first step nothing of what it waited for.
  let waited = run.provider !== null && run.begun;
  const calls: SettledCall[] = [];
  let failed: unknown;
  const fail = (why: unknown): void => {
    failed ??= why;
    stopping.abort(why);
  };
  return {
    run,
    lease,
    over,
    stop,
    drain: signals.drain,
    rest: signals.rest,
    fail,
    failure: () => failed,
    commit: (op) => {
      // What tasks store when they are cut off, half an answer taken with it, is not for the next attempt.
      if (stop.aborted) return Promise.reject(stop.reason as Error);
      const sent = send(op, calls.splice(0)).catch((error: unknown) => {
        fail(error);
        throw error;
      });
      if (!waited || !op.progress) return sent;
      waited = false;
      return sent.then(() => options.outages.over(run));
    },
    calls,
    settleCalls: async () => {
      if (calls.length > 0) await send(emptyOp(lease.threadId), calls.splice(0));
    },
  };
}
