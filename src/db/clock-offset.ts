// How far this machine's clock is from the database's: instants that decide anything are the database's.
import type { Sql } from "../core/deps.js";

/** Database time minus this machine's, in ms; off by at most half the time the question took. */
export async function measureClockOffset(sql: Sql): Promise<number> {
  const askedMs = Date.now();
  const { rows } = await sql.query<{ ms: number }>(`select extract(epoch from clock_timestamp())::float8 * 1000 as ms`);
  const answeredMs = Date.now();
  return (rows[0]?.ms ?? answeredMs) - (askedMs + answeredMs) / 2;
}

export type ClockOffset = Readonly<{
  /** As measured last; 0 before. */
  ms(): number;
  refresh(): Promise<void>;
}>;

export function createClockOffset(sql: Sql): ClockOffset {
  let offsetMs = 0;
  return {
    ms: () => offsetMs,
    async refresh() {
      offsetMs = await measureClockOffset(sql);
    },
  };
}
