// Where threads are adopted from: the tables of a PostgresSaver, in some schema of some Postgres.
import type { Log } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { Look } from "../../checkpoint/stock/read-thread.js";
import { checkStockTables, type StockShape } from "../../checkpoint/stock/tables.js";
import { openReadOnlyDb } from "../../db/read-only.js";

export type Source = Readonly<{
  schema: string;
  look: Look;
  /** Checked once: throws `config_invalid` when these are no tables of PostgresSaver. */
  shape(): Promise<StockShape>;
  close(): Promise<void>;
}>;

export type SourceOptions = Readonly<{
  /** A schema of the database at `databaseUrl`, or a URL of another one with the schema after #; `public` without. */
  from: string;
  databaseUrl: string;
  max: number;
  log: Log;
}>;

/** Connects when it is first used. Throws `config_invalid` for what is neither a schema nor a URL. */
export function openSource({ from, databaseUrl, max, log }: SourceOptions): Source {
  const { url, schema } = addressOf(from, databaseUrl);
  const { look, close } = openReadOnlyDb({ url, schema, max, log, applicationName: "perdure adopt" });
  let shape: Promise<StockShape> | undefined;
  return {
    schema,
    look,
    close,
    shape() {
      const known = shape ?? look((sql) => checkStockTables(sql, schema));
      shape = known;
      known.catch(() => (shape = undefined));
      return known;
    },
  };
}

function addressOf(from: string, databaseUrl: string): Readonly<{ url: string; schema: string }> {
  if (!/^postgres(ql)?:\/\//.test(from)) {
    if (/^[^:/#]{1,63}$/.test(from)) return { url: databaseUrl, schema: from };
    throw new EngineError(
      "config_invalid",
      "The source must be a schema, or a URL like postgres://user@host:5432/name#schema",
    );
  }
  if (!URL.canParse(from)) throw new EngineError("config_invalid", "The URL of the source can't be read as one");
  const url = new URL(from);
  const schema = decodeURIComponent(url.hash.slice(1)) || "public";
  url.hash = "";
  return { url: url.toString(), schema };
}
