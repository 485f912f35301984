// Reads of checkpoints and what they need, one statement each. What was moved comes back as where it is.
import { UPLOAD_MS } from "./packs.js";
import { PREPARED, type Sql } from "../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";
import type { PackAddress, PackedNode } from "./pack-types.js";

export type StoredCheckpoint = Readonly<{
  threadId: string;
  ns: string;
  checkpointId: string;
  parentId: string | null;
  seq: number;
  /** Null when the checkpoint was moved. */
  here: Readonly<{ channels: readonly string[]; versions: readonly string[]; head: Buffer }> | null;
  /** Where its record is. With `here` it was put again since: then its writes count still, and values that aren't here. */
  place: Readonly<{ packId: string; block: number }> | null;
  /** Other runs whose writes in the record count. */
  writtenBy: readonly string[] | null;
}>;

export type StoredWrite = Readonly<{ taskId: string; idx: number; taskPath: string; channel: string; data: Buffer }>;

/** What one statement saw. */
export type Snapshot = Readonly<{
  /** Newest first: no checkpoint was committed before its parent. */
  checkpoints: readonly StoredCheckpoint[];
  /** By `valueKey`. */
  values: ReadonlyMap<string, Buffer>;
  /** By `checkpointKey`, in no order. */
  writes: ReadonlyMap<string, readonly StoredWrite[]>;
  /** Staged nodes that values and writes name, directly or not. */
  nodes: ReadonlyMap<string, PackedNode>;
  packs: ReadonlyMap<string, PackAddress>;
}>;

export type ListQuery = Readonly<{
  threadId: string | null;
  ns: string | null;
  checkpointId: string | null;
  /** Only those with a smaller sequence number. */
  beforeSeq: number | null;
  /** Only those older than this checkpoint, in whatever namespace it is. */
  beforeId: string | null;
  /** JSON text that the metadata must contain. */
  filter: string | null;
  limit: number;
}>;

export function checkpointKey(threadId: string, ns: string, checkpointId: string): string {
  return `${threadId}\0${ns}\0${checkpointId}`;
}

export function valueKey(threadId: string, ns: string, channel: string, version: string): string {
  return `${threadId}\0${ns}\0${version}\0${channel}`;
}

const COLUMNS = `c.tenant_id, c.thread_id, c.ns, c.checkpoint_id, c.parent_id, c.seq, c.channels, c.versions, c.head,
    c.pack_id, c.block, c.written_by`;

/** After a CTE `cp` of checkpoints and `only_channels(channels)`, null for all: each needed row once. $1 is the tenant. */
const WITH_CONTENT = `
), v as (
  select x.thread_id, x.ns, x.channel, x.version, x.data, x.refs
  from (
    select distinct cp.thread_id, cp.ns, u.channel, u.version
    from cp
    cross join lateral unnest(cp.channels, cp.versions) as u(channel, version)
    cross join only_channels
    where only_channels.channels is null or u.channel = any (only_channels.channels)
  ) named
  join channel_versions x on x.tenant_id = $1 and x.thread_id = named.thread_id and x.ns = named.ns
    and x.channel = named.channel and x.version = named.version
), w as (
  select x.thread_id, x.ns, x.checkpoint_id, x.task_id, x.idx, x.task_path, x.channel, x.data, x.refs
  from cp
  join checkpoint_writes x on x.tenant_id = $1 and x.thread_id = cp.thread_id and x.ns = cp.ns
    and x.checkpoint_id = cp.checkpoint_id
  cross join only_channels
  where only_channels.channels is null or x.channel = any (only_channels.channels)
), n(thread_id, hash) as (
  select named.thread_id, named.hash
  from (
    select v.thread_id, unnest(v.refs) from v
    union all
    select w.thread_id, unnest(w.refs) from w
  ) named(thread_id, hash)
  union
  select n.thread_id, r.hash
  from n
  join staged_bodies s on s.tenant_id = $1 and s.thread_id = n.thread_id and s.hash = n.hash
  cross join lateral unnest(s.refs) as r(hash)
)
select 'checkpoint' as what, cp.thread_id as thread, cp.ns, cp.checkpoint_id::text as id, cp.parent_id::text as a,
  cp.pack_id::text as b, cp.seq as number, cp.block as small, cp.channels as texts, cp.versions as texts2,
  cp.head as data, null::bytea as hash, null::bigint[] as numbers, null::bytea[] as hashes,
  cp.written_by as runs
from cp
union all
select 'value', v.thread_id, v.ns, v.channel, v.version, null, null, null, null, null, v.data, null, null, null, null
from v
union all
select 'write', w.thread_id, w.ns, w.checkpoint_id::text, w.task_id, w.channel, null, w.idx, array[w.task_path], null,
  w.data, null, null, null, null
from w
union all
select 'node', null, null, null, null, null, null, s.kind, null, null, s.data, s.hash, null, null, null
from n
join staged_bodies s on s.tenant_id = $1 and s.thread_id = n.thread_id and s.hash = n.hash
union all
select 'pack', null, null, p.pack_id::text, p.key, null, null, null, null, null, null, null, p.block_offsets,
  p.block_hashes, null
from packs p
where p.tenant_id = $1 and p.pack_id in (select cp.pack_id from cp)`;

const NEWEST = `
with recursive only_channels(channels) as (
  select null::text[]
), cp as (
  select ${COLUMNS}
  from checkpoints c
  where c.tenant_id = $1 and c.thread_id = $2 and c.ns = $3
  order by c.seq desc
  limit 1
${WITH_CONTENT}`;

const NEWEST_OF_MANY = `
with recursive only_channels(channels) as (
  select null::text[]
), cp as (
  select c.*
  from unnest($2::uuid[]) wanted(id)
  cross join lateral (
    select ${COLUMNS}
    from checkpoints c
    where c.tenant_id = $1 and c.thread_id = wanted.id and c.ns = $3
    order by c.seq desc
    limit 1
  ) c
${WITH_CONTENT}`;

const BY_ID = `
with recursive only_channels(channels) as (
  select null::text[]
), cp as (
  select ${COLUMNS}
  from checkpoints c
  where c.tenant_id = $1 and c.thread_id = $2 and c.ns = $3 and c.checkpoint_id = $4
    and (c.delta_channels is null or $5)
${WITH_CONTENT}`;

const BY_IDS = `
with recursive only_channels(channels) as (
  select null::text[]
), cp as (
  select ${COLUMNS}
  from unnest($2::uuid[], $3::uuid[]) wanted(thread_id, checkpoint_id)
  join checkpoints c on c.tenant_id = $1 and c.thread_id = wanted.thread_id and c.ns = ''
    and c.checkpoint_id = wanted.checkpoint_id
${WITH_CONTENT}`;

const PAGE = `
with recursive only_channels(channels) as (
  select null::text[]
), limits as (
  select
    (select max(b.seq) from checkpoints b
      where b.tenant_id = $1 and b.checkpoint_id = $6 and ($2::uuid is null or b.thread_id = $2)) as before_seq
), cp as (
  select ${COLUMNS}
  from checkpoints c, limits
  where c.tenant_id = $1
    and ($2::uuid is null or c.thread_id = $2)
    and ($3::text is null or c.ns = $3)
    and ($4::uuid is null or c.checkpoint_id = $4)
    and ($5::bigint is null or c.seq < $5)
    and ($6::uuid is null or c.seq < before_seq or (before_seq is null and c.checkpoint_id < $6))
    and ($7::jsonb is null or c.metadata @> $7)
    and c.delta_channels is null
  order by c.seq desc
  limit $8
${WITH_CONTENT}`;

/** The chain above a checkpoint (the newest when none is given), until each channel has a value that is here, or the limit. */
const ANCESTORS = `
with recursive only_channels(channels) as (
  select $5::text[]
), start as (
  select c.parent_id
  from checkpoints c
  where c.tenant_id = $1 and c.thread_id = $2 and c.ns = $3 and ($4::uuid is null or c.checkpoint_id = $4)
  order by c.seq desc
  limit 1
), chain(depth, checkpoint_id, seeded) as (
  select 0, start.parent_id, '{}'::text[]
  from start
  union all
  select chain.depth + 1, c.parent_id, chain.seeded || array(
    select u.channel
    from unnest(c.channels, c.versions) as u(channel, version)
    join channel_versions x on x.tenant_id = $1 and x.thread_id = $2 and x.ns = $3 and x.channel = u.channel
      and x.version = u.version
    where u.channel = any ($5)
  )
  from chain
  join checkpoints c on c.tenant_id = $1 and c.thread_id = $2 and c.ns = $3 and c.checkpoint_id = chain.checkpoint_id
  where chain.depth < $6 and not chain.seeded @> $5::text[]
), cp as (
  select ${COLUMNS}
  from checkpoints c
  where c.tenant_id = $1 and c.thread_id = $2 and c.ns = $3
    and c.checkpoint_id in (select checkpoint_id from chain where depth < $6 and not seeded @> $5::text[])
${WITH_CONTENT}`;

/** The newest checkpoint of a namespace, by the order in which they were committed. */
export async function readNewest(sql: Sql, tenantId: string, threadId: string, ns: string): Promise<Snapshot> {
  return snapshotOf(await sql.query<AnyRow>(NEWEST, [tenantId, threadId, ns], PREPARED));
}

/** The newest checkpoint of a namespace of each of these threads, for those that have one. */
export async function readNewestOfMany(
  sql: Sql,
  tenantId: string,
  threadIds: readonly string[],
  ns: string,
): Promise<Snapshot> {
  return snapshotOf(await sql.query<AnyRow>(NEWEST_OF_MANY, [tenantId, threadIds, ns], PREPARED));
}

/** One that was pruned is found only when what it still has is enough. */
export async function readById(
  sql: Sql,
  tenantId: string,
  threadId: string,
  ns: string,
  checkpointId: string,
  { pruned = false }: Readonly<{ pruned?: boolean }> = {},
): Promise<Snapshot> {
  return snapshotOf(await sql.query<AnyRow>(BY_ID, [tenantId, threadId, ns, checkpointId, pruned], PREPARED));
}

/** These checkpoints of root graphs, of one thread or of many. */
export async function readByIds(
  sql: Sql,
  tenantId: string,
  wanted: readonly Readonly<{ threadId: string; checkpointId: string }>[],
): Promise<Snapshot> {
  const params = [tenantId, wanted.map((key) => key.threadId), wanted.map((key) => key.checkpointId)];
  return snapshotOf(await sql.query<AnyRow>(BY_IDS, params, PREPARED));
}

/** A page of checkpoints, newest first. */
export async function readPage(sql: Sql, tenantId: string, query: ListQuery): Promise<Snapshot> {
  const { threadId, ns, checkpointId, beforeSeq, beforeId, filter, limit } = query;
  const params = [tenantId, threadId, ns, checkpointId, beforeSeq, beforeId, filter, limit];
  return snapshotOf(await sql.query<AnyRow>(PAGE, params));
}

export type ChainQuery = Readonly<{
  threadId: string;
  ns: string;
  /** The chain is what lies above it; null for the newest. */
  checkpointId: string | null;
  channels: readonly string[];
  limit: number;
}>;

/** Ancestors, nearest first, with the values and writes of some channels: as far as these are needed, or the limit. */
export async function readAncestors(sql: Sql, tenantId: string, query: ChainQuery): Promise<Snapshot> {
  const { threadId, ns, checkpointId, channels, limit } = query;
  return snapshotOf(await sql.query<AnyRow>(ANCESTORS, [tenantId, threadId, ns, checkpointId, channels, limit]));
}

/** The run's newest checkpoint in a namespace. */
export async function newestCheckpointOfRun(
  sql: Sql,
  run: Readonly<{ tenantId: TenantId; threadId: ThreadId; runId: RunId }>,
  ns = "",
): Promise<string | undefined> {
  const { rows } = await sql.query<{ checkpointId: string }>(
    `select checkpoint_id as "checkpointId"
    from checkpoints
    where tenant_id = $1 and run_id = $2 and thread_id = $3 and ns = $4 and delta_channels is null
    order by seq desc
    limit 1`,
    [run.tenantId, run.runId, run.threadId, ns],
  );
  return rows[0]?.checkpointId;
}

/** Supersteps of the root graph that the run has stored. */
export async function stepsOfRun(
  sql: Sql,
  run: Readonly<{ tenantId: TenantId; threadId: ThreadId; runId: RunId }>,
): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    // An input is followed by a step that only takes it in.
    `select (count(*) filter (where source = 'loop') - count(*) filter (where source = 'input'))::int as n
    from checkpoints
    where tenant_id = $1 and run_id = $2 and thread_id = $3 and ns = ''`,
    [run.tenantId, run.runId, run.threadId],
  );
  return rows[0]?.n ?? 0;
}

/** Whether the thread has this checkpoint, moved or not. */
export async function checkpointExists(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; threadId: ThreadId; ns: string; checkpointId: string }>,
): Promise<boolean> {
  const { rows } = await sql.query<{ found: boolean }>(
    `select exists (
      select 1
      from checkpoints
      where tenant_id = $1 and thread_id = $2 and ns = $3 and checkpoint_id = $4 and delta_channels is null
    ) as found`,
    [of.tenantId, of.threadId, of.ns, of.checkpointId],
  );
  return rows[0]?.found ?? false;
}

export type DoomedPack = Readonly<{
  tenantId: TenantId;
  packId: string;
  key: string;
  /** Its upload may still be on its way: the object may come once more after it was deleted. */
  mayCome: boolean;
}>;

/**
 * Removes what a thread has in Postgres but for the names of its objects: they are doomed, and returned to be deleted by
 * `removeDoomed`, or by the orphan sweep if whoever asked dies. What may still come keeps its name for `uploadMs`.
 */
export async function doomThread(
  sql: Sql,
  { tenantId, threadId }: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
  uploadMs: number = UPLOAD_MS,
): Promise<DoomedPack[]> {
  const { rows } = await sql.query<DoomedPack>(
    `with writes as (
      delete from checkpoint_writes where tenant_id = $1 and thread_id = $2
    ), versions as (
      delete from channel_versions where tenant_id = $1 and thread_id = $2
    ), staged as (
      delete from staged_bodies where tenant_id = $1 and thread_id = $2
    ), states as (
      delete from checkpoints where tenant_id = $1 and thread_id = $2
    ), was as (
      select pack_id, status = 'pending' as may_come
      from packs
      where tenant_id = $1 and thread_id = $2
      order by pack_id
      for update
    )
    update packs p
    set status = 'doomed', bodies = '{}', body_blocks = '{}',
      delete_after = clock_timestamp() + case when was.may_come then $3::float8 else 0 end * interval '1 ms'
    from was
    where p.tenant_id = $1 and p.pack_id = was.pack_id
    returning p.tenant_id as "tenantId", p.pack_id as "packId", p.key, was.may_come as "mayCome"`,
    [tenantId, threadId, uploadMs],
  );
  return rows;
}

type AnyRow = Readonly<{
  what: "checkpoint" | "value" | "write" | "node" | "pack";
  thread: string;
  ns: string;
  id: string;
  a: string;
  b: string;
  number: number;
  small: number;
  texts: string[];
  texts2: string[];
  data: Buffer;
  hash: Buffer;
  numbers: number[];
  hashes: Buffer[];
  runs: string[] | null;
}>;

function snapshotOf({ rows }: Readonly<{ rows: readonly AnyRow[] }>): Snapshot {
  const checkpoints: StoredCheckpoint[] = [];
  const values = new Map<string, Buffer>();
  const writes = new Map<string, StoredWrite[]>();
  const nodes = new Map<string, PackedNode>();
  const packs = new Map<string, PackAddress>();
  for (const row of rows) {
    if (row.what === "checkpoint") checkpoints.push(checkpointOf(row));
    else if (row.what === "value") values.set(valueKey(row.thread, row.ns, row.id, row.a), row.data);
    else if (row.what === "write") {
      const key = checkpointKey(row.thread, row.ns, row.id);
      const { a: taskId, small: idx, texts, b: channel, data } = row;
      const write = { taskId, idx, taskPath: texts[0] ?? "", channel, data };
      writes.set(key, [...(writes.get(key) ?? []), write]);
    } else if (row.what === "node") {
      nodes.set(row.hash.toString("base64url"), { kind: row.small as PackedNode["kind"], data: row.data });
    } else {
      packs.set(row.id, { packId: row.id, key: row.a, offsets: row.numbers, hashes: row.hashes });
    }
  }
  checkpoints.sort((a, b) => b.seq - a.seq);
  return { checkpoints, values, writes, nodes, packs };
}

function checkpointOf(row: AnyRow): StoredCheckpoint {
  const { thread: threadId, ns, id: checkpointId, a, b, number: seq, small, texts, texts2, data, runs } = row;
  const parentId = (a as string | null) ?? null;
  const place = (b as string | null) === null ? null : { packId: b, block: small };
  const here = (data as Buffer | null) === null ? null : { channels: texts, versions: texts2, head: data };
  return { threadId, ns, checkpointId, parentId, seq, here, place, writtenBy: runs };
}
