// A thread's rows under another thread's id, with packs of its own.
import type { Sql } from "../core/deps.js";
import type { ThreadId } from "../core/ids.js";
import type { ThreadKey } from "./move-queries.js";

export type PackInUse = Readonly<{ packId: string; kind: "pack" | "object"; key: string }>;

/** The packs and objects that bodies and checkpoints of the thread are in. */
export async function packsInUse(sql: Sql, key: ThreadKey): Promise<PackInUse[]> {
  const { rows } = await sql.query<PackInUse>(
    `select p.pack_id as "packId", p.kind, p.key
    from packs p
    where p.tenant_id = $1 and p.thread_id = $2 and p.status = 'stored' and (
      cardinality(p.bodies) > 0
      or exists (select 1 from checkpoints c where c.tenant_id = $1 and c.pack_id = p.pack_id))
    order by p.pack_id`,
    [key.tenantId, key.threadId],
  );
  return rows;
}

export type PackCopy = Readonly<{ from: string; packId: string; key: string }>;

/** Announces the copy of a pack, pending until the rows of its thread are there; false when the original is gone. */
export async function insertPackCopy(sql: Sql, thread: ThreadKey, copy: PackCopy): Promise<boolean> {
  const { rowCount } = await sql.query(
    `insert into packs (tenant_id, pack_id, thread_id, kind, status, key, bytes, body_kind, entries, block_offsets, block_hashes)
    select p.tenant_id, $3, $2, p.kind, 'pending', $4, p.bytes, p.body_kind, p.entries, p.block_offsets, p.block_hashes
    from packs p
    where p.tenant_id = $1 and p.pack_id = $5 and p.status = 'stored'`,
    [thread.tenantId, thread.threadId, copy.packId, copy.key, copy.from],
  );
  return rowCount === 1;
}

/** Writes all rows of `from` again for the thread `to`, which has none yet; pointers lead to the copies of their packs. */
export async function copyRows(sql: Sql, from: ThreadKey, to: ThreadId, packs: readonly PackCopy[]): Promise<void> {
  const both = [from.tenantId, from.threadId, to];
  const mapping = [packs.map((pack) => pack.from), packs.map((pack) => pack.packId)];
  await sql.query(
    `insert into checkpoints (tenant_id, thread_id, ns, checkpoint_id, parent_id, run_id, attempt, step, source, metadata,
      channels, versions, head, pack_id, block, written_by, delta_channels, created_at)
    select c.tenant_id, $3, c.ns, c.checkpoint_id, c.parent_id, c.run_id, c.attempt, c.step, c.source, c.metadata,
      c.channels, c.versions, c.head, m.pack_id, c.block, c.written_by, c.delta_channels, c.created_at
    from checkpoints c
    left join unnest($4::uuid[], $5::uuid[]) m(from_pack, pack_id) on m.from_pack = c.pack_id
    where c.tenant_id = $1 and c.thread_id = $2
    order by c.seq`,
    [...both, ...mapping],
  );
  await sql.query(
    `update packs copy
    set bodies = p.bodies, body_blocks = p.body_blocks
    from unnest($2::uuid[], $3::uuid[]) m(from_pack, pack_id)
    join packs p on p.tenant_id = $1 and p.pack_id = m.from_pack
    where copy.tenant_id = $1 and copy.pack_id = m.pack_id`,
    [from.tenantId, ...mapping],
  );
  await sql.query(
    `insert into staged_bodies (tenant_id, thread_id, hash, kind, refs, data)
    select s.tenant_id, $3, s.hash, s.kind, s.refs, s.data
    from staged_bodies s
    where s.tenant_id = $1 and s.thread_id = $2`,
    both,
  );
  await sql.query(
    `insert into channel_versions (tenant_id, thread_id, ns, channel, version, data, refs)
    select v.tenant_id, $3, v.ns, v.channel, v.version, v.data, v.refs
    from channel_versions v
    where v.tenant_id = $1 and v.thread_id = $2`,
    both,
  );
  await sql.query(
    `insert into checkpoint_writes
      (tenant_id, thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, run_id, attempt, data, refs, created_at)
    select w.tenant_id, $3, w.ns, w.checkpoint_id, w.task_id, w.idx, w.task_path, w.channel, w.run_id, w.attempt, w.data,
      w.refs, w.created_at
    from checkpoint_writes w
    where w.tenant_id = $1 and w.thread_id = $2`,
    both,
  );
}
