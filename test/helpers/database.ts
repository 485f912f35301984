// A database per test file: a clone of a template that was migrated once for this run (about 20 ms each).
import { createHash, randomUUID } from "node:crypto";
import { inject } from "vitest";
import type { Db } from "../../src/core/deps.js";
import { migrate, readMigrations } from "../../src/db/migrate.js";
import { openDb } from "../../src/db/pool.js";
import { setupStore } from "../../src/engine/store.js";
import { createLog } from "../../src/observe/log.js";

export type TestDatabase = Readonly<{
  url: string;
  db: Db;
  /** Closes the pool and drops the database, whoever is still connected to it. */
  close(): Promise<void>;
}>;

const log = createLog("silent");

/** A new database with the current schema. */
export async function createTestDatabase(): Promise<TestDatabase> {
  return create(` template ${inject("templateDatabase")}`);
}

/** A new database without anything in it. */
export async function createEmptyDatabase(): Promise<TestDatabase> {
  return create("");
}

async function create(from: string): Promise<TestDatabase> {
  const server = inject("databaseUrl");
  const name = `perdure_test_${randomUUID().replaceAll("-", "")}`;
  await onServer(server, (sql) => sql.query(`create database ${name}${from}`));
  const url = withDatabase(server, name);
  const db = openDb({ url, max: 8, log, applicationName: "perdure test" });
  return {
    url,
    db,
    async close() {
      await db.close();
      await onServer(server, (sql) => sql.query(`drop database if exists ${name} with (force)`));
    },
  };
}

/** Makes the template unless an earlier run left it; its name says which migrations it has. */
export async function ensureTemplate(server: string): Promise<string> {
  const migrations = await readMigrations();
  const hash = createHash("sha256").update(migrations.map(({ sql }) => sql).join("\0"));
  const name = `perdure_template_${hash.digest("hex").slice(0, 16)}`;
  await onServer(server, async (sql) => {
    const { rowCount } = await sql.query("select 1 from pg_database where datname = $1", [name]);
    if (rowCount > 0) return;
    // Renamed when it is complete, so that a run killed in the middle leaves no half template under the name.
    const draft = `perdure_draft_${randomUUID().replaceAll("-", "")}`;
    await sql.query(`create database ${draft}`);
    const url = withDatabase(server, draft);
    const db = openDb({ url, max: 1, log, applicationName: "perdure test", statementTimeoutMs: 0 });
    await migrate(db, { afterwards: (sql) => setupStore(url, sql) });
    await db.close();
    await sql.query(`alter database ${draft} rename to ${name}`).catch(async (error: unknown) => {
      await sql.query(`drop database ${draft} with (force)`);
      if ((error as { code?: string }).code !== "42P04") throw error; // another run was first
    });
  });
  return name;
}

async function onServer<T>(url: string, work: (sql: Db) => Promise<T>): Promise<T> {
  const db = openDb({ url, max: 1, log, applicationName: "perdure test" });
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}

function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.toString();
}
