// perdure/testing: an engine in a test's own process, on a real Postgres, with a clock that moves, crashes where they are wanted,
// models that say what was written down, and channels that people write in.
import { Client } from "@langchain/langgraph-sdk";
import { createApp } from "./api/app.js";
import { composeLoops, LOOPS } from "./compose-loops.js";
import {
  composeEngine,
  type ComposedEngine,
  type EngineSettings,
  openParts,
  type PartsOptions,
  prepareEngine,
} from "./compose.js";
import { readConfig } from "./config.js";
import { parseDuration } from "./core/duration.js";
import { EngineError } from "./core/errors.js";
import { policiesFrom, type RunPolicy } from "./core/policy.js";
import type { Retention } from "./core/retention.js";
import { migrateDatabase } from "./cli/migrate.js";
import { openDb } from "./db/pool.js";
import { approvalDefaults, type ProjectApprovals } from "./engine/approval-policy.js";
import { sweepLostRuns } from "./engine/commands/sweep-lost-runs.js";
import { storeFrom, type StoreOptions } from "./engine/embeddings.js";
import type { CrashPoint } from "./engine/executor/crash-points.js";
import { graphsFrom } from "./engine/graphs.js";
import { createLog } from "./observe/log.js";
import { installClock, moveClock, readClock, withMovableClock } from "./testing/clock.js";
import type { StandIn } from "./testing/channels/stand-in.js";
import { connectStandIn, type ConnectOptions } from "./testing/connect.js";
import { createCrashes } from "./testing/crashes.js";
import { type Answer, answerWith, type OpenQuestion, openQuestionsOf } from "./testing/questions.js";
import { endLease, eventsOf, type LoggedEvent, waitUntilIdle } from "./testing/rest.js";
import { createDatabase } from "./testing/server.js";

export type { CrashPoint } from "./engine/executor/crash-points.js";
export { type ChannelContract, channelContract, type ContractCheck } from "./testing/channel-contract.js";
export * from "./testing/channels.js";
export type { ConnectOptions } from "./testing/connect.js";
export type { Answer, OpenQuestion } from "./testing/questions.js";
export type { LoggedEvent } from "./testing/rest.js";
export { type Reply, scriptedModel, ScriptedModel, type Step } from "./testing/scripted-model.js";

export type TestEngineOptions = Readonly<{
  /** By id: compiled or not, agents, entrypoints, or functions that make one. */
  graphs: Readonly<Record<string, unknown>>;
  /** A Postgres server where databases may be made; an embedded one unless given. */
  databaseUrl?: string;
  /** Runs executed at a time. */
  concurrency?: number;
  /** As `"perdure": {"approvals": …}` in langgraph.json. */
  approvals?: ProjectApprovals;
  /** How runs are treated when something goes wrong, by graph, as for `createPerdure`. */
  policies?: Readonly<Record<string, Partial<RunPolicy>>>;
  /** What is forgotten, and when; nothing is unless given. */
  retention?: Retention;
  /** How long items of the store stay, and what they are found by. */
  store?: StoreOptions;
  /** Where bodies live; in memory unless given. */
  bodies?: string;
  logLevel?: "debug" | "info" | "warn" | "error" | "silent";
}>;

export type TestEngine = Readonly<{
  /** The stock client, speaking to this engine without a port. */
  client: Client;
  /** Answers a request to the API. */
  fetch(request: Request): Promise<Response>;
  clock: Readonly<{
    /** Time that decides: the database's. */
    now(): Promise<Date>;
    /** Moves the clock on, by "6w", "3d", "12h", "90m" or milliseconds, and waits until all that became due by it is done. */
    advance(by: string | number): Promise<void>;
  }>;
  /**
   * Lets an assistant be reached over a stand-in, whose people then write to it. Resolves with the channel account's id.
   *
   * @example await engine.connect(telegram, { assistant: "agent" }); await telegram.says("hello"); await engine.idle();
   */
  connect(standIn: StandIn, options: ConnectOptions): Promise<string>;
  /** Waits until nothing runs, nothing may start, nothing is due and no message is on its way. Rejects after a minute, saying what is left. */
  idle(): Promise<void>;
  /**
   * The next attempt that comes to `point` for the `nth` time (1 unless given) dies there, as if its process had been killed. Its lease ends
   * at once and another attempt goes on. Resolves with the run when it has died.
   */
  crashAt(point: CrashPoint, nth?: number): Promise<Readonly<{ runId: string; attempt: number }>>;
  /** The open questions of a thread, oldest first. */
  questions(threadId: string): Promise<readonly OpenQuestion[]>;
  /** Answers the one open question of a thread in the shape it takes, and waits until the run that goes on has ended. */
  answer(
    threadId: string,
    answer: Answer,
    by?: Readonly<{ person?: string; roles?: readonly string[] }>,
  ): Promise<void>;
  /** The log of a run, in order. */
  events(runId: string): Promise<readonly LoggedEvent[]>;
  /** Stops everything and drops the database. */
  close(): Promise<void>;
}>;

/** Short, so that what dies is missed soon; the clock's moves end no lease, since nothing runs meanwhile. */
const LEASE_MS = 5_000;
const POLL_MS = 50;

/**
 * Starts an engine on a database of its own. An embedded Postgres takes two seconds, once for a process.
 *
 * @example
 * const engine = await createTestEngine({ graphs: { agent } });
 * const { thread_id } = await engine.client.threads.create();
 * await engine.client.runs.wait(thread_id, "agent", { input });
 * await engine.clock.advance("6w");
 * await engine.close();
 */
export async function createTestEngine(options: TestEngineOptions): Promise<TestEngine> {
  const log = createLog(options.logLevel ?? "silent");
  const database = await createDatabase(options.databaseUrl, log);
  try {
    await migrateDatabase(database.url, log);
    const db = openDb({ url: database.url, max: 1, log, applicationName: "perdure testing" });
    await installClock(db).finally(() => db.close());
    return await startEngine(options, withMovableClock(database.url), { log, drop: database.drop });
  } catch (error) {
    await database.drop();
    throw error;
  }
}

async function startEngine(
  options: TestEngineOptions,
  databaseUrl: string,
  { log, drop }: Pick<PartsOptions, "log"> & Readonly<{ drop(): Promise<void> }>,
): Promise<TestEngine> {
  const crashes = createCrashes();
  const { logLevel: _level, auth: _auth, ...defaults } = readConfig({});
  const settings: EngineSettings = {
    ...{ ...defaults, databaseUrl, leaseMs: LEASE_MS, pollMs: POLL_MS, moveAfterMs: 0, logLevel: "silent" },
    ...{
      retention: options.retention ?? null,
      auth: "open",
      identityHeaders: true,
      approvals: approvalDefaults(options.approvals ?? {}),
      crash: crashes.hook,
      policyOf: policiesFrom(options.policies ?? {}),
    },
  };
  const parts = openParts({
    databaseUrl,
    bodies: options.bodies ?? "memory:",
    ...storeFrom(options.store ?? {}),
    log,
    applicationName: "perdure testing",
  });
  const engine = composeEngine(parts, graphsFrom(options.graphs, settings), settings);
  await prepareEngine(engine);
  const loops = composeLoops(engine, LOOPS, {
    concurrency: options.concurrency ?? 10,
  });
  for (const loop of loops) loop.start();
  const close = async (): Promise<void> => {
    for (const loop of loops) await loop.stop();
    await parts.close();
    await drop();
  };
  return { ...handleOf(engine, settings, crashes), close };
}

function handleOf(
  engine: ComposedEngine,
  settings: EngineSettings,
  crashes: ReturnType<typeof createCrashes>,
): Omit<TestEngine, "close"> {
  const { deps } = engine;
  const app = createApp(engine);
  const fetch = async (request: Request): Promise<Response> => app.fetch(request);
  const ask: typeof globalThis.fetch = (input, init) => fetch(new Request(input, init));
  const idle = () => waitUntilIdle(deps.db);
  return {
    client: new Client({ apiUrl: "http://perdure.test", callerOptions: { fetch: ask, maxRetries: 0 } }),
    fetch,
    idle,
    connect: (standIn, options) => connectStandIn(standIn, options, { ask, now: () => readClock(deps.db) }),
    clock: {
      now: () => readClock(deps.db),
      async advance(by) {
        const byMs = durationMs(by);
        // What runs now has a lease, which a jump would end.
        await idle();
        await moveClock(deps.db, byMs);
        await engine.clockOffset.refresh();
        deps.notifier.notify("timers");
        deps.notifier.notify("deliveries");
        await idle();
      },
    },
    async crashAt(point, nth = 1) {
      const dead = await crashes.next(point, nth);
      await endLease(deps.db, dead);
      await sweepLostRuns(deps, settings);
      return { runId: dead.runId, attempt: dead.attempt };
    },
    questions: (threadId) => openQuestionsOf(ask, threadId),
    async answer(threadId, answer, by = {}) {
      await answerWith(ask, threadId, answer, by);
      await idle();
    },
    events: (runId) => eventsOf(deps.db, runId),
  };
}

function durationMs(by: string | number): number {
  const ms = typeof by === "number" ? by : parseDuration(by);
  if (ms !== undefined && Number.isFinite(ms) && ms >= 0) return ms;
  throw new EngineError(
    "bad_request",
    `clock.advance: ${JSON.stringify(by)} is no length of time; write "6w", "12h" or milliseconds`,
  );
}
