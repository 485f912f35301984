// Which bodies packs hold: the arrays in their rows. Only under the thread's lock, so that each body is in one pack.
import { PREPARED, type Sql } from "../core/deps.js";
import type { ThreadKey } from "./move-queries.js";

export type BodyInBlock = Readonly<{ hash: Buffer; block: number }>;

/** Says what a pack holds. */
export async function setBodies(
  sql: Sql,
  { tenantId }: Pick<ThreadKey, "tenantId">,
  packId: string,
  bodies: readonly BodyInBlock[],
): Promise<void> {
  await sql.query(
    "update packs set bodies = $3, body_blocks = $4 where tenant_id = $1 and pack_id = $2",
    [tenantId, packId, bodies.map(({ hash }) => hash), bodies.map(({ block }) => block)],
    PREPARED,
  );
}

/** Takes these bodies out of the packs they are in, or of these packs only; returns those that it found. */
export async function takeBodies(
  sql: Sql,
  key: ThreadKey,
  hashes: readonly Buffer[],
  from: readonly string[] | null = null,
): Promise<Buffer[]> {
  const { rows } = await sql.query<{ taken: Buffer[] }>(
    `with wanted as materialized (
      select unnest($3::bytea[]) as hash
    ), split as (
      select p.pack_id, array_agg(b.hash) filter (where b.wanted) as taken,
        coalesce(array_agg(b.hash order by b.n) filter (where not b.wanted), '{}') as bodies,
        coalesce(array_agg(b.block order by b.n) filter (where not b.wanted), '{}') as body_blocks
      from packs p
      cross join lateral (
        select u.hash, u.block, u.n, u.hash in (select w.hash from wanted w) as wanted
        from unnest(p.bodies, p.body_blocks) with ordinality u(hash, block, n)
      ) b
      where p.tenant_id = $1 and p.thread_id = $2 and p.status = 'stored' and ($4::uuid[] is null or p.pack_id = any ($4))
      group by p.pack_id
      having bool_or(b.wanted)
    )
    update packs p
    set bodies = split.bodies, body_blocks = split.body_blocks
    from split
    where p.tenant_id = $1 and p.pack_id = split.pack_id
    returning split.taken`,
    [key.tenantId, key.threadId, hashes, from],
  );
  return rows.flatMap(({ taken }) => taken);
}
