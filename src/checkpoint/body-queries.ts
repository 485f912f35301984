// Where bodies are: staged in Postgres with their bytes, or in which block of which pack.
import type { Sql } from "../core/deps.js";
import type { PackAddress, PackedNode } from "./pack-types.js";

export type FoundBody = Readonly<{ key: string }> &
  (Readonly<{ staged: PackedNode }> | Readonly<{ staged: null; packId: string; block: number }>);

/** The bodies of these keys, and with a staged one the bodies it names. Keys that the thread has no body for are left out. */
export async function findBodies(
  sql: Sql,
  tenantId: string,
  threadId: string,
  keys: readonly string[],
): Promise<FoundBody[]> {
  const { rows } = await sql.query<FoundRow>(
    `with recursive wanted(hash) as (
      select unnest($3::bytea[])
      union
      select r.hash
      from wanted
      join staged_bodies s on s.tenant_id = $1 and s.thread_id = $2 and s.hash = wanted.hash
      cross join lateral unnest(s.refs) as r(hash)
    )
    select wanted.hash, s.kind, s.data, b.pack_id as "packId", b.block
    from wanted
    left join staged_bodies s on s.tenant_id = $1 and s.thread_id = $2 and s.hash = wanted.hash
    left join bodies b on s.hash is null and b.tenant_id = $1 and b.thread_id = $2 and b.hash = wanted.hash
    where s.hash is not null or b.hash is not null`,
    [tenantId, threadId, keys.map((key) => Buffer.from(key, "base64url"))],
    { prepared: true },
  );
  return rows.map(({ hash, kind, data, packId, block }) => ({
    key: hash.toString("base64url"),
    ...(data === null ? { staged: null, packId, block } : { staged: { kind, data } }),
  }));
}

/** `address.key` is the object; a pack's blocks hold many bodies, an object is one, of this kind. */
export type Pack = Readonly<{
  kind: "pack" | "object";
  bytes: number | null;
  bodyKind: PackedNode["kind"] | null;
  address: PackAddress;
}>;

export async function findPacks(sql: Sql, tenantId: string, packIds: readonly string[]): Promise<Pack[]> {
  const { rows } = await sql.query<Omit<Pack, "address"> & PackAddress>(
    `select kind, bytes, body_kind as "bodyKind", pack_id as "packId", key, block_offsets as offsets, block_hashes as hashes
    from packs
    where tenant_id = $1 and pack_id = any ($2::uuid[])`,
    [tenantId, packIds],
  );
  return rows.map(({ kind, bytes, bodyKind, ...address }) => ({ kind, bytes, bodyKind, address }));
}

type FoundRow = Readonly<{
  hash: Buffer;
  kind: PackedNode["kind"];
  data: Buffer | null;
  packId: string;
  block: number;
}>;
