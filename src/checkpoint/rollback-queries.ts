// Takes back what runs stored on their thread, but for what others have grown from. Bodies that nothing names any more are left to
// a prune, which looks at the store.
import type { Sql } from "../core/deps.js";
import type { RunId } from "../core/ids.js";
import type { ThreadKey } from "./move-queries.js";
import { deleteUnneededValues, deleteUnneededWrites } from "./prune/sweep-queries.js";

/**
 * Deletes the runs' checkpoints and writes, moved or not; returns how many checkpoints. A state that a state of another run grew
 * from stays, with those before it and those of its subgraphs: it is that run's history as well. The thread must be locked and the
 * runs be over.
 */
export async function takeBackStates(
  sql: Sql,
  run: ThreadKey & Readonly<{ runIds: readonly RunId[] }>,
): Promise<number> {
  const { rowCount } = await sql.query(
    `with recursive own as materialized (
      select ns, checkpoint_id, parent_id, metadata -> 'parents' ->> '' as root_id
      from checkpoints
      where tenant_id = $1 and thread_id = $2 and run_id = any ($3::uuid[])
    ), shared as (
      select o.ns, o.checkpoint_id, o.parent_id
      from own o
      where exists (
        select 1
        from checkpoints c
        where c.tenant_id = $1 and c.thread_id = $2 and c.ns = o.ns and c.parent_id = o.checkpoint_id
          and not coalesce(c.run_id = any ($3::uuid[]), false)
      )
      union
      select o.ns, o.checkpoint_id, o.parent_id
      from shared s
      join own o on o.ns = s.ns and o.checkpoint_id = s.parent_id
    )
    delete from checkpoints c
    using own o
    where c.tenant_id = $1 and c.thread_id = $2 and c.ns = o.ns and c.checkpoint_id = o.checkpoint_id
      and not exists (select 1 from shared s where s.ns = o.ns and s.checkpoint_id = o.checkpoint_id)
      and not exists (select 1 from shared s where s.ns = '' and o.ns <> '' and s.checkpoint_id::text = o.root_id)`,
    [run.tenantId, run.threadId, run.runIds],
  );
  await takeBackWrites(sql, run);
  await deleteUnneededWrites(sql, run);
  await deleteUnneededValues(sql, run);
  return rowCount;
}

/**
 * What they were about to do next to a state of somebody else's: answers and results. Those stay that a state is rebuilt from which
 * stays. Where rows go the state's own row is written as well: what a mover has read of it before doesn't hold any more.
 */
async function takeBackWrites(sql: Sql, run: ThreadKey & Readonly<{ runIds: readonly RunId[] }>): Promise<void> {
  await sql.query(
    `with rebuilt_from as materialized (
      select s.ns, s.parent_id as checkpoint_id
      from checkpoints s
      where s.tenant_id = $1 and s.thread_id = $2 and s.parent_id is not null
        and jsonb_typeof(s.metadata -> 'counters_since_delta_snapshot') = 'object'
        and s.metadata -> 'counters_since_delta_snapshot' <> '{}'
    ), gone as (
      delete from checkpoint_writes w
      where w.tenant_id = $1 and w.thread_id = $2 and w.run_id = any ($3::uuid[])
        and not exists (
          select 1
          from checkpoints c
          where c.tenant_id = $1 and c.thread_id = $2 and c.ns = w.ns and c.checkpoint_id = w.checkpoint_id
            and c.run_id = w.run_id
        )
        and (w.ns, w.checkpoint_id) not in (select r.ns, r.checkpoint_id from rebuilt_from r)
      returning w.ns, w.checkpoint_id
    )
    update checkpoints c
    set written_by = nullif(array(select u from unnest(c.written_by) u where u <> all ($3::uuid[])), '{}')
    where c.tenant_id = $1 and c.thread_id = $2 and (
      (c.ns, c.checkpoint_id) in (select g.ns, g.checkpoint_id from gone g)
      or (c.written_by && $3::uuid[] and (c.ns, c.checkpoint_id) not in (select r.ns, r.checkpoint_id from rebuilt_from r)))`,
    [run.tenantId, run.threadId, run.runIds],
  );
}
