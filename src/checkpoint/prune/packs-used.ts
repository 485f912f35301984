// How much of each of a thread's packs and objects is in use, as a part of statements.

/** How many runs have their content in each of these packs. */
export type RunsInPack = Readonly<{ packId: string; runs: number }>;

/** A CTE `used` of the packs and objects of thread $2, `share` of whose entries something points to; runs at $3 and $4. */
export const USED = `
used as (
  select p.pack_id, p.kind, p.key, p.bytes, p.block_offsets, p.block_hashes,
    (cardinality(p.bodies) + coalesce(c.n, 0) + coalesce(r.n, 0))::float8 / greatest(1, p.entries) as share
  from packs p
  left join (
    select pack_id, count(*) as n
    from checkpoints
    where tenant_id = $1 and thread_id = $2 and pack_id is not null
    group by pack_id
  ) c using (pack_id)
  left join unnest($3::uuid[], $4::int[]) r(pack_id, n) using (pack_id)
  where p.tenant_id = $1 and p.thread_id = $2 and p.status = 'stored' and p.kind in ('pack', 'object')
)`;
