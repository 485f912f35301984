// `perdure migrate`: brings the database, and the tables of the graphs' store in it, to this version.
import type { Log } from "../core/deps.js";
import { migrate } from "../db/migrate.js";
import { openDb } from "../db/pool.js";
import { setupStore } from "../engine/store.js";
import type { Output } from "./output.js";
import { json } from "./wire.js";

/** Returns the names of the migrations it applied. */
export async function migrateDatabase(databaseUrl: string, log: Log): Promise<string[]> {
  // Without a limit per statement: another process may hold the lock for as long as its migrations take.
  const db = openDb({ url: databaseUrl, max: 1, log, applicationName: "perdure migrate", statementTimeoutMs: 0 });
  try {
    return await migrate(db, { afterwards: (sql) => setupStore(databaseUrl, sql) });
  } finally {
    await db.close();
  }
}

export async function migrateCommand(
  databaseUrl: string,
  log: Log,
  print: Output & Readonly<{ json: boolean }>,
): Promise<void> {
  const applied = await migrateDatabase(databaseUrl, log);
  if (print.json) return print.line(json({ applied }));
  print.line(applied.length === 0 ? "The database is up to date." : `Applied ${applied.join(", ")}.`);
}
