// Packs of which little is in use: found, emptied into new ones, and given up. Only rows; the objects are the caller's.
import type { Sql } from "../../core/deps.js";
import { setBodies, takeBodies } from "../moved-bodies.js";
import type { ThreadKey } from "../move-queries.js";
import type { PackAddress } from "../pack-types.js";
import { type RunsInPack, USED } from "./packs-used.js";

/**
 * Gives up the packs and objects that nothing points to, but for those in `inUse`: their objects may be deleted after the grace
 * time, until when readers that were on their way find them. The thread must be locked. Returns how many.
 */
export async function retirePacks(
  sql: Sql,
  key: ThreadKey,
  retire: Readonly<{ inUse: readonly string[]; graceMs: number }>,
): Promise<number> {
  const { rowCount } = await sql.query(
    `update packs p
    set status = 'doomed', delete_after = clock_timestamp() + $4::float8 * interval '1 ms'
    where p.tenant_id = $1 and p.thread_id = $2 and p.status = 'stored' and p.kind <> 'manifest'
      and p.pack_id <> all ($3::uuid[])
      and cardinality(p.bodies) = 0
      and not exists (select 1 from checkpoints c where c.tenant_id = $1 and c.pack_id = p.pack_id)`,
    [key.tenantId, key.threadId, retire.inUse, retire.graceMs],
  );
  return rowCount;
}

export type SparsePack = Readonly<{ bytes: number; address: PackAddress }>;

/** Packs of which at most `share` of the entries are in use, the emptiest first. */
export async function sparsePacks(
  sql: Sql,
  key: ThreadKey,
  find: Readonly<{ share: number; runs: readonly RunsInPack[]; except: readonly string[] }>,
): Promise<SparsePack[]> {
  const { rows } = await sql.query<PackAddress & Readonly<{ bytes: number }>>(
    `with ${USED}
    select pack_id as "packId", key, bytes, block_offsets as offsets, block_hashes as hashes
    from used
    where kind = 'pack' and share > 0 and share <= $5 and pack_id <> all ($6::uuid[])
    order by share, pack_id`,
    [key.tenantId, key.threadId, find.runs.map((r) => r.packId), find.runs.map((r) => r.runs), find.share, find.except],
  );
  return rows.map(({ bytes, ...address }) => ({ bytes, address }));
}

export type PointerRow = Readonly<{
  hash: Buffer | null;
  ns: string | null;
  checkpointId: string | null;
  /** Of a pruned checkpoint: what of it is still needed. */
  deltaChannels: readonly string[] | null;
  /** Other runs whose writes in its record count. */
  writtenBy: readonly string[] | null;
  block: number;
}>;

/** The bodies (`hash`) and checkpoints (`ns`, `checkpointId`) that are in a pack, by block. */
export async function pointersInto(sql: Sql, key: ThreadKey, packId: string): Promise<PointerRow[]> {
  const { rows } = await sql.query<PointerRow>(
    `select b.hash, null as ns, null::uuid as "checkpointId", null::text[] as "deltaChannels",
      null::uuid[] as "writtenBy", b.block
    from bodies b
    where b.tenant_id = $1 and b.thread_id = $2 and b.pack_id = $3
    union all
    select null, c.ns, c.checkpoint_id, c.delta_channels, c.written_by, c.block
    from checkpoints c
    where c.tenant_id = $1 and c.thread_id = $2 and c.pack_id = $3
    order by block`,
    [key.tenantId, key.threadId, packId],
  );
  return rows;
}

type FromPack = Readonly<{ from: string; block: number }>;
export type RepackedBody = FromPack & Readonly<{ hash: Buffer }>;
export type RepackedCheckpoint = FromPack & Readonly<{ ns: string; checkpointId: string }>;

/** Points bodies and checkpoints that are still in their old packs to the new one; returns how many. */
export async function repoint(
  sql: Sql,
  key: ThreadKey,
  packId: string,
  moved: Readonly<{ bodies: readonly RepackedBody[]; checkpoints: readonly RepackedCheckpoint[] }>,
): Promise<number> {
  const { bodies, checkpoints } = moved;
  const hashes = bodies.map(({ hash }) => hash);
  const from = [...new Set(bodies.map((body) => body.from))];
  const taken = new Set((await takeBodies(sql, key, hashes, from)).map((hash) => hash.toString("base64url")));
  const still = bodies.filter(({ hash }) => taken.delete(hash.toString("base64url")));
  await setBodies(sql, key, packId, still);
  const ofCheckpoints = await sql.query(
    `update checkpoints c
    set pack_id = $3, block = m.block
    from unnest($4::text[], $5::uuid[], $6::uuid[], $7::int[]) m(ns, checkpoint_id, from_pack, block)
    where c.tenant_id = $1 and c.thread_id = $2 and c.ns = m.ns and c.checkpoint_id = m.checkpoint_id
      and c.pack_id = m.from_pack`,
    [
      key.tenantId,
      key.threadId,
      packId,
      checkpoints.map((c) => c.ns),
      checkpoints.map((c) => c.checkpointId),
      checkpoints.map((c) => c.from),
      checkpoints.map((c) => c.block),
    ],
  );
  return still.length + ofCheckpoints.rowCount;
}
