// The instant that decides, which is the database's.
import type { Sql } from "../core/deps.js";

export async function databaseNow(sql: Sql): Promise<Date> {
  const { rows } = await sql.query<{ now: Date }>("select clock_timestamp() as now");
  return rows[0]?.now ?? new Date(0);
}
