// Where bodies are: staged in Postgres with their bytes, or in which block of which pack.
//
// The hashes of moved bodies stand in arrays, one per pack. `(hash in (select …)) is true` looks each of them up in a hash table
// of what is wanted, whatever the planner thinks of either's size: as a join it might compare all with all.
import { PREPARED, type Sql } from "../core/deps.js";
import type { PackAddress, PackedNode } from "./pack-types.js";

type InPack = Readonly<{ staged: null; packId: string; block: number }>;
export type FoundBody = Readonly<{ key: string }> & (Readonly<{ staged: PackedNode }> | InPack);
/** `staged` are the keys of the bodies it names. */
export type BodyPlace = Readonly<{ key: string }> & (Readonly<{ staged: readonly string[] }> | InPack);

/** The bodies at $3 and what of them is staged, with those it names, then where the others are. */
const lookUp = (columns: string) => `
with recursive wanted(hash) as (
  select unnest($3::bytea[])
  union
  select r.hash
  from wanted
  join staged_bodies s on s.tenant_id = $1 and s.thread_id = $2 and s.hash = wanted.hash
  cross join lateral unnest(s.refs) as r(hash)
), looked as materialized (
  select wanted.hash, s.hash is not null as staged, ${columns}
  from wanted
  left join staged_bodies s on s.tenant_id = $1 and s.thread_id = $2 and s.hash = wanted.hash
)
select l.*, null::uuid as "packId", null::int as block
from looked l
where l.staged
union all
select b.hash, false, null, null, b.pack_id, b.block
from bodies b
where b.tenant_id = $1 and b.thread_id = $2 and exists (select 1 from looked l where not l.staged)
  and (b.hash in (select l.hash from looked l where not l.staged)) is true`;

const WITH_DATA = lookUp("s.kind, s.data");
const WITH_REFS = lookUp("s.refs, null::int as nothing");

type Row<Columns> = Readonly<{ hash: Buffer }> &
  ((Columns & Readonly<{ staged: true }>) | Readonly<{ staged: false; packId: string; block: number }>);

/** The bodies of these keys, and with a staged one the bodies it names. Keys that the thread has no body for are left out. */
export async function findBodies(
  sql: Sql,
  tenantId: string,
  threadId: string,
  keys: readonly string[],
): Promise<FoundBody[]> {
  if (keys.length === 0) return [];
  const params = [tenantId, threadId, keys.map(hashOf)];
  const { rows } = await sql.query<Row<PackedNode>>(WITH_DATA, params, PREPARED);
  return rows.map((row) => placeOf(row, ({ kind, data }) => ({ kind, data })));
}

/** The same without their bytes. */
export async function bodyPlaces(
  sql: Sql,
  tenantId: string,
  threadId: string,
  keys: readonly string[],
): Promise<BodyPlace[]> {
  const { rows } = await sql.query<Row<Readonly<{ refs: Buffer[] | null }>>>(WITH_REFS, [
    tenantId,
    threadId,
    keys.map(hashOf),
  ]);
  return rows.map((row) => placeOf(row, ({ refs }) => (refs ?? []).map(keyOf)));
}

function placeOf<Columns, Staged>(row: Row<Columns>, staged: (columns: Columns) => Staged) {
  const key = keyOf(row.hash);
  return row.staged ? { key, staged: staged(row) } : { key, staged: null, packId: row.packId, block: row.block };
}

const hashOf = (key: string) => Buffer.from(key, "base64url");
const keyOf = (hash: Buffer) => hash.toString("base64url");

/** `address.key` is the object; a pack's blocks hold many bodies, an object is one, of this kind. */
export type Pack = Readonly<{
  kind: "pack" | "object";
  bytes: number | null;
  bodyKind: PackedNode["kind"] | null;
  address: PackAddress;
}>;

export async function findPacks(sql: Sql, tenantId: string, packIds: readonly string[]): Promise<Pack[]> {
  if (packIds.length === 0) return [];
  const { rows } = await sql.query<Omit<Pack, "address"> & PackAddress>(
    `select kind, bytes, body_kind as "bodyKind", pack_id as "packId", key, block_offsets as offsets, block_hashes as hashes
    from packs
    where tenant_id = $1 and pack_id = any ($2::uuid[])`,
    [tenantId, packIds],
    PREPARED,
  );
  return rows.map(({ kind, bytes, bodyKind, ...address }) => ({ kind, bytes, bodyKind, address }));
}
