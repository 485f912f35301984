// The store that graphs get (`config.store`) and the API serves: LangGraph's own PostgresStore in the schema perdure_store, a part for each
// tenant.
import type { Operation, OperationResults } from "@langchain/langgraph-checkpoint";
import { PostgresStore, type PostgresStoreConfig } from "@langchain/langgraph-checkpoint-postgres/store";
import type { Clock } from "../core/clock.js";
import type { Log, Sql } from "../core/deps.js";
import type { TenantId } from "../core/ids.js";
import { asDbError } from "../db/errors.js";
import { retryTransient } from "../db/retry-transient.js";
import { setUpVectors } from "../items/setup.js";
import type { StoreIndex } from "./store-index.js";
import type { StoreTtl } from "./store-json.js";
import { TenantStore } from "./tenant-store.js";

const STORE_SCHEMA = "perdure_store";

export type GraphStore = Readonly<{
  /** What it is indexed by; null: by nothing. */
  index: StoreIndex | null;
  /** What is handed to a tenant's graphs and requests. */
  of(tenantId: TenantId): TenantStore;
  /** Deletes what has expired. */
  sweep(): Promise<void>;
  close(): Promise<void>;
}>;

type StoreOptions = Readonly<{
  sql: Sql;
  log: Log;
  clock: Clock;
  random: () => number;
  ttl: StoreTtl | null;
  index: StoreIndex | null;
}>;

/** How long a graph's use of the store waits for a database that is away. */
const PATIENCE_MS = 60_000;
const SWEEP_MINUTES = 60;

/** Opens the store; connects when it is first used. Its tables are made by `setupStore`. */
export function openStore(url: string, options: StoreOptions): GraphStore {
  const { log, ttl, index } = options;
  const store = new PatientStore(
    { ...configOf(url, 4), ...(ttl?.defaultTtl && { ttl: { defaultTtl: ttl.defaultTtl } }) },
    options,
  );
  surviveLostConnections(store, log);
  // LangGraph's own sweeper only starts with its setup, which is `migrate`'s here. Items can expire without a default for all of them.
  const sweep = async (): Promise<void> => void (await store.sweepExpiredItems());
  const sweeping = repeat(sweep, ttl?.sweepIntervalMinutes ?? SWEEP_MINUTES, log);
  const parts = {
    batch: (operations: Operation[]) => store.batch(operations),
    sql: patient(options),
    refreshOnRead: ttl?.refreshOnRead ?? true,
    defaultTtl: ttl?.defaultTtl ?? null,
    index,
  };
  return {
    index,
    of: (tenantId) => new TenantStore(tenantId, parts),
    sweep,
    close: async () => {
      clearInterval(sweeping);
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

/** The statements of ours are of the same kind. */
function patient({ sql, clock, random }: StoreOptions): Sql {
  const options = { clock, random, deadlineMs: PATIENCE_MS };
  return { query: (text, values, query) => retryTransient(() => sql.query(text, values, query), options) };
}

function configOf(url: string, max: number): PostgresStoreConfig {
  const connectionOptions = { connectionString: url, max, application_name: "perdure store" };
  return { connectionOptions, schema: STORE_SCHEMA, ensureTables: false };
}

/** Makes the store's schema and tables, or brings them up to date; `sql` is where the migrations are made. */
export async function setupStore(url: string, sql: Sql): Promise<void> {
  await setUpTables(url);
  await setUpVectors(sql);
}

async function setUpTables(url: string): Promise<void> {
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

function repeat(sweep: () => Promise<void>, minutes: number, log: Log): NodeJS.Timeout {
  const round = () => {
    sweep().catch((error: unknown) => {
      log.warn({ code: String((error as { code?: unknown }).code ?? "") }, "expired store items could not be deleted");
    });
  };
  return setInterval(round, minutes * 60_000).unref();
}
