// The end of what is kept for a time only: contents and logs of finished runs, and the rows of edits that left nothing.
import type { Sql } from "../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";
import type { ThreadKey } from "./thread-lock.js";

/** Threads with runs that finished so long ago and have not expired, by id. */
export async function threadsWithOldRuns(
  sql: Sql,
  page: Readonly<{
    tenantId: TenantId;
    threadId: ThreadId | null;
    olderThanMs: number;
    after: string | null;
    limit: number;
  }>,
): Promise<ThreadId[]> {
  const { rows } = await sql.query<{ threadId: ThreadId }>(
    // What is old first: in the order of threads all runs there are would be looked at.
    `with old as materialized (
      select thread_id
      from runs
      where tenant_id = $1 and content_expired_at is null and kind = 'run'
        and finished_at < (select clock_timestamp() - $3::float8 * interval '1 ms')
        and ($2::uuid is null or thread_id = $2) and ($4::uuid is null or thread_id > $4)
    )
    select distinct thread_id as "threadId" from old order by 1 limit $5`,
    [page.tenantId, page.threadId, page.olderThanMs, page.after, page.limit],
  );
  return rows.map(({ threadId }) => threadId);
}

/** The runs of a thread that may expire. */
export async function expirableRuns(sql: Sql, key: ThreadKey, olderThanMs: number): Promise<RunId[]> {
  const { rows } = await sql.query<{ runId: RunId }>(
    `select run_id as "runId"
    from runs
    where tenant_id = $1 and thread_id = $2 and content_expired_at is null and kind = 'run'
      and finished_at < clock_timestamp() - $3::float8 * interval '1 ms'
    order by run_id`,
    [key.tenantId, key.threadId, olderThanMs],
  );
  return rows.map(({ runId }) => runId);
}

/** Forgets the contents and logs of these runs. Their thread must be locked. */
export async function expireRunContents(
  sql: Sql,
  expire: Readonly<{ tenantId: TenantId; runIds: readonly RunId[] }>,
): Promise<void> {
  await sql.query(
    `with expired as (
      update runs
      set request = null, error = null, error_preview = null, content_pack_id = null, content_block = null,
        content_expired_at = clock_timestamp()
      where tenant_id = $1 and run_id = any ($2::uuid[]) and finished_at is not null
      returning run_id
    ), logs as (
      delete from events e using expired x where e.tenant_id = $1 and e.run_id = x.run_id
    )
    delete from stream_chunks s using expired x where s.tenant_id = $1 and s.run_id = x.run_id`,
    [expire.tenantId, expire.runIds],
  );
}

/** Deletes edits that stored nothing and ended so long ago, but for those that say whose a hidden thread is; returns how many. */
export async function deleteOldEdits(sql: Sql, tenantId: TenantId, olderThanMs: number): Promise<number> {
  const { rowCount } = await sql.query(
    `delete from runs
    where tenant_id = $1 and kind = 'edit' and not begun and not (metadata ? 'adopted_from')
      and content_expired_at is null and finished_at < (select clock_timestamp() - $2::float8 * interval '1 ms')`,
    [tenantId, olderThanMs],
  );
  return rowCount;
}
