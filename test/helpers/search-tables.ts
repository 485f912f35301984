// Finds a text in every column of every table: as it is, as JSON escapes it once or twice, and as bytes.
import type { Sql } from "../../src/core/deps.js";

export type Found = Readonly<{ table: string; column: string; rows: number }>;

type Column = Readonly<{ table: string; column: string; type: string }>;

/** Where a text of at least some characters stands in the tables of `schema`; nothing found is an empty list. */
export async function searchTables(sql: Sql, text: string, schema = "perdure"): Promise<Found[]> {
  const once = JSON.stringify(text).slice(1, -1);
  const twice = JSON.stringify(once).slice(1, -1);
  const texts = [...new Set([text, once, twice, ascii(once), ascii(twice)])].filter((t) => !t.includes("\0"));
  const bytes = texts.map((t) => Buffer.from(t, "utf8"));
  const found: Found[] = [];
  for (const column of await columnsOf(sql, schema)) {
    const { rows } = await sql.query<{ n: number }>(queryFor(schema, column), [
      column.type.startsWith("bytea") ? bytes : texts,
    ]);
    const n = rows[0]?.n ?? 0;
    if (n > 0) found.push({ table: column.table, column: column.column, rows: n });
  }
  return found;
}

async function columnsOf(sql: Sql, schema: string): Promise<Column[]> {
  const { rows } = await sql.query<Column>(
    `select c.relname as "table", a.attname as "column", format_type(a.atttypid, null) as type
    from pg_attribute a
    join pg_class c on c.oid = a.attrelid
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1 and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
    order by 1, 2`,
    [schema],
  );
  return rows;
}

function queryFor(schema: string, { table, column, type }: Column): string {
  const name = `"${column}"`;
  const match =
    type === "bytea"
      ? `exists (select 1 from unnest($1::bytea[]) u(t) where position(u.t in ${name}) > 0)`
      : type === "bytea[]"
        ? `exists (select 1 from unnest($1::bytea[]) u(t), unnest(${name}) v(b) where position(u.t in v.b) > 0)`
        : `exists (select 1 from unnest($1::text[]) u(t) where position(u.t in ${name}::text) > 0)`;
  return `select count(*) as n from "${schema}"."${table}" where ${match}`;
}

/** Other writers of JSON escape everything beyond ASCII. */
function ascii(json: string): string {
  return json.replace(/[\u0080-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
