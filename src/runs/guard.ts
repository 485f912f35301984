// The fence: what proves, inside a statement, that an attempt still owns its run.
// It locks the run rows in one order before it updates them: a plain join commits stale rows after a takeover (measured),
// and unordered locks of two workers deadlock.
import type { Lease } from "../core/clock.js";
import type { Sql } from "../core/deps.js";

/** How many parameters FENCE_CTES uses: tenants, run ids, attempts, wanted commit numbers, progress flags, owner. */
export const FENCE_PARAM_COUNT = 6;

/**
 * CTEs for a commit. `f(tenant_id, thread_id, run_id, attempt)` holds the runs that are still owned and whose `commit_no`
 * was the wanted one minus 1; what a statement writes must join it. `fence(run_id, how)` tells what became of each:
 * done, already (an earlier try of the same commit was done), lost, gap (a commit in between is missing), or locked (somebody
 * has the row at this moment, which is not waited for: the other runs of the statement would have to wait as well).
 */
export const FENCE_CTES = `
i as (
  select *
  from unnest($1::text[], $2::uuid[], $3::int[], $4::bigint[], $5::boolean[]) u(tenant_id, run_id, attempt, n, progress)
), l as materialized (
  select r.tenant_id, r.run_id, r.commit_no
  from runs r
  where (r.tenant_id, r.run_id, r.attempt) in (select tenant_id, run_id, attempt from i)
    and r.status = 'running' and r.lease_owner = $6
  order by r.run_id
  for no key update skip locked
), f as (
  update runs r
  set commit_no = i.n, begun = true,
    progress_attempt = case when i.progress then r.attempt else r.progress_attempt end
  from i
  join l using (run_id)
  where r.tenant_id = l.tenant_id and r.run_id = l.run_id and l.commit_no = i.n - 1
  returning r.tenant_id, r.thread_id, r.run_id, r.attempt
), fence as (
  select i.run_id,
    case
      when f.run_id is not null then 'done'
      when l.commit_no >= i.n then 'already'
      when l.run_id is not null then 'gap'
      when exists (
        select 1
        from runs r
        where r.tenant_id = i.tenant_id and r.run_id = i.run_id and r.attempt = i.attempt
          and r.status = 'running' and r.lease_owner = $6
      ) then 'locked'
      else 'lost'
    end as how
  from i
  left join l using (run_id)
  left join f using (run_id)
)`;

/** Locks the attempt's run until the transaction ends; false when the lease is lost. */
export async function ownsRun(sql: Sql, lease: Lease): Promise<boolean> {
  const { rowCount } = await sql.query(
    `select 1
    from runs
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running' and lease_owner = $4
    for no key update`,
    [lease.tenantId, lease.runId, lease.attempt, lease.owner],
  );
  return rowCount === 1;
}
