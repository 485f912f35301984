// What gets handed around: plain objects, first argument. No container, no singleton.
import type { Clock } from "./clock.js";
import type { Ids } from "./ids.js";

export type Row = Record<string, unknown>;
export type QueryResult<R> = Readonly<{ rows: R[]; rowCount: number }>;

/** Something that runs one statement: the pool, or a transaction's connection. */
export type Sql = Readonly<{
  query<R extends object = Row>(
    text: string,
    values?: readonly unknown[],
    options?: QueryOptions,
  ): Promise<QueryResult<R>>;
}>;

export type QueryOptions = Readonly<{
  /** For a long text that is sent often: each connection keeps it parsed, where connections are our own. */
  prepared?: boolean;
}>;

/** For what is asked at every run or move: planning such a text takes the server longer than doing it (measured).
 * Only where one plan is good for all values: not with conditions that a null parameter takes away. */
export const PREPARED: QueryOptions = { prepared: true };

/** The database: single statements on any connection, or several in one transaction. */
export type Db = Sql &
  Readonly<{
    /** Runs `work` in one READ COMMITTED transaction; commits when it returns, rolls back when it throws. */
    tx<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
    /** Closes every connection. */
    close(): Promise<void>;
  }>;

/** Wakes pollers in all processes. It only makes things faster: every listener polls as well. */
export type Notifier = Readonly<{
  /** Coalesced; sent on a connection of its own, after the caller's commit. Never throws. */
  notify(topic: Topic, id?: string): void;
  /** Calls back for each notification of the topic, or of one id of it, and once (without id) whenever some may have been missed. */
  listen(topic: Topic, onNotify: (id: string | undefined) => void, id?: string): () => void;
}>;
/**
 * `ended`: the run with this id is over; `lines`: its attempt has stored what it streams; `stream`: whatever else changes what it shows;
 * `threads`: the thread has a new run, and somebody waits for it; `inbox`: the conversation has news (the database says so); `left`,
 * `watched`: a client whose going cancels this run has lost its connection, or has one.
 */
export type Topic =
  | "inbox"
  | "runs"
  | "threads"
  | "lines"
  | "stream"
  | "ended"
  | "cancel"
  | "left"
  | "watched"
  | "timers"
  | "move"
  | "deliveries";

export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;
export type Log = Readonly<{
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}>;

/** An object store: keys are paths, values are bytes written once. */
export type BodyStore = Readonly<{
  /** What a URI of this store starts with: `s3://bucket/prefix` or `file:///path`. */
  uri: string;
  /** Creates the object; true if it was created, false if the key existed (and then nothing changes). */
  create(key: string, bytes: Uint8Array): Promise<boolean>;
  /** Whole object, or the bytes [start, end). Throws `body_missing` when there is none. */
  read(key: string, range?: Readonly<{ start: number; end: number }>): Promise<Uint8Array>;
  /** Deletes the objects that exist among `keys`. */
  delete(keys: readonly string[]): Promise<void>;
  /** Keys under a prefix, in any order. */
  list(prefix: string): AsyncIterable<string>;
  /**
   * Writes, reads, ranges, re-creates and deletes small objects; throws `unavailable` or `config_invalid` saying what failed and
   * which setting helps. Returns what is worth knowing about a store that works.
   */
  probe(): Promise<readonly string[]>;
  close(): Promise<void>;
}>;

export type Deps = Readonly<{
  db: Db;
  bodies: BodyStore;
  notifier: Notifier;
  clock: Clock;
  ids: Ids;
  log: Log;
  /** Uniform in [0, 1). */
  random: () => number;
}>;
