// The store graphs get (`config.store`): LangGraph's own PostgresStore in the schema perdure_store.
import { PostgresStore } from "@langchain/langgraph-checkpoint-postgres/store";
import type { Log } from "../core/deps.js";
import type { StoreTtl } from "./langgraph-json.js";

export const STORE_SCHEMA = "perdure_store";

export type GraphStore = Readonly<{
  /** What is handed to graphs. */
  store: PostgresStore;
  close(): Promise<void>;
}>;

type StoreOptions = Readonly<{ log?: Log | undefined; ttl?: StoreTtl | null | undefined; max?: number | undefined }>;

/** Opens the store; connects when it is first used. Its tables are made by `setupStore`. */
export function openStore(url: string, options: StoreOptions = {}): GraphStore {
  const store = new PostgresStore({
    connectionOptions: { connectionString: url, max: options.max ?? 4, application_name: "perdure store" },
    schema: STORE_SCHEMA,
    ensureTables: false,
    ...(options.ttl ? { ttl: ttlConfig(options.ttl) } : {}),
  });
  surviveLostConnections(store, options.log);
  const sweep = options.ttl ? sweepExpired(store, options.ttl.sweepIntervalMinutes ?? 60, options.log) : undefined;
  return {
    store,
    close: async () => {
      clearInterval(sweep);
      await store.stop();
    },
  };
}

/** Makes the store's schema and tables, or brings them up to date. */
export async function setupStore(url: string): Promise<void> {
  const { store, close } = openStore(url, { max: 1 });
  try {
    await store.setup();
  } finally {
    await close();
  }
}

// A connection that Postgres closes emits "error", idle or checked out; without a listener that ends the process.
function surviveLostConnections(store: PostgresStore, log: Log | undefined): void {
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
function sweepExpired(store: PostgresStore, minutes: number, log: Log | undefined): NodeJS.Timeout {
  const sweep = () => {
    store.sweepExpiredItems().catch((error: unknown) => {
      log?.warn({ code: String((error as { code?: unknown }).code ?? "") }, "expired store items could not be deleted");
    });
  };
  return setInterval(sweep, minutes * 60_000).unref();
}

function ttlConfig(ttl: StoreTtl): { defaultTtl?: number; refreshOnRead?: boolean } {
  return {
    ...(ttl.defaultTtl === undefined ? {} : { defaultTtl: ttl.defaultTtl }),
    ...(ttl.refreshOnRead === undefined ? {} : { refreshOnRead: ttl.refreshOnRead }),
  };
}
