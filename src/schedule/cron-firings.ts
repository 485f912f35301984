// The times of crons: the run of each, or why it has none.
import type { Sql } from "../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";
import type { CronKey } from "./crons.js";
import { takeTurn } from "./turns.js";

export type CronFiringRow = Readonly<{
  occurrenceAt: Date;
  status: "fired" | "missed" | "skipped";
  reason: string | null;
  times: number;
  runId: RunId | null;
  threadId: ThreadId | null;
  createdAt: Date;
}>;

/** False when this time has its row already: then there is nothing to be done for it. */
export async function insertCronFiring(
  sql: Sql,
  key: CronKey,
  firing: Omit<CronFiringRow, "createdAt">,
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `insert into cron_firings (tenant_id, cron_id, occurrence_at, status, reason, times, run_id, thread_id, is_open)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $4 = 'fired')
    on conflict (tenant_id, cron_id, occurrence_at) do nothing`,
    [
      key.tenantId,
      key.cronId,
      firing.occurrenceAt,
      firing.status,
      firing.reason,
      firing.times,
      firing.runId,
      firing.threadId,
    ],
  );
  return rowCount === 1;
}

export async function hasCronFiring(sql: Sql, key: CronKey, occurrenceAt: Date): Promise<boolean> {
  const { rowCount } = await sql.query(
    "select 1 from cron_firings where tenant_id = $1 and cron_id = $2 and occurrence_at = $3",
    [key.tenantId, key.cronId, occurrenceAt],
  );
  return rowCount === 1;
}

/** One at a time for a tenant, so that how many runs there are at a time holds; false: somebody else is at it. */
export function lockCronsOf(sql: Sql, tenantId: TenantId): Promise<boolean> {
  return takeTurn(sql, "crons", tenantId);
}

/** The runs of crons that haven't been seen to be over. */
export async function openCronRuns(sql: Sql, tenantId: TenantId): Promise<RunId[]> {
  const { rows } = await sql.query<{ runId: RunId }>(
    'select run_id as "runId" from cron_firings where tenant_id = $1 and is_open',
    [tenantId],
  );
  return rows.map(({ runId }) => runId);
}

export async function closeCronRuns(sql: Sql, tenantId: TenantId, runIds: readonly RunId[]): Promise<void> {
  if (runIds.length === 0) return;
  await sql.query(
    "update cron_firings set is_open = false where tenant_id = $1 and is_open and run_id = any ($2::uuid[])",
    [tenantId, runIds],
  );
}

/** Newest first. */
export async function listCronFirings(
  sql: Sql,
  key: CronKey,
  page: Readonly<{ limit: number; offset: number }>,
): Promise<CronFiringRow[]> {
  const { rows } = await sql.query<CronFiringRow>(
    `select occurrence_at as "occurrenceAt", status, reason, times, run_id as "runId", thread_id as "threadId",
      created_at as "createdAt"
    from cron_firings
    where tenant_id = $1 and cron_id = $2
    order by occurrence_at desc
    limit $3 offset $4`,
    [key.tenantId, key.cronId, page.limit, page.offset],
  );
  return rows;
}

/** Forgets times that were over longer ago. What they made stays. */
export async function deleteOldCronFirings(sql: Sql, olderThanMs: number): Promise<number> {
  const { rowCount } = await sql.query(
    `delete from cron_firings
    where not is_open and created_at < clock_timestamp() - $1::float8 * interval '1 ms'`,
    [olderThanMs],
  );
  return rowCount;
}
