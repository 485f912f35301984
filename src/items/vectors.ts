// Items of the store with what they mean (table `store_vectors`). An item and its vectors are written by one statement; vectors of another
// value than the item has now, or made by another index, are as good as none.
import type { Sql } from "../core/deps.js";
import type { TenantId } from "../core/ids.js";

/** An item's place: PostgresStore's path, and its key. */
export type ItemAt = Readonly<{ tenantId: TenantId; path: string; key: string }>;
export type Meaning = Readonly<{
  indexId: string;
  /** Where its texts are, if that isn't what the index says. */
  paths: readonly string[] | null;
  /** Each of length 1, one after the other. */
  vectors: readonly number[];
}>;

/** Keeps the item, whatever was there, together with its vectors. `ttl` in minutes; null: for ever. */
export async function keepWithVectors(
  sql: Sql,
  { tenantId, path, key }: ItemAt,
  { value, ttl, ...meaning }: Meaning & Readonly<{ value: unknown; ttl: number | null }>,
): Promise<void> {
  await sql.query(
    `with kept as (
      insert into perdure_store.store (namespace_path, key, value, expires_at)
      values ($2, $3, $4, current_timestamp + $5::float8 * interval '1 minute')
      on conflict (namespace_path, key)
      do update set value = excluded.value, expires_at = excluded.expires_at, updated_at = current_timestamp
      returning namespace_path, key, value
    )
    insert into store_vectors as v (tenant_id, namespace_path, key, index_id, value_sha256, paths, vectors)
    select $1, namespace_path, key, $6, sha256(convert_to(value::text, 'UTF8')), $7, $8
    from kept
    on conflict (namespace_path, key)
    do update set index_id = excluded.index_id, value_sha256 = excluded.value_sha256, paths = excluded.paths, vectors = excluded.vectors
    where v.tenant_id = $1`,
    [tenantId, path, key, JSON.stringify(value), ttl, meaning.indexId, meaning.paths, meaning.vectors],
  );
}

/** Gives an item that is there its vectors, unless it has another value by now. */
export async function keepVectors(
  sql: Sql,
  { tenantId, path, key }: ItemAt,
  { sha256, ...meaning }: Meaning & Readonly<{ sha256: Buffer }>,
): Promise<void> {
  await sql.query(
    `with item as (
      select namespace_path, key
      from perdure_store.store
      where namespace_path = $2 and key = $3 and sha256(convert_to(value::text, 'UTF8')) = $4
      for no key update
    )
    insert into store_vectors as v (tenant_id, namespace_path, key, index_id, value_sha256, paths, vectors)
    select $1, namespace_path, key, $5, $4, $6, $7
    from item
    on conflict (namespace_path, key)
    do update set index_id = excluded.index_id, value_sha256 = excluded.value_sha256, paths = excluded.paths, vectors = excluded.vectors
    where v.tenant_id = $1`,
    [tenantId, path, key, sha256, meaning.indexId, meaning.paths, meaning.vectors],
  );
}

export type FoundItem = Readonly<{
  path: string;
  key: string;
  value: Record<string, unknown>;
  createdAt: Date;
  updatedAt: Date;
  /** Of what comes nearest: the cosine, from -1 to 1. */
  score: number;
}>;

/** One comparison of an item's field. `contains`: what the field holds is an object with that in it. */
export type Condition = Readonly<{ field: string; op: string; operand: unknown }>;

export type NearestTo = Readonly<{
  tenantId: TenantId;
  indexId: string;
  /** What paths begin with: no character of it means anything to LIKE. */
  prefix: string;
  /** Of length 1. */
  vector: readonly number[];
  conditions: readonly Condition[];
  limit: number;
  offset: number;
}>;

/** The items that come nearest, nearest first: each is looked at. */
export async function nearestItems(sql: Sql, asked: NearestTo): Promise<FoundItem[]> {
  const { rows } = await sql.query<FoundItem>(
    `select s.namespace_path as path, s.key, s.value, s.created_at as "createdAt", s.updated_at as "updatedAt", nearest.score
    from store_vectors v
    join perdure_store.store s on s.namespace_path = v.namespace_path and s.key = v.key
    -- Cutting the one vector that most have out of itself takes longer than comparing it by the extension.
    cross join lateral (
      select case when cardinality(v.vectors) = $4 then store_similarity(v.vectors, $5::real[]) else (
        select max(store_similarity(v.vectors[n * $4 + 1 : (n + 1) * $4], $5::real[]))
        from generate_series(0, cardinality(v.vectors) / $4 - 1) n
      ) end as score
    ) nearest
    where v.tenant_id = $1 and v.namespace_path like $2 || '%' and v.index_id = $3 and cardinality(v.vectors) > 0
      and (s.expires_at is null or s.expires_at > current_timestamp)
      and v.value_sha256 = sha256(convert_to(s.value::text, 'UTF8'))
      and not exists (
        select 1
        from jsonb_to_recordset($6) c(field text, op text, operand jsonb)
        where not coalesce(case op
          when '$eq' then s.value ->> field = operand #>> '{}'
          when '$ne' then s.value ->> field <> operand #>> '{}'
          when '$gt' then (s.value ->> field)::numeric > operand::numeric
          when '$gte' then (s.value ->> field)::numeric >= operand::numeric
          when '$lt' then (s.value ->> field)::numeric < operand::numeric
          when '$lte' then (s.value ->> field)::numeric <= operand::numeric
          when '$in' then s.value ->> field in (select jsonb_array_elements_text(operand))
          when '$nin' then s.value ->> field not in (select jsonb_array_elements_text(operand))
          when '$exists' then (s.value ? field) = operand::boolean
          when 'contains' then s.value @> jsonb_build_object(field, operand)
        end, false))
    order by nearest.score desc, s.namespace_path, s.key
    limit $7 offset $8`,
    [
      ...[asked.tenantId, asked.prefix, asked.indexId, asked.vector.length, asked.vector],
      ...[JSON.stringify(asked.conditions), asked.limit, asked.offset],
    ],
  );
  return rows;
}
