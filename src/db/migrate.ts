// The schema: applies migrations/NNNN_name.sql in order, all in one transaction under one advisory lock, so that of many
// processes that try at once one does it; and refuses a database that a newer, breaking version has migrated.
import { readdir, readFile } from "node:fs/promises";
import type { Db, Sql } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { isTransientDbError } from "../core/retry.js";
import { SCHEMA } from "./session.js";

/** The same place from src/db and from dist/db. */
const MIGRATIONS = new URL("../../migrations/", import.meta.url);
const LOCK = 0x70657264; // "perd"
const FILE = /^(\d{4})_([a-z0-9_]+)\.sql$/;

export type Migration = Readonly<{ version: number; name: string; breaking: boolean; sql: string }>;
type Applied = Readonly<{ version: number; name: string; breaking: boolean }>;

/** The migrations this version of perdure brings, in order. */
export async function readMigrations(): Promise<Migration[]> {
  const names = (await readdir(MIGRATIONS)).filter((name) => FILE.test(name)).sort();
  return Promise.all(
    names.map(async (file) => {
      const [, version = "", name = ""] = FILE.exec(file) ?? [];
      const sql = await readFile(new URL(file, MIGRATIONS), "utf8");
      const breaking = sql.split("\n", 2).some((line) => line.startsWith("--! breaking"));
      return { version: Number(version), name, breaking, sql };
    }),
  );
}

/**
 * Brings the database to this version and returns the names of what it applied. `afterwards` runs under the same lock
 * each time, in the same transaction, for tables that others own. Needs a `db` without a statement timeout: others may hold the lock.
 */
export async function migrate(
  db: Db,
  { afterwards }: Readonly<{ afterwards?: (sql: Sql) => Promise<void> }> = {},
): Promise<string[]> {
  const migrations = await readMigrations();
  return withRights(async () =>
    db.tx(async (sql) => {
      await sql.query("select pg_advisory_xact_lock($1)", [LOCK]);
      await sql.query(`create schema if not exists ${SCHEMA}`);
      await sql.query(`
      create table if not exists migrations (
        version int primary key,
        name text not null,
        breaking boolean not null,
        applied_at timestamptz not null default now()
      )`);
      const applied = await appliedMigrations(sql);
      refuseNewer(migrations, applied);
      const missing = missingMigrations(migrations, applied);
      for (const migration of missing) await apply(sql, migration);
      await afterwards?.(sql);
      return missing.map(label);
    }),
  );
}

/** For processes that serve: throws when migrations are missing (`config_invalid`) or a newer one breaks us (`schema_newer`). */
export async function checkSchema(db: Db): Promise<void> {
  const migrations = await readMigrations();
  const applied = await withRights(async () => {
    const { rows } = await db.query<{ exists: boolean }>("select to_regclass($1) is not null as exists", [
      `${SCHEMA}.migrations`,
    ]);
    return rows[0]?.exists ? appliedMigrations(db) : [];
  });
  refuseNewer(migrations, applied);
  const missing = missingMigrations(migrations, applied);
  if (missing.length === 0) return;
  throw new EngineError(
    "config_invalid",
    `The database lacks ${missing.length === 1 ? "the migration" : "the migrations"} ${missing.map(label).join(", ")}. Run \`perdure migrate\`.`,
    { details: { missing: missing.map(label) } },
  );
}

async function withRights<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code, message } = error as { code?: unknown; message?: unknown };
    if (code !== "42501") throw error;
    throw new EngineError(
      "config_invalid",
      `Postgres refused: ${String(message)} (${code}). Grant that right to the role that DATABASE_URL names, or name another.`,
      { cause: error },
    );
  }
}

async function appliedMigrations(sql: Sql): Promise<Applied[]> {
  const { rows } = await sql.query<Applied>("select version, name, breaking from migrations order by version");
  return rows;
}

async function apply(sql: Sql, migration: Migration): Promise<void> {
  try {
    await sql.query(migration.sql);
  } catch (error) {
    if (isTransientDbError(error)) throw error;
    const { code, message } = error as { code?: string; message?: string };
    throw new EngineError(
      "config_invalid",
      `Migration ${label(migration)} failed (${code}: ${message}). Nothing was changed.`,
      {
        cause: error,
      },
    );
  }
  await sql.query("insert into migrations (version, name, breaking) values ($1, $2, $3)", [
    migration.version,
    migration.name,
    migration.breaking,
  ]);
}

function missingMigrations(migrations: readonly Migration[], applied: readonly Applied[]): Migration[] {
  const versions = new Set(applied.map(({ version }) => version));
  return migrations.filter(({ version }) => !versions.has(version));
}

function refuseNewer(migrations: readonly Migration[], applied: readonly Applied[]): void {
  const newest = migrations.at(-1);
  if (newest === undefined) throw new EngineError("internal", "This build of perdure brings no migrations.");
  const breaking = applied.findLast(({ version, breaking }) => breaking && version > newest.version);
  if (breaking === undefined) return;
  throw new EngineError(
    "schema_newer",
    `The database was migrated to ${label(breaking)}, which this perdure, made for ${label(newest)}, can't work with. ` +
      "Either install the perdure that made it or a newer one, or point DATABASE_URL to a database restored from before that migration.",
    { details: { database: label(breaking), perdure: label(newest) } },
  );
}

function label({ version, name }: Applied): string {
  return `${String(version).padStart(4, "0")}_${name}`;
}
