// Keeps leases alive and says when one is over: lost to another attempt, or not renewed in time (database out of reach).
import { Worker } from "node:worker_threads";
import type { Clock, Lease } from "../../core/clock.js";
import type { Log } from "../../core/deps.js";
import type { Change, HeartbeatData, ToMain, ToThread } from "./messages.js";

export type Heartbeat = Readonly<{
  /** Resolves when leases are really renewed: the thread has started and reached the database. */
  ready: Promise<void>;
  /** Renews the lease until `release`; calls back once, when it is lost or can't be renewed before it ends. */
  hold(lease: Lease, onOver: (why: "lost" | "unreachable") => void): void;
  release(lease: Lease): void;
  stop(): Promise<void>;
}>;

export type HeartbeatOptions = Readonly<{
  databaseUrl: string;
  owner: string;
  leaseMs: number;
  maxBlockMs: number;
  logLevel: string;
}>;

const TICK_MS = 250;

/** A thread that dies at once is not started again in a hot loop. */
const RESTART_MS = 1_000;

type Held = { lease: Lease; renewedAt: number; onOver: (why: "lost" | "unreachable") => void };

/** Starts the thread. The lease is over for us 10 % before it is over in the database: nobody else can have it yet. */
export function startHeartbeat(clock: Clock, log: Log, options: HeartbeatOptions): Heartbeat {
  const ticks = new SharedArrayBuffer(8);
  const lastTick = new BigInt64Array(ticks);
  Atomics.store(lastTick, 0, process.hrtime.bigint());
  const workerData: HeartbeatData = { ...options, ticks, everyMs: Math.max(50, Math.floor(options.leaseMs / 4)) };
  const held = new Map<string, Held>();
  let stopped: Promise<void> | undefined;
  let onReady = (): void => {};
  const ready = new Promise<void>((resolve) => (onReady = resolve));

  const over = (runId: string, why: "lost" | "unreachable"): void => {
    const run = held.get(runId);
    held.delete(runId);
    run?.onOver(why);
  };
  const hear = (message: ToMain): void => {
    if (message.kind === "ready") return onReady();
    if (message.kind === "lost") {
      if (held.get(message.runId)?.lease.attempt === message.attempt) over(message.runId, "lost");
      return;
    }
    // The lease counts from when the renewal was sent, not from when its reply was read.
    const age = Number(process.hrtime.bigint() - message.sentAt) / 1e6;
    for (const runId of message.runIds) {
      const run = held.get(runId);
      if (run !== undefined) run.renewedAt = Math.max(run.renewedAt, clock.monotonicMs() - age);
    }
  };
  const send = (message: ToThread): void => thread.postMessage(message);
  /** What changes in one go is told in one go, and before anything else has its turn: it may block the event loop. */
  let changes: Change[] = [];
  const change = (one: Change): void => {
    if (changes.length === 0) {
      queueMicrotask(() => {
        send({ kind: "changes", changes });
        changes = [];
      });
    }
    changes.push(one);
  };
  const sendHold = ({ tenantId, runId, attempt }: Lease): void =>
    change({ kind: "hold", run: { tenantId, runId, attempt } });
  const startThread = (): Worker => {
    const started = new Worker(threadUrl(), { workerData });
    started.on("message", hear);
    started.on("error", (error) =>
      log.error({ error: error.name }, "the heartbeat thread died; another one is started"),
    );
    started.on("exit", () => {
      if (stopped !== undefined) return;
      setTimeout(() => {
        if (stopped !== undefined) return;
        thread = startThread();
        for (const { lease } of held.values()) sendHold(lease);
      }, RESTART_MS);
    });
    return started;
  };
  let thread = startThread();

  const judge = (): void => {
    const now = clock.monotonicMs();
    for (const [runId, run] of held) if (now - run.renewedAt > options.leaseMs * 0.9) over(runId, "unreachable");
  };
  const timer = setInterval(() => {
    Atomics.store(lastTick, 0, process.hrtime.bigint());
    // After a blocked event loop, timers come before the messages that say the leases were renewed meanwhile.
    setImmediate(judge);
  }, TICK_MS);

  return {
    ready,
    hold(lease, onOver) {
      const earlier = held.get(lease.runId);
      held.set(lease.runId, { lease, renewedAt: clock.monotonicMs(), onOver });
      sendHold(lease);
      // Lost, swept and claimed again by this very process, before a beat could find out.
      earlier?.onOver("lost");
    },
    release({ runId, attempt }) {
      if (held.get(runId)?.lease.attempt === attempt) held.delete(runId);
      // Also when it was over for us before: the thread may have reached the database again.
      change({ kind: "drop", runId, attempt });
    },
    stop() {
      if (stopped !== undefined) return stopped;
      clearInterval(timer);
      const isGone = thread.threadId === -1;
      stopped = isGone ? Promise.resolve() : new Promise((resolve) => thread.once("exit", () => resolve()));
      send({ kind: "stop" });
      return stopped;
    },
  };
}

/** Beside this file once built; tests run from source and use the built thread. */
function threadUrl(): URL {
  const here = import.meta.url;
  return new URL(here.endsWith(".ts") ? "../../../dist/engine/heartbeat/thread.js" : "./thread.js", here);
}
