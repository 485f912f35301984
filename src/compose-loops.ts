// Builds the loops of a process, and what executes runs: in a worker, and in a process that one has started for a single claim.
import type { ChildProcess } from "node:child_process";
import { createPost } from "./engine/post.js";
import { tellingOf } from "./engine/telling.js";
import { createDeliverer } from "./engine/loops/deliverer.js";
import { createReceiver } from "./engine/loops/receiver.js";
import { createSettler } from "./engine/commands/settle-run.js";
import { dyingAt, dyingWhenClaimed } from "./engine/executor/crash-points.js";
import { isolateCrashed, receiveClaim } from "./engine/executor/isolated.js";
import { createExecutor } from "./engine/executor/execute.js";
import type { Graphs } from "./engine/graphs.js";
import { type Heartbeat, startHeartbeat } from "./engine/heartbeat/heartbeat.js";
import { createIndexer } from "./engine/loops/indexer.js";
import { createLoop } from "./engine/loops/loop.js";
import { createMover } from "./engine/loops/mover.js";
import { createPruner } from "./engine/loops/pruner.js";
import { createScheduler } from "./engine/loops/scheduler.js";
import { createSweeper } from "./engine/loops/sweeper.js";
import { createWorker, type Execute } from "./engine/loops/worker.js";
import { createStreamAppender } from "./engine/stream/sink.js";
import { preview } from "./observe/preview.js";
import type { ConfiguredLimits } from "./runs/claim.js";
import { type ComposedEngine, composeEngine, type EngineSettings, type Parts } from "./compose.js";

export const DEFAULT_CONCURRENCY = 10;
const CLOCK_MS = 60_000;
/** How long runs may take to reach a checkpoint when their worker stops, before they are cut off. */
const DRAIN_MS = 10_000;
/** In so long the heartbeat's thread has started; a shorter lease could be over before, and isn't taken until it has. */
const STARTING_MS = 5_000;

export const LOOPS = ["worker", "scheduler", "deliverer", "receiver", "mover", "sweeper", "pruner", "indexer"] as const;
export type LoopName = (typeof LOOPS)[number];
export type Running = Readonly<{ start(): void; stop(): Promise<void> }>;

export type WorkerOptions = Readonly<{
  /** Runs executed at a time. */
  concurrency: number;
  /** Starts a process that calls `executeClaim`, for runs that killed a worker before; without it they run here too. */
  startIsolated?: () => ChildProcess;
}>;

/** The loops of a process, to be started. */
export function composeLoops(engine: ComposedEngine, names: readonly LoopName[], options: WorkerOptions): Running[] {
  return names.map((name) => {
    switch (name) {
      case "worker":
        return composeWorker(engine, options);
      case "scheduler":
        return createScheduler(engine.deps, { ...engine.settings, telling: tellingOf(engine) });
      case "deliverer":
        return createDeliverer(engine.deps, {
          ...engine.settings,
          accounts: engine.accounts,
          owner: engine.edits.owner,
        });
      case "receiver":
        return createReceiver(engine, { ...engine.settings, owner: engine.edits.owner });
      case "mover":
        return createMover(engine.deps, engine.settings);
      case "sweeper":
        return createSweeper(engine.deps, engine.settings);
      case "pruner":
        return createPruner(engine.deps, { ...engine.settings, owner: engine.edits.owner });
      case "indexer":
        return createIndexer(engine.deps, engine.store.index);
    }
  });
}

/** What executes claims of the engine's owner, with the heartbeat that keeps their leases. */
function composeExecutor(engine: ComposedEngine): Readonly<{ execute: Execute; heartbeat: Heartbeat }> {
  const { deps, graphs, settings, edits, bodyReader, handover, store, clockOffset } = engine;
  const { owner } = edits;
  const { databaseUrl, leaseMs, maxBlockMs, logLevel, crash } = settings;
  const heartbeat = startHeartbeat(deps.clock, deps.log, { databaseUrl, owner, leaseMs, maxBlockMs, logLevel });
  const settle = createSettler(deps, {
    moveAfterMs: settings.moveAfterMs,
    limited: isLimited(limitsOf(engine)),
    onEnd: (outcome) => engine.meters.attemptEnded(outcome),
    preview: ({ type, message }) => (settings.previews ? preview(`${type}: ${message}`) : null),
  });
  const stores = { combiner: edits.combiner, settle };
  const execute = createExecutor(deps, {
    ...(crash === undefined ? stores : dyingAt(crash, stores)),
    graphs,
    policyOf: settings.policyOf,
    heartbeat,
    bodyReader,
    handover,
    storeOf: store.of,
    moveAfterMs: settings.moveAfterMs,
    approvals: engine.approvals,
    followups: engine.followups,
    appendStream: createStreamAppender(deps),
    live: engine.streams.live,
    post: createPost(deps, engine.accounts),
    clockOffsetMs: clockOffset.ms,
  });
  return { execute: crash === undefined ? execute : dyingWhenClaimed(crash, execute), heartbeat };
}

/** In a process that a worker started: executes the one claim it is sent, with that worker's lease. */
export async function executeClaim(
  parts: Parts,
  graphs: Graphs,
  settings: EngineSettings,
  openInside: (engine: ComposedEngine) => () => void,
): Promise<void> {
  await receiveClaim(async (claim) => {
    const engine = composeEngine(parts, graphs, settings, claim.lease.owner);
    await engine.clockOffset.refresh();
    const { execute, heartbeat } = composeExecutor(engine);
    const close = openInside(engine);
    // The worker keeps the lease until it can be kept here.
    await heartbeat.ready;
    const executed = execute(claim.run, claim.lease, claim);
    claim.holding();
    await executed;
    await heartbeat.stop();
    close();
  });
}

function limitsOf({ graphs, settings }: ComposedEngine): ConfiguredLimits {
  const ofGraphs = graphs.ids.map((graphId) => settings.policyOf(graphId).maxRunning);
  return { graphs: ofGraphs, tenant: settings.maxRunningPerTenant ?? null };
}

function isLimited({ graphs, tenant }: ConfiguredLimits): boolean {
  return [...graphs, tenant].some((max) => max !== null);
}

function composeWorker(engine: ComposedEngine, { concurrency, startIsolated }: WorkerOptions): Running {
  const { deps, graphs, settings, slots, clockOffset } = engine;
  const { owner, leaseMs } = engine.edits;
  const { execute: inProcess, heartbeat } = composeExecutor(engine);
  const execute = startIsolated === undefined ? inProcess : isolateCrashed(deps, heartbeat, inProcess, startIsolated);
  const worker = createWorker(deps, {
    ...settings,
    owner,
    graphIds: graphs.ids,
    versions: graphs.ids.map(graphs.version),
    limits: limitsOf(engine),
    concurrency,
    ready: leaseMs < STARTING_MS ? heartbeat.ready : Promise.resolve(),
    execute,
    slots,
  });
  const clock = createLoop(deps, {
    name: "clock",
    pollMs: CLOCK_MS,
    tick: async () => (await clockOffset.refresh(), 0),
  });
  return {
    start() {
      worker.start();
      clock.start();
    },
    async stop() {
      await Promise.all([worker.stop(DRAIN_MS), clock.stop()]);
      await heartbeat.stop();
    },
  };
}
