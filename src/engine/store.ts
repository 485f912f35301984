// The store that graphs get (`config.store`) and the API serves: LangGraph's own PostgresStore in the schema perdure_store, a part for each
// tenant.
import type { Operation, OperationResults } from "@langchain/langgraph-checkpoint";
import { PostgresStore, type PostgresStoreConfig } from "@langchain/langgraph-checkpoint-postgres/store";
import type { Clock } from "../core/clock.js";
import type { Log, Sql } from "../core/deps.js";
import type { TenantId } from "../core/ids.js";
import { asDbError } from "../db/errors.js";
import { retryTransient } from "../db/retry-transient.js";
import type { StoreTtl } from "./langgraph-json.js";
import { TenantStore } from "./tenant-store.js";

const STORE_SCHEMA = "perdure_store";

export type GraphStore = Readonly<{
  /** What is handed to a tenant's graphs and requests. */
  of(tenantId: TenantId): TenantStore;
  close(): Promise<void>;
}>;

type StoreOptions = Readonly<{ sql: Sql; log: Log; clock: Clock; random: () => number; ttl: StoreTtl | null }>;

/** How long a graph's use of the store waits for a database that is away. */
const PATIENCE_MS = 60_000;

/** Opens the store; connects when it is first used. Its tables are made by `setupStore`. */
export function openStore(url: string, options: StoreOptions): GraphStore {
  const { log, ttl, sql } = options;
  const store = new PatientStore(
    { ...configOf(url, 4), ...(ttl?.defaultTtl && { ttl: { defaultTtl: ttl.defaultTtl } }) },
    options,
  );
  surviveLostConnections(store, log);
  const sweep = sweepExpired(store, ttl?.sweepIntervalMinutes ?? 60, log);
  const parts = {
    batch: (operations: Operation[]) => store.batch(operations),
    sql,
    refreshOnRead: ttl?.refreshOnRead ?? true,
  };
  return {
    of: (tenantId) => new TenantStore(tenantId, parts),
    close: async () => {
      clearInterval(sweep);
      await store.stop();
    },
  };
}

/** Graphs use it by batches, whose operations may all be repeated: reads, and puts of one value under one key. */
class PatientStore extends PostgresStore {
  constructor(
    config: PostgresStoreConfig,
    private readonly patience: Pick<StoreOptions, "clock" | "random">,
  ) {
    super(config);
  }

  override batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    const attempt = async () => {
      try {
        return await super.batch(operations);
      } catch (error) {
        // LangGraph hands on the driver's errors, which have no code when a connection breaks.
        throw asDbError(error);
      }
    };
    return retryTransient(attempt, { ...this.patience, deadlineMs: PATIENCE_MS });
  }
}

function configOf(url: string, max: number): PostgresStoreConfig {
  const connectionOptions = { connectionString: url, max, application_name: "perdure store" };
  return { connectionOptions, schema: STORE_SCHEMA, ensureTables: false };
}

/** Makes the store's schema and tables, or brings them up to date. */
export async function setupStore(url: string): Promise<void> {
  const store = new PostgresStore(configOf(url, 1));
  surviveLostConnections(store, null);
  try {
    await store.setup();
  } finally {
    await store.stop();
  }
}

// A connection that Postgres closes emits "error", idle or checked out; without a listener that ends the process.
function surviveLostConnections(store: PostgresStore, log: Log | null): void {
  type Emitter = { on(event: string, listener: (argument: unknown) => void): void };
  // The pool is private in LangGraph's class and there is no option for a listener.
  const { pool } = (store as unknown as { core: { pool: Emitter } }).core;
  const onError = (error: unknown) =>
    log?.warn({ code: String((error as { code?: unknown }).code ?? "") }, "the store lost a connection to Postgres");
  pool.on("error", onError);
  pool.on("connect", (client) => {
    (client as Emitter).on("error", () => undefined);
  });
}

// LangGraph's own sweeper only starts with its setup, which is `migrate`'s here.
function sweepExpired(store: PostgresStore, minutes: number, log: Log): NodeJS.Timeout {
  const sweep = () => {
    store.sweepExpiredItems().catch((error: unknown) => {
      log.warn({ code: String((error as { code?: unknown }).code ?? "") }, "expired store items could not be deleted");
    });
  };
  return setInterval(sweep, minutes * 60_000).unref();
}
