// An engine in the test's own process: real Postgres, real loops, graphs handed over as objects. Closes everything.
import { Client } from "@langchain/langgraph-sdk";
import { createApp } from "../../src/api/app.js";
import { composeLoops, type Running } from "../../src/compose-loops.js";
import {
  type ComposedEngine,
  composeEngine,
  type EngineSettings,
  openParts,
  prepareEngine,
} from "../../src/compose.js";
import type { Deps } from "../../src/core/deps.js";
import { policiesFrom, type RunPolicy } from "../../src/core/policy.js";
import type { Retention } from "../../src/core/retention.js";
import type { ThreadTtl } from "../../src/core/thread-ttl.js";
import { approvalDefaults, type ProjectApprovals } from "../../src/engine/approval-policy.js";
import { fireTimers } from "../../src/engine/commands/fire-timers.js";
import { sweepLostRuns } from "../../src/engine/commands/sweep-lost-runs.js";
import { storeFrom, type StoreOptions } from "../../src/engine/embeddings.js";
import { graphsFrom } from "../../src/engine/graphs.js";
import { tickMover } from "../../src/engine/loops/mover.js";
import { tellingOf } from "../../src/engine/telling.js";
import { createLog } from "../../src/observe/log.js";
import { installClock, moveClock, withMovableClock } from "../../src/testing/clock.js";
import { createTestDatabase, type TestDatabase } from "./database.js";

export type TestEngine = Readonly<{
  engine: ComposedEngine;
  deps: Deps;
  db: TestDatabase;
  app: App;
  /** The stock client, speaking to `app` without a port. */
  client: Client;
  /** An API over the same database that shares nothing with `app`, as another process has. */
  anotherApp(): App;
  /** Starts another worker of this process, with its own owner and heartbeat; or as that of the same process as the API. */
  startWorker(options?: Readonly<{ concurrency?: number; withApi?: boolean }>): Running;
  /** One round of each background loop. */
  sweep(): Promise<number>;
  fireTimers(): Promise<number>;
  move(): Promise<number>;
  /** With a movable clock: moves the database's on. */
  advance(byMs: number): Promise<void>;
}>;

export type EngineOptions = Readonly<{
  graphs: Readonly<Record<string, unknown>>;
  /** The database's clock can be moved. */
  movable?: boolean;
  /** Workers running from the start. */
  workers?: number;
  concurrency?: number;
  leaseMs?: number;
  pollMs?: number;
  /** `memory:` unless given. */
  bodies?: string;
  secretKey?: string;
  previews?: boolean;
  moveAfterMs?: number;
  /** Threads come over from there when they are touched. */
  adoptFrom?: string;
  adoptGraph?: string;
  retention?: Retention;
  threadTtl?: ThreadTtl;
  approvals?: ProjectApprovals;
  /** Everybody is let in unless given. */
  auth?: EngineSettings["auth"];
  identityHeaders?: boolean;
  policies?: Readonly<Record<string, Partial<RunPolicy>>>;
  maxRunningPerTenant?: number;
  webhookSecrets?: readonly string[];
  webhookPrivate?: boolean;
  store?: StoreOptions;
}>;

/** Runs `work` with an engine; stops the workers, closes every connection and drops the database afterwards. */
export async function withEngine<T>(options: EngineOptions, work: (engine: TestEngine) => Promise<T>): Promise<T> {
  const db = await createTestDatabase();
  const logLevel = process.env.PERDURE_TEST_LOG ?? "silent";
  const log = createLog(logLevel);
  const { bodies = "memory:", secretKey = null, adoptFrom = null, adoptGraph = null } = options;
  if (options.movable === true) await installClock(db.db);
  const databaseUrl = options.movable === true ? withMovableClock(db.url) : db.url;
  const parts = openParts({
    ...{ databaseUrl, bodies, secretKey, adoptFrom, log, applicationName: "test" },
    ...storeFrom(options.store ?? {}),
  });
  const { deps } = parts;
  const running: Running[] = [];
  const settings: EngineSettings = {
    databaseUrl,
    leaseMs: options.leaseMs ?? 5_000,
    pollMs: options.pollMs ?? 200,
    moveAfterMs: options.moveAfterMs ?? 0,
    maxBlockMs: 60_000,
    previews: options.previews ?? true,
    adoptGraph,
    retention: options.retention ?? null,
    threadTtl: options.threadTtl ?? null,
    approvals: approvalDefaults(options.approvals ?? {}),
    auth: options.auth ?? "open",
    identityHeaders: options.identityHeaders ?? false,
    policyOf: policiesFrom(options.policies ?? {}),
    maxRunningPerTenant: options.maxRunningPerTenant ?? null,
    webhookSecrets: options.webhookSecrets ?? [],
    webhookPrivate: options.webhookPrivate ?? false,
    logLevel,
  };
  try {
    const graphs = graphsFrom(options.graphs, settings);
    const engine = composeEngine(parts, graphs, settings);
    await prepareEngine(engine);
    const app = createApp(engine);
    const startWorker: TestEngine["startWorker"] = ({ concurrency, withApi = false } = {}) => {
      // An engine of its own: another owner, as another process has.
      const own = withApi ? engine : composeEngine(parts, graphs, settings);
      const [worker] = composeLoops(own, ["worker"], {
        concurrency: concurrency ?? options.concurrency ?? 10,
      }) as [Running];
      worker.start();
      running.push(worker);
      return worker;
    };
    for (let n = 0; n < (options.workers ?? 1); n += 1) startWorker();
    const client = new Client({ apiUrl: "http://perdure.test", callerOptions: { fetch: fetchOf(app), maxRetries: 0 } });
    return await work({
      engine,
      deps,
      db,
      app,
      client,
      anotherApp: () => createApp(composeEngine(parts, graphs, settings)),
      startWorker,
      sweep: () => sweepLostRuns(deps, settings),
      fireTimers: () => fireTimers(deps, tellingOf(engine)),
      move: () => tickMover(deps),
      async advance(byMs) {
        await moveClock(deps.db, byMs);
        await engine.clockOffset.refresh();
      },
    });
  } finally {
    for (const worker of running.reverse()) await worker.stop();
    await parts.close();
    await db.close();
  }
}

type App = ReturnType<typeof createApp>;

function fetchOf(app: App): typeof fetch {
  return async (input, init) => app.fetch(new Request(input, init));
}
