// The one place that builds the parts and wires them. No behaviour: what happens is in the parts.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { v7 as uuidv7 } from "uuid";
import { createApp } from "./api/app.js";
import { serveApi, type ApiServer } from "./api/server.js";
import { openBodyStore } from "./bodies/open.js";
import type { Clock } from "./core/clock.js";
import type { Deps, Log } from "./core/deps.js";
import { DEFAULT_TENANT, type Ids } from "./core/ids.js";
import { createNotifier } from "./db/listen.js";
import { openDb } from "./db/pool.js";
import type { Engine } from "./engine/engine.js";
import type { Graphs } from "./engine/graphs.js";
import { openStore, type GraphStore } from "./engine/store.js";

/** Time as this machine has it, for waiting only. */
export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) =>
    sleep(Math.min(ms, 2_147_483_647), undefined, signal === undefined ? {} : { signal }).catch((error: unknown) => {
      if (signal?.aborted !== true) throw error;
    }),
};

/** UUIDv7: sorts by the time it was made. */
export const uuidIds: Ids = { next: <T extends string>() => uuidv7() as T };

export type PartsOptions = Readonly<{
  databaseUrl: string;
  /** A direct connection for LISTEN; DATABASE_URL unless it is a pooler. */
  listenUrl?: string | null;
  bodies: string;
  s3ForcePathStyle?: boolean;
  /** Connections to Postgres at most. */
  dbPool?: number;
  log: Log;
  applicationName: string;
}>;

export type Parts = Readonly<{ deps: Deps; store: GraphStore; close(): Promise<void> }>;

/** Opens everything outside; nothing is connected before it is used. */
export function openParts(options: PartsOptions): Parts {
  const { databaseUrl, log, applicationName } = options;
  const db = openDb({ url: databaseUrl, max: options.dbPool ?? 10, log, applicationName });
  const clock = systemClock;
  const random = Math.random;
  const notifier = createNotifier({ db, listenUrl: options.listenUrl ?? databaseUrl, log, clock, random });
  const s3 = options.s3ForcePathStyle === undefined ? {} : { s3: { forcePathStyle: options.s3ForcePathStyle } };
  const bodies = openBodyStore(options.bodies, s3);
  const store = openStore(databaseUrl, { log });
  return {
    deps: { db, bodies, notifier, clock, ids: uuidIds, log, random },
    store,
    async close() {
      await notifier.close();
      await Promise.all([db.close(), bodies.close(), store.close()]);
    },
  };
}

/** What the doors get. There is one tenant for now, and every request is its. */
export function createEngine(deps: Deps, graphs: Graphs): Engine {
  return { deps, graphs, tenantOf: () => Promise.resolve(DEFAULT_TENANT) };
}

/** The API on a port. */
export function listenApi(engine: Engine, address: Readonly<{ host: string; port: number }>): Promise<ApiServer> {
  return serveApi(createApp(engine), address);
}

/** Who claims: unique per process start, so that no fence is made twice. */
export function newOwner(): string {
  return `${hostname()}/${process.pid}/${randomUUID().slice(0, 8)}`;
}
