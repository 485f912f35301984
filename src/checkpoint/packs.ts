// The life of a pack's row: pending before the upload, stored by the transaction that points to it, doomed when it is
// too late for that. Only what is pending can become stored, so that nothing ever points to a deleted object.
import { PREPARED, type Sql } from "../core/deps.js";
import type { TenantId, ThreadId } from "../core/ids.js";

/** How long an upload may take until the transaction that points to it. */
export const UPLOAD_MS = 24 * 60 * 60_000;

export type NewPack = Readonly<{
  tenantId: TenantId;
  threadId: ThreadId;
  packId: string;
  kind: "pack" | "manifest";
  key: string;
  bytes: number;
  offsets: readonly number[];
  hashes: readonly Buffer[];
  entries: number;
}>;

export async function insertPendingPack(sql: Sql, pack: NewPack): Promise<void> {
  await sql.query(
    `insert into packs (tenant_id, pack_id, thread_id, kind, status, key, bytes, block_offsets, block_hashes, entries)
    values ($1, $2, $3, $4, 'pending', $5, $6, $7, $8, $9)`,
    [
      pack.tenantId,
      pack.packId,
      pack.threadId,
      pack.kind,
      pack.key,
      pack.bytes,
      pack.offsets,
      pack.hashes,
      pack.entries,
    ],
    PREPARED,
  );
}

type PackKey = Readonly<{ tenantId: TenantId; packId: string }>;

/** False when the pack was doomed meanwhile: then nothing may point to it. */
export async function markPackStored(sql: Sql, pack: PackKey): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update packs set status = 'stored' where tenant_id = $1 and pack_id = $2 and status = 'pending'`,
    [pack.tenantId, pack.packId],
    PREPARED,
  );
  return rowCount === 1;
}

/** Nothing can point to this pack any more; its object may be deleted. */
export async function doomPack(sql: Sql, pack: PackKey): Promise<void> {
  await sql.query(
    `update packs set status = 'doomed', delete_after = clock_timestamp()
    where tenant_id = $1 and pack_id = $2 and status = 'pending'`,
    [pack.tenantId, pack.packId],
  );
}

/** Another manifest has taken this one's place, and nothing links to it; returns its key. */
export async function doomManifest(sql: Sql, pack: PackKey): Promise<string | undefined> {
  const { rows } = await sql.query<{ key: string }>(
    `update packs set status = 'doomed', delete_after = clock_timestamp()
    where tenant_id = $1 and pack_id = $2 and kind = 'manifest' and status = 'stored'
    returning key`,
    [pack.tenantId, pack.packId],
  );
  return rows[0]?.key;
}

/** Dooms what has been pending for longer than the grace time, and returns doomed ones whose objects may go. */
export async function doomOldPacks(
  sql: Sql,
  sweep: Readonly<{ graceMs: number; limit: number }>,
): Promise<(PackKey & Readonly<{ key: string }>)[]> {
  await sql.query(
    `with old as (
      select tenant_id, pack_id
      from packs
      where status = 'pending' and created_at < clock_timestamp() - $1::float8 * interval '1 ms'
      order by created_at
      limit $2
      for update skip locked
    )
    update packs p
    set status = 'doomed', delete_after = clock_timestamp()
    from old
    where p.tenant_id = old.tenant_id and p.pack_id = old.pack_id and p.status = 'pending'`,
    [sweep.graceMs, sweep.limit],
  );
  const { rows } = await sql.query<PackKey & { key: string }>(
    `select tenant_id as "tenantId", pack_id as "packId", key
    from packs
    where status = 'doomed' and delete_after <= clock_timestamp()
    order by created_at
    limit $1`,
    [sweep.limit],
  );
  return rows;
}

/** The last step, after the objects are gone. */
export async function deleteDoomedPacks(sql: Sql, packs: readonly PackKey[]): Promise<void> {
  await sql.query(
    `delete from packs p
    using unnest($1::text[], $2::uuid[]) d(tenant_id, pack_id)
    where p.tenant_id = d.tenant_id and p.pack_id = d.pack_id and p.status = 'doomed'`,
    [packs.map((p) => p.tenantId), packs.map((p) => p.packId)],
  );
}
