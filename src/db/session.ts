// What every session has, and how it gets there: search_path and limits. Normally they are startup options, which cost
// nothing. A transaction pooler refuses or drops those, and a `set` would leak to its other clients: there, the settings
// travel with each transaction, and in front of each single statement in the same round trip.
import pg from "pg";
import type { QueryResult, Row } from "../core/deps.js";
import { EngineError } from "../core/errors.js";

/** The schema all our tables live in. */
export const SCHEMA = "perdure";
const IDLE_IN_TRANSACTION_MS = 60_000;

export type SessionOptions = Readonly<{ url: string; applicationName: string; statementTimeoutMs: number }>;
/** `session`: our startup options arrived. `transaction`: they didn't, and settings have to travel with the work. */
export type SessionMode = "session" | "transaction";

/** Connection settings, with or without our startup options. */
export function clientConfig(session: SessionOptions, { withSettings }: { withSettings: boolean }): pg.ClientConfig {
  const { url, options } = splitOptions(session.url);
  const settings = [
    ...(ownSearchPath(options) ? [] : [`-c search_path=${SCHEMA}`]),
    `-c statement_timeout=${session.statementTimeoutMs}`,
    `-c idle_in_transaction_session_timeout=${IDLE_IN_TRANSACTION_MS}`,
    // Our statements are short; compiling one that only looks expensive costs seconds (measured).
    "-c jit=off",
  ];
  const all = [...(options === null ? [] : [options]), ...(withSettings ? settings : [])];
  return {
    connectionString: url,
    application_name: session.applicationName,
    ...(all.length > 0 && { options: all.join(" ") }),
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: 10_000,
    // The server's limit does not reach us when the network swallows packets; this one gives the connection up.
    ...(session.statementTimeoutMs > 0 && { query_timeout: session.statementTimeoutMs + 5_000 }),
    types: TYPES,
  };
}

/** True when a pooler refused the connection because of its startup options (protocol violation, as PgBouncer says it). */
export function refusesOptions(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === "08P01";
}

/** Asks a new connection whether our options arrived; refuses a standby, where a failover may have left us. */
export async function probe(client: pg.ClientBase): Promise<SessionMode> {
  const text = "select current_setting('search_path') as search_path, pg_is_in_recovery() as in_recovery";
  const { rows } = await client.query<{ search_path: string; in_recovery: boolean }>(text);
  if (rows[0]?.in_recovery) {
    throw new EngineError("unavailable", "This Postgres is a standby in recovery: it can't be written to.");
  }
  const last = rows[0]?.search_path.split(",").at(-1)?.trim();
  return last === SCHEMA ? "session" : "transaction";
}

/** A url's own search_path counts where it ends with our schema: what stands before it stands in for what we would find. */
function ownSearchPath(options: string | null): boolean {
  return options !== null && new RegExp(`search_path=\\S*\\b${SCHEMA}(\\s|$)`).test(options);
}

/** Starts a transaction that brings its settings along. */
export function beginWithSettings(session: SessionOptions): string {
  return `begin isolation level read committed;
    set local search_path = ${SCHEMA};
    set local statement_timeout = ${session.statementTimeoutMs};
    set local idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_MS};
    set local jit = off`;
}

/** Runs one statement with its settings in front of it: one implicit transaction, one round trip. */
export function queryWithSettings<R extends object>(
  client: pg.ClientBase,
  session: SessionOptions,
  text: string,
  values: readonly unknown[],
): Promise<QueryResult<R>> {
  return new Promise((resolve, reject) => {
    const done: Done = (error, result) => {
      if (error) reject(error);
      else resolve({ rows: (result?.rows ?? []) as R[], rowCount: result?.rowCount ?? 0 });
    };
    client.query(new StatementWithSettings(session, { text, values: [...values], queryMode: "extended" }, done));
  });
}

// pg's types leave out what a query does on the wire.
type Wire = {
  parse(message: { text: string; name: string }): void;
  bind(message: { portal: string; statement: string; values: unknown[] }): void;
  execute(message: { portal: string; rows: number }): void;
};
type WireQuery = pg.Submittable & {
  prepare(connection: Wire): void;
  handleCommandComplete(message: unknown, connection: Wire): void;
};
type Done = (error: Error | null, result?: pg.QueryResult) => void;
const WireQueryBase = pg.Query as unknown as new (config: Row, done: Done) => WireQuery;

// No row comes back, so that only its command-complete message has to be told from the statement's own.
// (`set local` would be shorter, but it warns outside a transaction block, in the server's log, each time.)
const SETTINGS = `
  select 1
  where set_config('search_path', $1, true) is null
    or set_config('statement_timeout', $2, true) is null
    or set_config('jit', 'off', true) is null`;

class StatementWithSettings extends WireQueryBase {
  private settled = false;

  constructor(
    private readonly session: SessionOptions,
    config: Row,
    done: Done,
  ) {
    super(config, done);
  }

  override prepare(connection: Wire): void {
    const values = [SCHEMA, String(this.session.statementTimeoutMs)];
    connection.parse({ text: SETTINGS, name: "" });
    connection.bind({ portal: "", statement: "", values });
    connection.execute({ portal: "", rows: 0 });
    super.prepare(connection);
  }

  override handleCommandComplete(message: unknown, connection: Wire): void {
    if (this.settled) super.handleCommandComplete(message, connection);
    this.settled = true;
  }
}

/** A url's own `options` would replace ours; they are taken out and put in front of them. */
function splitOptions(url: string): { url: string; options: string | null } {
  const mark = url.indexOf("?");
  if (mark === -1) return { url, options: null };
  const params = new URLSearchParams(url.slice(mark + 1));
  const options = params.get("options");
  if (options === null) return { url, options };
  params.delete("options");
  return { url: params.size === 0 ? url.slice(0, mark) : `${url.slice(0, mark)}?${params.toString()}`, options };
}

/** int8 as number: our counters stay far below 2^53; past it a value would be wrong, so it fails. */
function parseInt8(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`int8 ${text} does not fit into a number`);
  return value;
}
/** bigint[] of one dimension. */
function parseInt8Array(text: string): (number | null)[] {
  if (text === "{}") return [];
  const items = text.slice(1, -1).split(",");
  return items.map((item) => (item === "NULL" ? null : parseInt8(item)));
}

const INT8_ARRAY = 1016;
const TYPES = new pg.TypeOverrides();
TYPES.setTypeParser(pg.types.builtins.INT8, parseInt8);
TYPES.setTypeParser(INT8_ARRAY, parseInt8Array);
