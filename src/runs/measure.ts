// How many runs wait, work and need somebody, over all tenants, for operators. Each is read from an index of its own and counted up to a
// limit: an installation with a million of them is told that there are many.
import type { Sql } from "../core/deps.js";

export type RunsMeasured = Readonly<{
  /** Could begin now if there were a free slot. */
  ready: number;
  /** For how long the oldest of them has been there; 0 when there is none. */
  readyForSeconds: number;
  /** Not begun or not over, whatever they wait for; without those that are executed. */
  pending: number;
  running: number;
  /** Executed by a worker whose lease is over: nobody has taken them over yet. */
  lost: number;
  /** Failed, and nobody has said what is to be done. */
  needsAttention: number;
  breakersOpen: number;
}>;

export async function measureRuns(sql: Sql, limit: number): Promise<RunsMeasured> {
  const { rows } = await sql.query<RunsMeasured>(
    `select
      (select count(*)::int from (
        select 1 from runs where status = 'pending' and head and available_at is null limit $1) r) as ready,
      (select coalesce(extract(epoch from clock_timestamp() - min(r.updated_at)), 0)::float8 from (
        select updated_at from runs where status = 'pending' and head and available_at is null limit $1) r
      ) as "readyForSeconds",
      (select count(*)::int from (select 1 from runs where status = 'pending' limit $1) r) as pending,
      (select count(*)::int from (select 1 from runs where status = 'running' limit $1) r) as running,
      (select count(*)::int from (
        select 1 from runs where status = 'running' and lease_expires_at < clock_timestamp() limit $1) r) as lost,
      (select count(*)::int from (
        select 1 from runs where waits_for = 'person' and resolved is null limit $1) r) as "needsAttention",
      (select count(*)::int from (select 1 from breakers where open_until > clock_timestamp() limit $1) b) as "breakersOpen"`,
    [limit],
  );
  return rows[0] as RunsMeasured;
}
