// The pool: the only way to Postgres, apart from the listener's one connection. A connection that breaks, is ended by
// the server or leads to a read-only server is dropped; one statement's error is not the connection's.
import pg from "pg";
import type { Db, Log, QueryOptions, QueryResult, Sql } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { asConnectError, asDbError, breaksConnection } from "./errors.js";
import { PreparedStatements } from "./prepared.js";
import {
  beginWithSettings,
  clientConfig,
  probe,
  queryWithSettings,
  refusesOptions,
  type SessionMode,
  type SessionOptions,
} from "./session.js";

export type DbOptions = Readonly<{
  url: string;
  /** Connections at most. */
  max: number;
  log: Log;
  applicationName: string;
  /** Per statement; 0 for none. */
  statementTimeoutMs?: number;
}>;

/** Opens a pool; it connects when first used. It fails with pg's errors (SQLSTATE in `code`), `unavailable` or `config_invalid`. */
export function openDb(options: DbOptions): Db {
  const { url, applicationName, statementTimeoutMs = 30_000 } = options;
  const connections = new Connections({ url, applicationName, statementTimeoutMs }, options.max, options.log);
  return {
    query: (text, values, query) => connections.use((connection) => connection.single(text, values, query)),
    tx: (work) => connections.use((connection) => transaction(connection, work)),
    close: () => connections.close(),
  };
}

/** Runs the work between begin and commit; the connection is known to be ours alone. */
async function transaction<T>(connection: Connection, work: (sql: Sql) => Promise<T>): Promise<T> {
  let open = true;
  const sql: Sql = {
    query: async (text, values, query) => {
      if (!open) throw new EngineError("internal", "A statement was sent to a transaction that had ended.");
      return connection.plain(text, values, query);
    },
  };
  await connection.begin();
  try {
    const result = await work(sql);
    open = false;
    await connection.commit();
    return result;
  } catch (error) {
    open = false;
    await connection.rollback();
    throw error;
  }
}

class Connections {
  private readonly pool: pg.Pool;
  private readonly modes = new WeakMap<pg.PoolClient, SessionMode>();
  private readonly prepared = new PreparedStatements();
  private optionsRefused = false;
  private closing: Promise<void> | undefined;

  constructor(
    private readonly session: SessionOptions,
    max: number,
    log: Log,
  ) {
    const config = (): pg.ClientConfig => clientConfig(session, { withSettings: !this.optionsRefused });
    class SessionClient extends pg.Client {
      constructor() {
        super(config());
      }
    }
    this.pool = new pg.Pool({ max, idleTimeoutMillis: 30_000, connectionTimeoutMillis: 10_000, Client: SessionClient });
    const lost = (error: Error & { code?: string }): void =>
      log.debug({ code: error.code ?? error.name }, "a connection to Postgres was lost");
    this.pool.on("error", lost);
    // The pool listens to idle clients only: without this, a backend killed in the middle of work ends the process.
    this.pool.on("connect", (client) => client.on("error", lost));
  }

  /** Gives the work a connection of its own; afterwards it goes back, or away when it can't be used again. */
  async use<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const client = await this.connect();
    const connection = new Connection(client, this.session, this.prepared, this.modes.get(client));
    try {
      if (connection.mode === undefined) this.modes.set(client, await connection.learnMode());
      await connection.refreshPlans();
      return await work(connection);
    } finally {
      client.release(connection.broken);
    }
  }

  close(): Promise<void> {
    this.closing ??= this.pool.end();
    return this.closing;
  }

  private async connect(): Promise<pg.PoolClient> {
    if (this.closing)
      throw new EngineError("internal", "The database connections were closed; nothing more can be asked.");
    try {
      return await this.pool.connect();
    } catch (error) {
      if (this.optionsRefused || !refusesOptions(error)) throw asConnectError(error, this.session.url);
      this.optionsRefused = true;
      return this.connect();
    }
  }
}

/** One checked-out connection. It knows how its settings get to the server, and whether it can be used again. */
class Connection {
  broken = false;

  constructor(
    private readonly client: pg.PoolClient,
    private readonly session: SessionOptions,
    private readonly prepared: PreparedStatements,
    public mode: SessionMode | undefined,
  ) {}

  async learnMode(): Promise<SessionMode> {
    try {
      this.mode = await probe(this.client);
    } catch (error) {
      this.broken = true;
      throw asConnectError(error, this.session.url);
    }
    return this.mode;
  }

  async refreshPlans(): Promise<void> {
    if (this.mode === "session") await this.guard(() => this.prepared.refresh(this.client));
  }

  async single<R extends object>(
    text: string,
    values: readonly unknown[] = [],
    query: QueryOptions = {},
  ): Promise<QueryResult<R>> {
    if (this.mode !== "session") {
      return this.guard(() => queryWithSettings<R>(this.client, this.session, text, values));
    }
    try {
      return await this.plain<R>(text, values, query);
    } catch (error) {
      if (!query.prepared || !this.prepared.isRefusal(error)) throw error;
      return this.plain<R>(text, values);
    }
  }

  plain<R extends object>(
    text: string,
    values: readonly unknown[] = [],
    query: QueryOptions = {},
  ): Promise<QueryResult<R>> {
    const name = query.prepared && this.mode === "session" ? this.prepared.nameOf(text) : undefined;
    return this.guard(async () => {
      const statement = { text, values: [...values], ...(name !== undefined && { name }) };
      const { rows, rowCount } = await this.client.query<R & pg.QueryResultRow>(statement);
      return { rows, rowCount: rowCount ?? 0 };
    }, name !== undefined);
  }

  begin(): Promise<unknown> {
    const text = this.mode === "session" ? "begin isolation level read committed" : beginWithSettings(this.session);
    return this.guard(() => this.client.query(text));
  }

  async commit(): Promise<void> {
    const { command } = await this.guard(() => this.client.query("commit"));
    // After a failed statement whose error the work swallowed, Postgres answers `commit` with a rollback and no error.
    if (command !== "COMMIT") throw new EngineError("internal", "The transaction had failed; nothing was committed.");
  }

  async rollback(): Promise<void> {
    if (this.broken) return;
    // A failed rollback marks the connection broken; the error to report is the one that led here.
    await this.guard(() => this.client.query("rollback")).catch(() => undefined);
  }

  private async guard<T>(work: () => Promise<T>, kept = false): Promise<T> {
    try {
      return await work();
    } catch (error) {
      // What it kept is not what it should be: away with it, and its statements.
      this.broken ||= breaksConnection(error) || (kept && this.prepared.isRefusal(error));
      throw asDbError(error);
    }
  }
}
