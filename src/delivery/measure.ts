// Messages on their way, over all tenants, for operators: each state is read from an index of its own and counted up to a limit.
import type { Sql } from "../core/deps.js";

export type DeliveriesMeasured = Readonly<{
  /** To be sent, or waiting behind another of their conversation or for their person. */
  waiting: number;
  sending: number;
  /** Nobody knows whether they arrived. */
  unknown: number;
}>;

export async function measureDeliveries(sql: Sql, limit: number): Promise<DeliveriesMeasured> {
  const { rows } = await sql.query<DeliveriesMeasured>(
    `select
      (select count(*)::int from (
        select 1 from deliveries where status in ('pending', 'parked') limit $1) d) as waiting,
      (select count(*)::int from (select 1 from deliveries where status = 'sending' limit $1) d) as sending,
      (select count(*)::int from (select 1 from deliveries where status = 'unknown' and head limit $1) d) as unknown`,
    [limit],
  );
  return rows[0] as DeliveriesMeasured;
}
