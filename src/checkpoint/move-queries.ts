// What the mover reads of this folder's tables, and how it changes them once the pack is in the object store.
// A row that changed since it was read (its xmin tells) stays for the next move: what was uploaded doesn't hold it.
import { PREPARED, type Sql } from "../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";
import { type BodyInBlock, setBodies } from "./moved-bodies.js";
import type { PackAddress } from "./pack-types.js";

export type ThreadKey = Readonly<{ tenantId: TenantId; threadId: ThreadId }>;

export type StagedNode = Readonly<{ hash: Buffer; kind: 0 | 1 | 2; data: Buffer }>;

/** Bodies that are in Postgres only, oldest first: at least one, then as many as begin before `maxBytes`. */
export async function stagedNodes(sql: Sql, key: ThreadKey, maxBytes: number): Promise<StagedNode[]> {
  const { rows } = await sql.query<StagedNode>(
    `with moved as materialized (
      select b.hash from bodies b where b.tenant_id = $1 and b.thread_id = $2
    ), sized as (
      select s.hash, s.kind, s.data, s.created_at,
        sum(octet_length(s.data)) over (order by s.created_at, s.hash) - octet_length(s.data) as bytes_before
      from staged_bodies s
      where s.tenant_id = $1 and s.thread_id = $2 and s.hash not in (select m.hash from moved m)
    )
    select hash, kind, data
    from sized
    where bytes_before < $3
    order by created_at, hash`,
    [key.tenantId, key.threadId, maxBytes],
    PREPARED,
  );
  return rows;
}

/** Which of these bodies the thread has, in Postgres or in the object store: their keys. */
export async function heldBodies(sql: Sql, key: ThreadKey, hashes: readonly Buffer[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ hash: Buffer }>(
    `select s.hash
    from staged_bodies s
    where s.tenant_id = $1 and s.thread_id = $2 and s.hash = any ($3::bytea[])
    union
    select b.hash
    from bodies b
    where b.tenant_id = $1 and b.thread_id = $2 and (b.hash in (select unnest($3::bytea[]))) is true`,
    [key.tenantId, key.threadId, hashes],
    PREPARED,
  );
  return new Set(rows.map(({ hash }) => hash.toString("base64url")));
}

export type UnmovedCheckpoint = Readonly<{
  seq: number;
  ns: string;
  checkpointId: string;
  channels: readonly string[];
  versions: readonly string[];
  head: Buffer;
  runId: string | null;
  rowVersion: string;
  /** It was moved before, and put again since: the writes in its record belong to it still. */
  moved: RecordPlace | null;
}>;

/** Where the record of a moved checkpoint is, and the other runs whose writes in it count. */
export type RecordPlace = Readonly<{ block: number; pack: PackAddress; writtenBy: readonly string[] | null }>;

/** Checkpoints whose content is in Postgres, in the order they were put; without the newest of each ns if `keepNewest`. */
export async function unmovedCheckpoints(
  sql: Sql,
  key: ThreadKey,
  page: Readonly<{ afterSeq: number; limit: number; keepNewest: boolean }>,
): Promise<UnmovedCheckpoint[]> {
  const { rows } = await sql.query<Omit<UnmovedCheckpoint, "moved"> & PlaceRow>(
    `select c.seq, c.ns, c.checkpoint_id as "checkpointId", c.channels, c.versions, c.head, c.run_id as "runId",
      c.xmin::text as "rowVersion", c.written_by as "writtenBy", c.block, p.pack_id as "packId", p.key, p.block_offsets as offsets, p.block_hashes as hashes
    from checkpoints c
    left join packs p on p.tenant_id = c.tenant_id and p.pack_id = c.pack_id
    where c.tenant_id = $1 and c.thread_id = $2 and c.head is not null and c.seq > $3
      and not ($5 and c.seq = (
        select max(n.seq) from checkpoints n where n.tenant_id = $1 and n.thread_id = $2 and n.ns = c.ns
      ))
    order by c.seq
    limit $4`,
    [key.tenantId, key.threadId, page.afterSeq, page.limit, page.keepNewest],
    PREPARED,
  );
  return rows.map(({ packId, key: packKey, offsets, hashes, block, writtenBy, ...rest }) => ({
    ...rest,
    moved: packId === null ? null : { block, writtenBy, pack: { packId, key: packKey, offsets, hashes } },
  }));
}

export type CurrentState = Readonly<{
  seq: number;
  ns: "";
  checkpointId: string;
  runId: RunId | null;
  channels: readonly string[];
  versions: readonly string[];
}>;

/** The newest checkpoint of the root graph, unless it was moved. */
export async function currentState(sql: Sql, key: ThreadKey): Promise<CurrentState | undefined> {
  const { rows } = await sql.query<CurrentState & Readonly<{ moved: boolean }>>(
    `select seq, ns, checkpoint_id as "checkpointId", run_id as "runId", channels, versions, head is null as moved
    from checkpoints
    where tenant_id = $1 and thread_id = $2 and ns = ''
    order by seq desc
    limit 1`,
    [key.tenantId, key.threadId],
    PREPARED,
  );
  return rows[0]?.moved === false ? rows[0] : undefined;
}

export type StoredValue = Readonly<{ ns: string; channel: string; version: string; data: Buffer }>;

/** The values at these versions; a channel that is empty at its version has none. */
export async function valuesAt(
  sql: Sql,
  key: ThreadKey,
  at: readonly Readonly<{ ns: string; channel: string; version: string }>[],
): Promise<StoredValue[]> {
  const { rows } = await sql.query<StoredValue>(
    `select v.ns, v.channel, v.version, v.data
    from channel_versions v
    where v.tenant_id = $1 and v.thread_id = $2 and v.data is not null
      and (v.ns, v.channel, v.version) in (select * from unnest($3::text[], $4::text[], $5::text[]))`,
    [key.tenantId, key.threadId, at.map((v) => v.ns), at.map((v) => v.channel), at.map((v) => v.version)],
    PREPARED,
  );
  return rows;
}

type CheckpointKey = Readonly<{ ns: string; checkpointId: string }>;

export type StoredWrite = CheckpointKey &
  Readonly<{
    taskId: string;
    idx: number;
    taskPath: string;
    channel: string;
    data: Buffer;
    runId: string | null;
    rowVersion: string;
  }>;

/** The writes of these checkpoints that are in Postgres. */
export async function writesOf(
  sql: Sql,
  key: ThreadKey,
  checkpoints: readonly CheckpointKey[],
): Promise<StoredWrite[]> {
  if (checkpoints.length === 0) return [];
  const { rows } = await sql.query<StoredWrite>(
    `select w.ns, w.checkpoint_id as "checkpointId", w.task_id as "taskId", w.idx, w.task_path as "taskPath",
      w.channel, w.data, w.run_id as "runId", w.xmin::text as "rowVersion"
    from checkpoint_writes w
    where w.tenant_id = $1 and w.thread_id = $2
      and (w.ns, w.checkpoint_id) in (select * from unnest($3::text[], $4::uuid[]))
    order by w.task_path, w.task_id, w.idx`,
    [key.tenantId, key.threadId, checkpoints.map((c) => c.ns), checkpoints.map((c) => c.checkpointId)],
    PREPARED,
  );
  return rows;
}

export type LateCheckpoint = CheckpointKey & Readonly<{ runId: string | null; rowVersion: string; moved: RecordPlace }>;

/** Moved checkpoints that got writes since: their records must be written again. */
export async function checkpointsWithLateWrites(
  sql: Sql,
  key: ThreadKey,
  page: Readonly<{ limit: number; keepNewest: boolean }>,
): Promise<LateCheckpoint[]> {
  const { rows } = await sql.query<Omit<LateCheckpoint, "moved"> & PackRow & Pick<RecordPlace, "block" | "writtenBy">>(
    `select c.ns, c.checkpoint_id as "checkpointId", c.run_id as "runId", c.xmin::text as "rowVersion", c.block,
      c.written_by as "writtenBy", p.pack_id as "packId", p.key, p.block_offsets as offsets, p.block_hashes as hashes
    from checkpoints c
    join packs p on p.tenant_id = c.tenant_id and p.pack_id = c.pack_id
    where c.tenant_id = $1 and c.thread_id = $2 and c.head is null
      and exists (
        select 1
        from checkpoint_writes w
        where w.tenant_id = $1 and w.thread_id = $2 and w.ns = c.ns and w.checkpoint_id = c.checkpoint_id
      )
      and not ($4 and c.seq = (
        select max(n.seq) from checkpoints n where n.tenant_id = $1 and n.thread_id = $2 and n.ns = c.ns
      ))
    order by c.seq
    limit $3`,
    [key.tenantId, key.threadId, page.limit, page.keepNewest],
    PREPARED,
  );
  return rows.map(({ packId, key: packKey, offsets, hashes, block, writtenBy, ...rest }) => ({
    ...rest,
    moved: { block, writtenBy, pack: { packId, key: packKey, offsets, hashes } },
  }));
}

type PlaceRow = Pick<RecordPlace, "writtenBy"> &
  ((PackRow & Pick<RecordPlace, "block">) | Readonly<Record<keyof PackRow | "block", null>>);
type PackRow = Readonly<{ packId: string; key: string; offsets: number[]; hashes: Buffer[] }>;

/** Where a stored pack is. */
export async function packAddress(sql: Sql, tenantId: TenantId, packId: string): Promise<PackAddress | undefined> {
  const { rows } = await sql.query<PackRow>(
    `select pack_id as "packId", key, block_offsets as offsets, block_hashes as hashes
    from packs
    where tenant_id = $1 and pack_id = $2 and status = 'stored'`,
    [tenantId, packId],
  );
  return rows[0];
}

/** `writtenBy`: the runs that its record names. */
export type PlacedCheckpoint = CheckpointKey &
  Readonly<{ rowVersion: string; block: number; writtenBy: readonly string[] }>;

/** Points checkpoints to their records in the pack; returns those that had not changed since they were read. */
export async function placeCheckpoints(
  sql: Sql,
  key: ThreadKey,
  packId: string,
  placed: readonly PlacedCheckpoint[],
  keepNewest: boolean,
): Promise<(CheckpointKey & Readonly<{ seq: number; runId: RunId | null }>)[]> {
  const { rows } = await sql.query<CheckpointKey & { seq: number; runId: RunId | null }>(
    `update checkpoints c
    set pack_id = $3, block = p.block, channels = null, versions = null, head = null,
      written_by = nullif(array(select json_array_elements_text(p.written_by)::uuid), '{}')
    from unnest($4::text[], $5::uuid[], $6::text[], $7::int[], $9::json[])
      p(ns, checkpoint_id, row_version, block, written_by)
    where c.tenant_id = $1 and c.thread_id = $2 and c.ns = p.ns and c.checkpoint_id = p.checkpoint_id
      and c.xmin::text = p.row_version
      and not ($8 and c.seq = (
        select max(n.seq) from checkpoints n where n.tenant_id = $1 and n.thread_id = $2 and n.ns = c.ns
      ))
    returning c.ns, c.checkpoint_id as "checkpointId", c.seq, c.run_id as "runId"`,
    [
      key.tenantId,
      key.threadId,
      packId,
      placed.map((c) => c.ns),
      placed.map((c) => c.checkpointId),
      placed.map((c) => c.rowVersion),
      placed.map((c) => c.block),
      keepNewest,
      placed.map((c) => JSON.stringify(c.writtenBy)),
    ],
    PREPARED,
  );
  return rows;
}

/** Deletes writes that are in a record now. One that was replaced meanwhile stays, and counts more than the record. */
export async function deleteRecordedWrites(
  sql: Sql,
  key: ThreadKey,
  writes: readonly Pick<StoredWrite, "ns" | "checkpointId" | "taskId" | "idx" | "rowVersion">[],
): Promise<void> {
  if (writes.length === 0) return;
  await sql.query(
    `delete from checkpoint_writes w
    using unnest($3::text[], $4::uuid[], $5::text[], $6::int[], $7::text[]) m(ns, checkpoint_id, task_id, idx, row_version)
    where w.tenant_id = $1 and w.thread_id = $2 and w.ns = m.ns and w.checkpoint_id = m.checkpoint_id
      and w.task_id = m.task_id and w.idx = m.idx and w.xmin::text = m.row_version`,
    [
      key.tenantId,
      key.threadId,
      writes.map((w) => w.ns),
      writes.map((w) => w.checkpointId),
      writes.map((w) => w.taskId),
      writes.map((w) => w.idx),
      writes.map((w) => w.rowVersion),
    ],
    PREPARED,
  );
}

/** Deletes writes whose checkpoint never came. Only when no run of the thread could still put it. */
export async function deleteStrayWrites(sql: Sql, key: ThreadKey): Promise<number> {
  const { rowCount } = await sql.query(
    `delete from checkpoint_writes w
    where w.tenant_id = $1 and w.thread_id = $2
      and not exists (
        select 1
        from checkpoints c
        where c.tenant_id = $1 and c.thread_id = $2 and c.ns = w.ns and c.checkpoint_id = w.checkpoint_id
      )`,
    [key.tenantId, key.threadId],
    PREPARED,
  );
  return rowCount;
}

/** Deletes the channel values that no checkpoint in Postgres names any more. */
export async function deleteUnnamedValues(sql: Sql, key: ThreadKey): Promise<number> {
  const { rowCount } = await sql.query(
    `with named as materialized (
      select distinct c.ns, u.channel, u.version
      from checkpoints c
      cross join lateral unnest(c.channels, c.versions) u(channel, version)
      where c.tenant_id = $1 and c.thread_id = $2 and c.head is not null
    )
    delete from channel_versions v
    where v.tenant_id = $1 and v.thread_id = $2
      and not exists (select 1 from named n where n.ns = v.ns and n.channel = v.channel and n.version = v.version)`,
    [key.tenantId, key.threadId],
    PREPARED,
  );
  return rowCount;
}

/** Notes where bodies are now. A body that was placed before keeps its place. */
export async function placeNodes(
  sql: Sql,
  key: ThreadKey,
  packId: string,
  placed: readonly BodyInBlock[],
): Promise<void> {
  if (placed.length === 0) return;
  const { rows } = await sql.query<{ hash: Buffer }>(
    `select b.hash
    from bodies b
    where b.tenant_id = $1 and b.thread_id = $2 and (b.hash in (select unnest($3::bytea[]))) is true`,
    [key.tenantId, key.threadId, placed.map(({ hash }) => hash)],
    PREPARED,
  );
  const before = new Set(rows.map(({ hash }) => hash.toString("base64url")));
  const fresh = new Map(placed.map((body) => [body.hash.toString("base64url"), body]));
  for (const name of before) fresh.delete(name);
  await setBodies(sql, key, packId, [...fresh.values()]);
}

/** Whether something of the thread's states is still in Postgres only. */
export async function hasUnmoved(sql: Sql, key: ThreadKey): Promise<boolean> {
  const { rows } = await sql.query<{ found: boolean }>(
    `select exists (select 1 from staged_bodies s where s.tenant_id = $1 and s.thread_id = $2)
      or exists (select 1 from checkpoint_writes w where w.tenant_id = $1 and w.thread_id = $2)
      or exists (select 1 from checkpoints c where c.tenant_id = $1 and c.thread_id = $2 and c.head is not null) as found`,
    [key.tenantId, key.threadId],
    PREPARED,
  );
  return rows[0]?.found ?? false;
}

/** Deletes staged bodies that are in the object store as well; returns how many. */
export async function deletePlacedNodes(sql: Sql, key: ThreadKey): Promise<number> {
  const { rowCount } = await sql.query(
    `delete from staged_bodies s
    where s.tenant_id = $1 and s.thread_id = $2
      and (s.hash in (select b.hash from bodies b where b.tenant_id = $1 and b.thread_id = $2)) is true`,
    [key.tenantId, key.threadId],
    PREPARED,
  );
  return rowCount;
}
