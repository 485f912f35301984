// Another application's database: LangGraph's own PostgresSaver, filled by graphs that run on it.
import { createHash } from "node:crypto";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import pg from "pg";
import { openSource, type Source } from "../../src/engine/adopt/source.js";
import { createLog } from "../../src/observe/log.js";
import { createEmptyDatabase, type TestDatabase } from "./database.js";

export type StockDatabase = Readonly<{
  url: string;
  /** As `--from` takes it. */
  from: string;
  db: TestDatabase["db"];
  saver: PostgresSaver;
  source: Source;
  /** Changes with any row of any table. */
  fingerprint(): Promise<string>;
  /** One statement on the tables. */
  change(text: string, values: readonly unknown[]): Promise<void>;
}>;

const SCHEMA = "the app";

export async function withStockDatabase<T>(work: (stock: StockDatabase) => Promise<T>): Promise<T> {
  const database = await createEmptyDatabase();
  const pool = new pg.Pool({ connectionString: database.url });
  // Its connections may still be closing when the database is dropped.
  pool.on("error", () => undefined);
  // Of what ends with the database nobody needs to hear.
  pool.on("connect", (client) => client.on("error", () => {}));
  const saver = new PostgresSaver(pool, undefined, { schema: SCHEMA });
  const from = `${database.url}#${encodeURIComponent(SCHEMA)}`;
  const source = openSource({ from, databaseUrl: "postgres://nowhere", max: 4, log: createLog("silent") });
  try {
    await saver.setup();
    return await work({
      ...{ url: database.url, from, db: database.db, saver, source },
      fingerprint: () => fingerprint(database.db),
      change: (text, values) =>
        database.db.tx(async (sql) => {
          await sql.query(`set local search_path = "${SCHEMA}"`);
          await sql.query(text, values);
        }),
    });
  } finally {
    await source.close();
    await saver.end();
    await database.close();
  }
}

async function fingerprint(db: TestDatabase["db"]): Promise<string> {
  const sum = createHash("sha256");
  for (const table of ["checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations"]) {
    // With xmin and ctid: a row that was written again with the same content would show.
    const { rows } = await db.query<{ row: string }>(
      `select ctid::text || ' ' || xmin::text || ' ' || t::text as row from "${SCHEMA}"."${table}" t order by 1`,
    );
    sum.update(`${table}\0${rows.map(({ row }) => row).join("\0")}\0`);
  }
  return sum.digest("hex");
}
