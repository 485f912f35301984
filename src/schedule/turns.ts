// Turns: what only one scheduler may do at a time, so that what it counts still holds when it acts.
import type { Sql } from "../core/deps.js";

/** They keep the kinds apart. */
const SEEDS = { recipient: 7264861092, crons: 7264861093, work: 7264861094 } as const;

/** Until the transaction ends; false: another one has it. */
export async function takeTurn(sql: Sql, kind: keyof typeof SEEDS, whose: string): Promise<boolean> {
  const { rows } = await sql.query<{ taken: boolean }>(
    "select pg_try_advisory_xact_lock(hashtextextended($1, $2::bigint)) as taken",
    [whose, SEEDS[kind]],
  );
  return rows[0]?.taken ?? false;
}
