// What can be wrong with a Postgres although it answers: its version, and transactions that hold up cleaning.
import type { Sql } from "../core/deps.js";

/** A session whose snapshot or open transaction is old. */
export type OldSession = Readonly<{ pid: number; applicationName: string; state: string; ageMs: number }>;

export type ServerHealth = Readonly<{
  /** As `server_version_num` says it: 180004 is 18.4. */
  versionNumber: number;
  version: string;
  maxConnections: number;
  /** Sessions that keep dead rows from being removed, which undoes HOT updates. */
  oldSnapshots: readonly OldSession[];
  idleInTransaction: readonly OldSession[];
}>;

const OLD_SNAPSHOT_MS = 300_000;
const OLD_IDLE_MS = 60_000;

/** Other sessions are seen as far as the role may see them. */
export async function inspectServer(sql: Sql): Promise<ServerHealth> {
  const settings = await sql.query<{ versionNumber: number; version: string; maxConnections: number }>(
    `select current_setting('server_version_num')::int as "versionNumber",
      current_setting('server_version') as version, current_setting('max_connections')::int as "maxConnections"`,
  );
  const sessions = await sql.query<OldSession & { hasSnapshot: boolean }>(
    `select pid, coalesce(application_name, '') as "applicationName", state,
      extract(epoch from clock_timestamp() - case when state like 'idle in transaction%' then state_change else xact_start end)::float8
        * 1000 as "ageMs",
      backend_xmin is not null as "hasSnapshot"
    from pg_stat_activity
    where pid <> pg_backend_pid() and xact_start is not null and state is not null
    order by xact_start`,
  );
  const [facts] = settings.rows;
  const idle = (session: OldSession) => session.state.startsWith("idle in transaction");
  return {
    versionNumber: facts?.versionNumber ?? 0,
    version: facts?.version ?? "unknown",
    maxConnections: facts?.maxConnections ?? 0,
    oldSnapshots: sessions.rows.filter((s) => s.hasSnapshot && !idle(s) && s.ageMs > OLD_SNAPSHOT_MS),
    idleInTransaction: sessions.rows.filter((s) => idle(s) && s.ageMs > OLD_IDLE_MS),
  };
}

/** Whether a connection of this name is open. Behind a pooler in transaction mode that says nothing about who opened it. */
export async function isConnected(sql: Sql, applicationName: string): Promise<boolean> {
  const { rows } = await sql.query<{ found: boolean }>(
    `select exists (
      select 1 from pg_stat_activity where datname = current_database() and application_name = $1
    ) as found`,
    [applicationName],
  );
  return rows[0]?.found ?? false;
}
