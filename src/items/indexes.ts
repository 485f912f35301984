// What the store is indexed by (table `store_indexes`), and which items have no vectors of it yet. The process that began last says what it is
// indexed by; of those with that index, one at a time looks for items.
import type { Sql } from "../core/deps.js";

/** Says that a process begins with it. */
export async function beginIndex(sql: Sql, indexId: string): Promise<void> {
  await sql.query(
    `insert into store_indexes as i (index_id)
    values ($1)
    on conflict (index_id) do update set started_at = excluded.started_at, due_at = excluded.due_at
    where exists (select 1 from store_indexes newer where newer.started_at > i.started_at)`,
    [indexId],
  );
}

/** Takes the search for items for a time, if it is due; null: it isn't, or a newer index is what counts. */
export async function claimIndexing(sql: Sql, indexId: string, forMs: number): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update store_indexes i
    set due_at = clock_timestamp() + $2 * interval '1 ms'
    where index_id = $1 and due_at <= clock_timestamp()
      and not exists (select 1 from store_indexes newer where newer.started_at > i.started_at)`,
    [indexId, forMs],
  );
  return rowCount > 0;
}

/** Says when it is due again. False: a newer index is what counts now. */
export async function postponeIndexing(sql: Sql, indexId: string, afterMs: number): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update store_indexes i
    set due_at = clock_timestamp() + $2 * interval '1 ms'
    where index_id = $1 and not exists (select 1 from store_indexes newer where newer.started_at > i.started_at)`,
    [indexId, afterMs],
  );
  return rowCount > 0;
}

export type ListedItem = Readonly<{
  path: string;
  key: string;
  sha256: Buffer;
  /** Null: it has vectors of this index, or is not to be found. */
  value: Record<string, unknown> | null;
  paths: string[] | null;
}>;

/** The next items of all tenants, in order; the value only of those without vectors of the index that are to have some. */
export async function listItems(
  sql: Sql,
  {
    indexId,
    after,
    limit,
  }: Readonly<{ indexId: string; after: Readonly<{ path: string; key: string }>; limit: number }>,
): Promise<ListedItem[]> {
  const { rows } = await sql.query<ListedItem>(
    `with page as (
      select namespace_path, key, value, sha256(convert_to(value::text, 'UTF8')) as sha256,
        expires_at is null or expires_at > current_timestamp as lasts
      from perdure_store.store
      where (namespace_path, key) > ($2, $3)
      order by namespace_path, key
      limit $4
    )
    select page.namespace_path as path, page.key, sha256, case when v.value_sha256 = sha256 then v.paths end as paths,
      case when lasts and (v.value_sha256 is distinct from sha256
        or v.index_id <> $1 and cardinality(v.paths) is distinct from 0) then value end as value
    from page
    left join store_vectors v on v.namespace_path = page.namespace_path and v.key = page.key
    order by page.namespace_path, page.key`,
    [indexId, after.path, after.key, limit],
  );
  return rows;
}
