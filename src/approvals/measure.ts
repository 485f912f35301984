// Open questions over all tenants, for operators.
import type { Sql } from "../core/deps.js";

/** How many wait for an answer, up to a limit. */
export async function countPending(sql: Sql, limit: number): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    "select count(*)::int as n from (select 1 from approvals where status = 'pending' limit $1) a",
    [limit],
  );
  return rows[0]?.n ?? 0;
}
