// What pruning deletes, inside one transaction that holds the thread and its runs. Every statement counts what went, so that a
// rehearsal that is rolled back tells the same as the act.
import type { Sql } from "../../core/deps.js";
import { takeBodies } from "../moved-bodies.js";
import type { ThreadKey } from "../move-queries.js";
import { type RunsInPack, USED } from "./packs-used.js";
import type { CheckpointKey } from "./read-queries.js";

/** Rows that went, and the bytes they had. */
export type Gone = Readonly<{ rows: number; bytes: number }>;

const NOTHING: Gone = { rows: 0, bytes: 0 };

/** Deletes states; their values, writes and bodies are the following statements'. */
export async function deleteStates(sql: Sql, key: ThreadKey, states: readonly CheckpointKey[]): Promise<Gone> {
  if (states.length === 0) return NOTHING;
  const { rows } = await sql.query<Gone>(
    `with gone as (
      delete from checkpoints c
      using unnest($3::text[], $4::uuid[]) d(ns, checkpoint_id)
      where c.tenant_id = $1 and c.thread_id = $2 and c.ns = d.ns and c.checkpoint_id = d.checkpoint_id
      returning pg_column_size(c.*) as bytes
    )
    select count(*)::int as rows, coalesce(sum(bytes), 0)::float8 as bytes from gone`,
    [key.tenantId, key.threadId, states.map((s) => s.ns), states.map((s) => s.checkpointId)],
  );
  return rows[0] ?? NOTHING;
}

export type Support = CheckpointKey & Readonly<{ channels: readonly string[] }>;

/**
 * Prunes states down to some of their channels, for the descendants that are rebuilt from them. Nobody is shown them any more.
 * Returns how many were states until now.
 */
export async function pruneToChannels(sql: Sql, key: ThreadKey, supports: readonly Support[]): Promise<number> {
  if (supports.length === 0) return 0;
  const at = [key.tenantId, key.threadId, supports.map((s) => s.ns), supports.map((s) => s.checkpointId)];
  const { rows } = await sql.query<{ n: number }>(
    `select count(*)::int as n
    from unnest($3::text[], $4::uuid[]) u(ns, checkpoint_id)
    join checkpoints c on c.tenant_id = $1 and c.thread_id = $2 and c.ns = u.ns and c.checkpoint_id = u.checkpoint_id
    where c.delta_channels is null`,
    at,
  );
  // The list itself, whose length the planner sees: of a query's result it may expect one row, and compare all with all.
  await sql.query(
    `update checkpoints c
    set delta_channels = kept.channels,
      channels = case when c.head is not null then
        array(select u.channel from unnest(c.channels, c.versions) with ordinality u(channel, version, position)
          where u.channel = any (kept.channels) order by u.position) end,
      versions = case when c.head is not null then
        array(select u.version from unnest(c.channels, c.versions) with ordinality u(channel, version, position)
          where u.channel = any (kept.channels) order by u.position) end
    from unnest($3::text[], $4::uuid[], $5::json[]) w(ns, checkpoint_id, kept)
    cross join lateral (select array(select json_array_elements_text(w.kept)) as channels) kept
    where c.tenant_id = $1 and c.thread_id = $2 and c.ns = w.ns and c.checkpoint_id = w.checkpoint_id
      and c.delta_channels is distinct from kept.channels`,
    [...at, supports.map((s) => JSON.stringify(s.channels))],
  );
  return rows[0]?.n ?? 0;
}

/** Deletes writes without a checkpoint, and those of pruned ones to channels that nobody is rebuilt from. */
export async function deleteUnneededWrites(sql: Sql, key: ThreadKey): Promise<Gone> {
  const { rows } = await sql.query<Gone>(
    `with gone as (
      delete from checkpoint_writes w
      where w.tenant_id = $1 and w.thread_id = $2
        and not exists (
          select 1
          from checkpoints c
          where c.tenant_id = $1 and c.thread_id = $2 and c.ns = w.ns and c.checkpoint_id = w.checkpoint_id
            and (c.delta_channels is null or w.channel = any (c.delta_channels))
        )
      returning pg_column_size(w.*) as bytes
    )
    select count(*)::int as rows, coalesce(sum(bytes), 0)::float8 as bytes from gone`,
    [key.tenantId, key.threadId],
  );
  return rows[0] ?? NOTHING;
}

/** Deletes channel values that no checkpoint in Postgres names. */
export async function deleteUnneededValues(sql: Sql, key: ThreadKey): Promise<Gone> {
  const { rows } = await sql.query<Gone>(
    `with named as materialized (
      select distinct c.ns, u.channel, u.version
      from checkpoints c
      cross join lateral unnest(c.channels, c.versions) u(channel, version)
      where c.tenant_id = $1 and c.thread_id = $2 and c.head is not null
    ), gone as (
      delete from channel_versions v
      where v.tenant_id = $1 and v.thread_id = $2
        and not exists (select 1 from named n where n.ns = v.ns and n.channel = v.channel and n.version = v.version)
      returning pg_column_size(v.*) as bytes
    )
    select count(*)::int as rows, coalesce(sum(bytes), 0)::float8 as bytes from gone`,
    [key.tenantId, key.threadId],
  );
  return rows[0] ?? NOTHING;
}

/** Deletes bodies by hash, staged or moved. */
export async function deleteBodies(sql: Sql, key: ThreadKey, hashes: readonly Buffer[]): Promise<Gone> {
  if (hashes.length === 0) return NOTHING;
  const { rows } = await sql.query<Readonly<{ hash: Buffer; bytes: number }>>(
    `delete from staged_bodies s
    where s.tenant_id = $1 and s.thread_id = $2 and (s.hash in (select unnest($3::bytea[]))) is true
    returning s.hash, pg_column_size(s.*) as bytes`,
    [key.tenantId, key.threadId, hashes],
  );
  const moved = await takeBodies(sql, key, hashes);
  const gone = new Set([...rows, ...moved.map((hash) => ({ hash }))].map(({ hash }) => hash.toString("base64url")));
  return { rows: gone.size, bytes: rows.reduce((sum, { bytes }) => sum + bytes, moved.length * MOVED_BYTES) };
}

/** What a moved body takes in Postgres: a hash and a number, in arrays. */
const MOVED_BYTES = 40;

/**
 * Bytes of the thread's objects that are in use: of each pack, as much of it as there are entries that something still points to.
 * It is exact for what nothing points to, and about right otherwise.
 */
export async function storeBytesInUse(sql: Sql, key: ThreadKey, runs: readonly RunsInPack[]): Promise<number> {
  const { rows } = await sql.query<{ bytes: number }>(
    `with ${USED}
    select coalesce(sum(bytes * least(1, share)), 0) as bytes from used`,
    [key.tenantId, key.threadId, runs.map((r) => r.packId), runs.map((r) => r.runs)],
  );
  return rows[0]?.bytes ?? 0;
}
