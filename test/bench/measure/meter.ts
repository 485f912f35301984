// Watches a stretch of work from outside: time, processor time of the processes that did it, of Postgres and of strangers,
// and what reached Postgres: statements (BEGIN and COMMIT are counted: each is a round trip) and commits that wrote.
import pg from "pg";
import type { Postgres } from "../setup/postgres.js";
import { machineCpuMs, treeCpuMs } from "./cpu.js";
import { nowMs } from "./numbers.js";

/** In a statement of the benchmark's own, so that it isn't counted. */
export const PROBE = "bench_probe";

export type Statement = Readonly<{ query: string; calls: number; ms: number }>;

/** Null: can't be had here. */
export type Reading = Readonly<{
  seconds: number;
  nodeCpuMs: number | null;
  postgresCpuMs: number | null;
  statements: number | null;
  commits: number | null;
  /** Processors that others used meanwhile: above 0.3 or so, times are too long. Counts aren't touched by it. */
  foreignCores: number | null;
  byCalls: readonly Statement[];
}>;

export type Metered = Readonly<{
  server: Postgres;
  /** Whose statements count; null when the work uses none. */
  database: string | null;
  /** The processes that do the work, their descendants included. */
  pids: readonly number[];
}>;

/** Reads what `work` cost; it returns when what it started has ended. */
export async function metered<T>(what: Metered, work: () => Promise<T>): Promise<readonly [T, Reading]> {
  const { server, database, pids } = what;
  const client = new pg.Client({ connectionString: server.urlOf("postgres") });
  await client.connect();
  try {
    const from = database === null ? null : await startCounting(client, server);
    const cpu = snapshot(server, pids);
    const startedMs = nowMs();
    const result = await work();
    const seconds = (nowMs() - startedMs) / 1_000;
    const used = since(cpu, snapshot(server, pids), seconds);
    const counted =
      database === null || from === null ? NOT_COUNTED : await stopCounting(client, server, database, from);
    return [result, { seconds, ...used, ...counted }];
  } finally {
    await client.end();
  }
}

type Snapshot = Readonly<{ node: number | null; postgres: number | null; all: number | null; machine: number | null }>;

function snapshot({ pid }: Postgres, pids: readonly number[]): Snapshot {
  const postgres = pid === null ? [] : [pid];
  return {
    node: treeCpuMs(pids),
    postgres: pid === null ? null : treeCpuMs(postgres),
    // This process, which plays the clients, and whatever it started.
    all: treeCpuMs([process.pid, ...pids, ...postgres]),
    machine: machineCpuMs(),
  };
}

function since(before: Snapshot, after: Snapshot, seconds: number) {
  const spent = (key: keyof Snapshot): number | null => {
    const [a, b] = [before[key], after[key]];
    return a === null || b === null ? null : b - a;
  };
  const [all, machine] = [spent("all"), spent("machine")];
  return {
    nodeCpuMs: spent("node"),
    postgresCpuMs: spent("postgres"),
    foreignCores: all === null || machine === null ? null : Math.max(0, machine - all) / 1_000 / seconds,
  };
}

const NOT_COUNTED = { statements: null, commits: null, byCalls: [] } as const;

async function startCounting(client: pg.Client, { counts }: Postgres): Promise<string> {
  if (counts.statements) await client.query("select pg_stat_statements_reset()");
  const { rows } = await client.query<{ lsn: string }>("select pg_current_wal_insert_lsn()::text as lsn");
  return rows[0]?.lsn ?? "";
}

async function stopCounting(client: pg.Client, { counts }: Postgres, database: string, from: string) {
  const byCalls = counts.statements ? await statementsOf(client, database) : [];
  return {
    byCalls,
    statements: counts.statements ? byCalls.reduce((sum, { calls }) => sum + calls, 0) : null,
    commits: counts.commits ? await commitsSince(client, from) : null,
  };
}

async function statementsOf(client: pg.Client, database: string): Promise<Statement[]> {
  const { rows } = await client.query<Statement>(
    `select query, sum(calls)::float8 as calls, sum(total_exec_time)::float8 as ms
    from pg_stat_statements
    where dbid = (select oid from pg_database where datname = $1) and query not like '%${PROBE}%'
    group by query
    order by 2 desc`,
    [database],
  );
  return rows;
}

/** From the log itself: only commits that wrote something have a record there. */
async function commitsSince(client: pg.Client, from: string): Promise<number> {
  const { rows } = await client.query<{ commits: number }>(
    `select coalesce(sum(count), 0)::float8 as commits
    from pg_get_wal_stats($1::pg_lsn, greatest($1::pg_lsn, pg_current_wal_flush_lsn()), true)
    where "resource_manager/record_type" like 'Transaction/COMMIT%'`,
    [from],
  );
  return rows[0]?.commits ?? 0;
}
