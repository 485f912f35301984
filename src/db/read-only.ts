// Another application's database, which we only look at. Each look is one read-only transaction with a snapshot of its own,
// so that nothing we send can write there; its settings travel with it, so that any pooler and any standby will do.
import pg from "pg";
import type { Log, Sql } from "../core/deps.js";
import { asConnectError, asDbError, breaksConnection } from "./errors.js";

export type ReadOnlyDb = Readonly<{
  /** Runs `work` in one read-only transaction: its statements see one state. Fails with pg's errors, `unavailable` or `config_invalid`. */
  look<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}>;

export type ReadOnlyOptions = Readonly<{
  url: string;
  /** Where unqualified names are found; nowhere else. */
  schema: string;
  /** Connections at most. */
  max: number;
  log: Log;
  applicationName: string;
}>;

const STATEMENT_MS = 120_000;

/** Opens a pool; it connects when first used. */
export function openReadOnlyDb({ url, schema, max, log, applicationName }: ReadOnlyOptions): ReadOnlyDb {
  const pool = new pg.Pool({
    connectionString: url,
    application_name: applicationName,
    max,
    keepAlive: true,
    idleTimeoutMillis: 30_000,
    connectionTimeoutMillis: 10_000,
    query_timeout: STATEMENT_MS + 5_000,
  });
  const lost = (error: Error & { code?: string }): void =>
    log.debug({ code: error.code ?? error.name }, "a connection to the database that is only read was lost");
  pool.on("error", lost);
  pool.on("connect", (client) => client.on("error", lost));
  const begin = `begin isolation level repeatable read read only;
    set local search_path = ${pg.escapeIdentifier(schema)};
    set local statement_timeout = ${STATEMENT_MS};
    set local idle_in_transaction_session_timeout = 60000;
    set local jit = off`;
  return {
    async look(work) {
      const client = await pool.connect().catch((error: unknown) => {
        throw asConnectError(error, url, "the address of the database to read");
      });
      let broken = false;
      try {
        await client.query(begin);
        const result = await work(sqlOf(client));
        await client.query("commit");
        return result;
      } catch (error) {
        broken = breaksConnection(error);
        if (!broken) await client.query("rollback").catch(() => (broken = true));
        throw asDbError(error);
      } finally {
        client.release(broken);
      }
    },
    close: () => pool.end(),
  };
}

function sqlOf(client: pg.PoolClient): Sql {
  return {
    async query<R extends object>(text: string, values: readonly unknown[] = []) {
      const { rows, rowCount } = await client.query<R & pg.QueryResultRow>(text, [...values]);
      return { rows, rowCount: rowCount ?? 0 };
    },
  };
}
