// The tables of LangGraph's PostgresSaver, read as they are, with the schema that the connection was opened for. Their names
// are quoted: ours of the same names are others, and lead with a tenant.
import type { Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import { isObject } from "../../core/json-parts.js";

/** What differs between versions of the tables. */
export type StockShape = Readonly<{
  taskPath: boolean;
  /** Whether the application says beside them how its threads are labelled. */
  labels: boolean;
}>;

export type StockKey = Readonly<{ ns: string; checkpointId: string }>;
export type StockLink = StockKey & Readonly<{ parentId: string | null }>;
export type StockValueKey = Readonly<{ ns: string; channel: string; version: string }>;

/** What a thread holds, without content. */
export type StockOutline = Readonly<{
  checkpoints: readonly StockLink[];
  /** By `stockKey`: bytes of its writes. */
  writeBytes: ReadonlyMap<string, number>;
  /** By `stockValueKey`: bytes of each value; empty channels have none. */
  valueBytes: ReadonlyMap<string, number>;
  /** Changes when anything is added. */
  fingerprint: string;
}>;

export type StockCheckpointRow = StockKey &
  Readonly<{ checkpoint: Readonly<Record<string, unknown>>; metadata: Readonly<Record<string, unknown>> }>;
export type StockValueRow = StockValueKey & Readonly<{ type: string; blob: Buffer | null }>;
export type StockWriteRow = StockKey &
  Readonly<{ taskId: string; idx: number; taskPath: string; channel: string; type: string; blob: Buffer }>;

export function stockKey({ ns, checkpointId }: StockKey): string {
  return `${ns}\0${checkpointId}`;
}

export function stockValueKey({ ns, channel, version }: StockValueKey): string {
  return `${ns}\0${version}\0${channel}`;
}

const COLUMNS: Readonly<Record<string, readonly string[]>> = {
  checkpoints: ["thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "checkpoint", "metadata"],
  checkpoint_blobs: ["thread_id", "checkpoint_ns", "channel", "version", "type", "blob"],
  checkpoint_writes: [...["thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "blob"]],
};

/** A table or view that an application may make beside them: whose threads these are, the saver doesn't know. */
const LABELS = "perdure_labels";

/** Throws `config_invalid` naming what is missing when these are no tables of PostgresSaver, or may not be read. */
export async function checkStockTables(sql: Sql, schema: string): Promise<StockShape> {
  const { rows } = await sql.query<{ name: string; column: string; readable: boolean }>(
    `select c.relname as name, a.attname as column, has_table_privilege(c.oid, 'select') as readable
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where n.nspname = $1 and c.relname = any ($2)`,
    [schema, [...Object.keys(COLUMNS), LABELS]],
  );
  const there = new Set(rows.map(({ name, column }) => `${name}.${column}`));
  const missing = Object.entries(COLUMNS).flatMap(([name, columns]) =>
    columns.filter((column) => !there.has(`${name}.${column}`)).map((column) => `${name}.${column}`),
  );
  if (missing.length > 0) {
    throw new EngineError(
      "config_invalid",
      `Schema "${schema}" doesn't hold the tables of LangGraph's PostgresSaver: ${missing[0]} is missing. ` +
        "Name the schema that your PostgresSaver was given (public unless said otherwise), after # in a URL.",
      { details: { missing } },
    );
  }
  const locked = rows.find(({ readable }) => !readable);
  if (locked !== undefined) {
    const what = `"${schema}".${locked.name}`;
    throw new EngineError(
      "config_invalid",
      `The role may not read ${what}. Grant it select on the tables of PostgresSaver, and on ${LABELS} if there is one.`,
    );
  }
  const isLabelled = rows.some(({ name }) => name === LABELS);
  if (isLabelled && !["thread_id", "metadata"].every((column) => there.has(`${LABELS}.${column}`))) {
    throw new EngineError("config_invalid", `"${schema}".${LABELS} must have the columns thread_id and metadata`);
  }
  return { taskPath: there.has("checkpoint_writes.task_path"), labels: isLabelled };
}

/** How the application labels the thread. Throws `value_unsupported` when what it says is unclear. */
export async function stockLabels(sql: Sql, threadId: string): Promise<Readonly<Record<string, unknown>>> {
  const { rows } = await sql.query<{ metadata: unknown }>(
    `select metadata
    from "perdure_labels"
    where thread_id = $1
    limit 2`,
    [threadId],
  );
  const [row = { metadata: {} }, other] = rows;
  if (other === undefined && isObject(row.metadata)) return row.metadata;
  const what = other === undefined ? "no object for it as metadata" : "several rows for it";
  throw new EngineError("value_unsupported", `${LABELS} has ${what}`);
}

/** How many threads there are. */
export async function countStockThreads(sql: Sql): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(`select count(distinct thread_id)::int as n from "checkpoints"`);
  return rows[0]?.n ?? 0;
}

/** A page of thread ids, after the one given. */
export async function stockThreadIds(sql: Sql, after: string | null, limit: number): Promise<string[]> {
  const { rows } = await sql.query<{ id: string }>(
    `select distinct thread_id as id
    from "checkpoints"
    where $1::text is null or thread_id > $1
    order by thread_id
    limit $2`,
    [after, limit],
  );
  return rows.map(({ id }) => id);
}

/** The first of these ids that has checkpoints. */
export async function findStockThread(sql: Sql, ids: readonly string[]): Promise<string | undefined> {
  const { rows } = await sql.query<{ id: string }>(
    `select wanted.id
    from unnest($1::text[]) with ordinality wanted(id, position)
    where exists (select 1 from "checkpoints" c where c.thread_id = wanted.id)
    order by wanted.position
    limit 1`,
    [ids],
  );
  return rows[0]?.id;
}

export async function stockOutline(sql: Sql, threadId: string): Promise<StockOutline> {
  const checkpoints = await sql.query<StockLink>(
    `select checkpoint_ns as ns, checkpoint_id as "checkpointId", parent_checkpoint_id as "parentId"
    from "checkpoints"
    where thread_id = $1`,
    [threadId],
  );
  const values = await sql.query<StockValueKey & { bytes: number | null }>(
    `select checkpoint_ns as ns, channel, version, case when type <> 'empty' then octet_length(blob) end as bytes
    from "checkpoint_blobs"
    where thread_id = $1`,
    [threadId],
  );
  const writes = await sql.query<StockKey & { bytes: number; n: number }>(
    `select checkpoint_ns as ns, checkpoint_id as "checkpointId", sum(octet_length(blob))::float8 as bytes, count(*)::int as n
    from "checkpoint_writes"
    where thread_id = $1
    group by 1, 2`,
    [threadId],
  );
  const writeCount = writes.rows.reduce((sum, { n }) => sum + n, 0);
  return {
    checkpoints: checkpoints.rows,
    valueBytes: new Map(
      values.rows.flatMap((row) => (row.bytes === null ? [] : [[stockValueKey(row), row.bytes] as const])),
    ),
    writeBytes: new Map(writes.rows.map((row) => [stockKey(row), row.bytes])),
    fingerprint: `${checkpoints.rowCount} ${values.rowCount} ${writeCount}`,
  };
}

export async function stockCheckpoints(
  sql: Sql,
  threadId: string,
  keys: readonly StockKey[],
): Promise<StockCheckpointRow[]> {
  const { rows } = await sql.query<StockCheckpointRow>(
    `select c.checkpoint_ns as ns, c.checkpoint_id as "checkpointId", c.checkpoint, c.metadata
    from unnest($2::text[], $3::text[]) wanted(ns, id)
    join "checkpoints" c on c.thread_id = $1 and c.checkpoint_ns = wanted.ns and c.checkpoint_id = wanted.id`,
    [threadId, keys.map(({ ns }) => ns), keys.map(({ checkpointId }) => checkpointId)],
  );
  return rows;
}

export async function stockValues(
  sql: Sql,
  threadId: string,
  keys: readonly StockValueKey[],
): Promise<StockValueRow[]> {
  const { rows } = await sql.query<StockValueRow>(
    `select b.checkpoint_ns as ns, b.channel, b.version, b.type, b.blob
    from unnest($2::text[], $3::text[], $4::text[]) wanted(ns, channel, version)
    join "checkpoint_blobs" b on b.thread_id = $1 and b.checkpoint_ns = wanted.ns and b.channel = wanted.channel
      and b.version = wanted.version`,
    [threadId, keys.map(({ ns }) => ns), keys.map(({ channel }) => channel), keys.map(({ version }) => version)],
  );
  return rows;
}

const WRITES_WITHOUT_PATH = `
  select w.checkpoint_ns as ns, w.checkpoint_id as "checkpointId", w.task_id as "taskId", w.idx, '' as "taskPath",
    w.channel, w.type, w.blob
  from unnest($2::text[], $3::text[]) wanted(ns, id)
  join "checkpoint_writes" w on w.thread_id = $1 and w.checkpoint_ns = wanted.ns and w.checkpoint_id = wanted.id`;
const WRITES_WITH_PATH = WRITES_WITHOUT_PATH.replace(`'' as "taskPath"`, `w.task_path as "taskPath"`);

export async function stockWrites(
  sql: Sql,
  threadId: string,
  keys: readonly StockKey[],
  shape: StockShape,
): Promise<StockWriteRow[]> {
  const { rows } = await sql.query<StockWriteRow>(shape.taskPath ? WRITES_WITH_PATH : WRITES_WITHOUT_PATH, [
    threadId,
    keys.map(({ ns }) => ns),
    keys.map(({ checkpointId }) => checkpointId),
  ]);
  return rows;
}
