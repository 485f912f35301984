// A clock that tests move. Time that decides anything is the database's, so that is what is moved: a function of the same name
// stands in for Postgres' own in front of it on the search path of each session, for every process that is given the url.
import type { Db, Log, Sql } from "../core/deps.js";
import { openDb } from "../db/pool.js";

const SCHEMA = "perdure_clock";

/** The url, so that its sessions read the movable clock. Only for a database where `installClock` was called. */
export function withMovableClock(url: string): string {
  const changed = new URL(url);
  changed.searchParams.set("options", `-c search_path=${SCHEMA},pg_catalog,perdure`);
  return changed.toString();
}

/** The url with the movable clock, for a database that has one; it gets one where that is `wanted`. Else null: time is as it is there. */
export async function openClock(
  url: string,
  { wanted, log }: Readonly<{ wanted: boolean; log: Log }>,
): Promise<string | null> {
  const db = openDb({ url, max: 1, log, applicationName: "perdure clock" });
  try {
    const { rows } = await db.query<{ found: boolean }>("select to_regnamespace($1) is not null as found", [SCHEMA]);
    if (rows[0]?.found !== true && !wanted) return null;
    if (rows[0]?.found !== true) await installClock(db);
    return withMovableClock(url);
  } finally {
    await db.close();
  }
}

/** Makes the clock, which shows the time as it is. */
export async function installClock(db: Db): Promise<void> {
  await db.tx(async (sql) => {
    await sql.query(`create schema ${SCHEMA}`);
    await sql.query(`create table ${SCHEMA}.moved (by interval not null)`);
    await sql.query(`insert into ${SCHEMA}.moved values ('0')`);
    await sql.query(`create function ${SCHEMA}.clock_timestamp() returns timestamptz language sql volatile
      as 'select pg_catalog.clock_timestamp() + (select by from ${SCHEMA}.moved)'`);
  });
}

/** Moves it on. */
export async function moveClock(sql: Sql, byMs: number): Promise<void> {
  await sql.query(`update ${SCHEMA}.moved set by = by + $1::float8 * interval '1 ms'`, [byMs]);
}

export async function readClock(sql: Sql): Promise<Date> {
  const { rows } = await sql.query<{ now: Date }>("select clock_timestamp() as now");
  return rows[0]?.now ?? new Date(Number.NaN);
}
