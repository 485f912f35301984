// The order of a thread's runs: which is the next one, and when those that wait join it.
import type { Sql } from "../core/deps.js";
import type { TenantId, ThreadId } from "../core/ids.js";
import { RUN_COLUMNS, type RunKey, type RunRow } from "./runs.js";

/** Marks the first run of the thread that may start as its head. The thread row must be locked. Returns whether there is one. */
export async function makeNextHead(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
): Promise<boolean> {
  const { rows } = await sql.query<{ found: boolean }>(
    `with next as (
      select run_id
      from runs
      where tenant_id = $1 and thread_id = $2 and status = 'pending'
        and (available_at is null or merge_until is not null) and waits_for is distinct from 'approval'
        and not exists (select 1 from runs h where h.tenant_id = $1 and h.thread_id = $2 and h.head)
      order by seq
      limit 1
    ), made as (
      update runs r
      set head = true
      from next
      where r.tenant_id = $1 and r.run_id = next.run_id
      returning r.run_id
    )
    select exists (select 1 from made) as found`,
    [key.tenantId, key.threadId],
  );
  return rows[0]?.found ?? false;
}

/** Gives inputs that waited for an answer their turn. Returns how many did. */
export async function releaseQueuedInputs(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
): Promise<number> {
  const { rowCount } = await sql.query(
    `update runs
    set waits_for = case when available_at is not null then 'timer' end, updated_at = clock_timestamp()
    where tenant_id = $1 and thread_id = $2 and status = 'pending' and waits_for = 'approval'`,
    [key.tenantId, key.threadId],
  );
  return rowCount;
}

/** A delayed, sleeping or backed-off run may go on now. A run that never began takes its place in the order at this moment; with `held` it waits for an answer first. */
export async function releaseRun(sql: Sql, key: RunKey & Readonly<{ held: boolean }>): Promise<RunRow | undefined> {
  const { rows } = await sql.query<RunRow>(
    `update runs
    set available_at = null, waits_for = case when $3 or waits_for = 'approval' then 'approval' end,
      updated_at = clock_timestamp(), seq = case when begun or merge_until is not null then seq else nextval('run_seq') end
    where tenant_id = $1 and run_id = $2 and status = 'pending' and available_at is not null
    returning ${RUN_COLUMNS}`,
    [key.tenantId, key.runId, key.held],
  );
  return rows[0];
}
