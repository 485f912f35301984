// Crons: at which times runs are made, and of what. What became of each time is in `cron-firings.ts`.
import { type Within, withinParam } from "../core/access.js";
import type { Sql } from "../core/deps.js";
import type { AssistantId, CronId, TenantId, ThreadId } from "../core/ids.js";

/** What somebody says about a cron, and may change. */
export type CronSettings = Readonly<{
  schedule: string;
  timeZone: string | null;
  endTime: Date | null;
  enabled: boolean;
  onRunCompleted: "delete" | "keep";
  metadata: Readonly<Record<string, unknown>>;
  /** JSON as it was asked for, and JSON of which its runs are made. */
  payload: Buffer;
  run: Buffer;
}>;

export type CronRow = CronSettings &
  Readonly<{
    tenantId: TenantId;
    cronId: CronId;
    assistantId: AssistantId;
    threadId: ThreadId | null;
    userId: string | null;
    nextAt: Date | null;
    createdAt: Date;
    updatedAt: Date;
  }>;

const COLUMNS = `
  tenant_id as "tenantId", cron_id as "cronId", assistant_id as "assistantId", thread_id as "threadId",
  on_run_completed as "onRunCompleted", schedule, time_zone as "timeZone", end_time as "endTime", enabled, metadata,
  user_id as "userId", payload, run, next_at as "nextAt", created_at as "createdAt", updated_at as "updatedAt"`;

export type CronKey = Readonly<{ tenantId: TenantId; cronId: CronId }>;
export type NewCron = Omit<CronRow, "createdAt" | "updatedAt">;

export async function insertCron(sql: Sql, cron: NewCron): Promise<CronRow> {
  const { rows } = await sql.query<CronRow>(
    `insert into crons (tenant_id, cron_id, assistant_id, thread_id, user_id, on_run_completed, schedule, time_zone, end_time, enabled,
      metadata, payload, run, next_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
    returning ${COLUMNS}`,
    [
      cron.tenantId,
      cron.cronId,
      cron.assistantId,
      cron.threadId,
      cron.userId,
      cron.onRunCompleted,
      cron.schedule,
      cron.timeZone,
      cron.endTime,
      cron.enabled,
      JSON.stringify(cron.metadata),
      cron.payload,
      cron.run,
      cron.nextAt,
    ],
  );
  return rows[0] as CronRow;
}

/** The caller has locked it. */
export async function updateCron(
  sql: Sql,
  key: CronKey,
  settings: CronSettings & Readonly<{ nextAt: Date | null }>,
): Promise<CronRow> {
  const { rows } = await sql.query<CronRow>(
    `update crons
    set on_run_completed = $3, schedule = $4, time_zone = $5, end_time = $6, enabled = $7, metadata = $8, payload = $9, run = $10,
      next_at = $11, updated_at = clock_timestamp()
    where tenant_id = $1 and cron_id = $2
    returning ${COLUMNS}`,
    [
      key.tenantId,
      key.cronId,
      settings.onRunCompleted,
      settings.schedule,
      settings.timeZone,
      settings.endTime,
      settings.enabled,
      JSON.stringify(settings.metadata),
      settings.payload,
      settings.run,
      settings.nextAt,
    ],
  );
  return rows[0] as CronRow;
}

/** When it comes next; null: never. */
export async function moveCron(sql: Sql, key: CronKey, nextAt: Date | null): Promise<void> {
  await sql.query("update crons set next_at = $3 where tenant_id = $1 and cron_id = $2", [
    key.tenantId,
    key.cronId,
    nextAt,
  ]);
}

export async function getCron(sql: Sql, key: CronKey): Promise<CronRow | undefined> {
  const { rows } = await sql.query<CronRow>(`select ${COLUMNS} from crons where tenant_id = $1 and cron_id = $2`, [
    key.tenantId,
    key.cronId,
  ]);
  return rows[0];
}

/** Locked until the transaction ends. */
export async function lockCron(sql: Sql, key: CronKey): Promise<CronRow | undefined> {
  const { rows } = await sql.query<CronRow>(
    `select ${COLUMNS} from crons where tenant_id = $1 and cron_id = $2 for no key update`,
    [key.tenantId, key.cronId],
  );
  return rows[0];
}

/** The same for loops, which wait for nobody: undefined also when somebody has it. */
export async function lockCronIfFree(sql: Sql, key: CronKey): Promise<CronRow | undefined> {
  const { rows } = await sql.query<CronRow>(
    `select ${COLUMNS} from crons where tenant_id = $1 and cron_id = $2 for no key update skip locked`,
    [key.tenantId, key.cronId],
  );
  return rows[0];
}

export async function deleteCronRow(sql: Sql, key: CronKey): Promise<void> {
  await sql.query("delete from crons where tenant_id = $1 and cron_id = $2", [key.tenantId, key.cronId]);
}

export type CronFilter = Readonly<{
  tenantId: TenantId;
  assistantId: AssistantId | null;
  threadId: ThreadId | null;
  enabled: boolean | null;
  metadata: Readonly<Record<string, unknown>> | null;
  within?: Within;
}>;

/** With the values of `filterValues`. */
const MATCHES = `($2::uuid is null or assistant_id = $2) and ($3::uuid is null or thread_id = $3)
  and ($4::boolean is null or enabled = $4) and ($5::jsonb is null or metadata @> $5)
  and ($6::jsonb is null or metadata @> $6)`;

function filterValues(filter: CronFilter): unknown[] {
  const { tenantId, assistantId, threadId, enabled, metadata, within } = filter;
  const wanted = metadata === null ? null : JSON.stringify(metadata);
  return [tenantId, assistantId, threadId, enabled, wanted, withinParam(within)];
}

export const CRON_SORTS = [
  "cron_id",
  "assistant_id",
  "thread_id",
  "next_run_date",
  "end_time",
  "created_at",
  "updated_at",
] as const;
export type CronPage = Readonly<{
  sortBy: (typeof CRON_SORTS)[number];
  sortOrder: "asc" | "desc";
  limit: number;
  offset: number;
}>;

/** With the database's time. What has no value to sort by comes last. */
export async function searchCrons(
  sql: Sql,
  filter: CronFilter,
  page: CronPage,
): Promise<(CronRow & Readonly<{ now: Date }>)[]> {
  const { rows } = await sql.query<CronRow & Readonly<{ now: Date }>>(
    `select *, clock_timestamp() as now
    from (
      select ${COLUMNS},
        case $7 when 'next_run_date' then next_at when 'end_time' then end_time when 'created_at' then created_at
          when 'updated_at' then updated_at end as by_time,
        case $7 when 'cron_id' then cron_id when 'assistant_id' then assistant_id when 'thread_id' then thread_id end as by_id
      from crons
      where tenant_id = $1 and ${MATCHES}
    ) found
    order by
      case when $8 = 'asc' then by_time end, case when $8 = 'desc' then by_time end desc nulls last,
      case when $8 = 'asc' then by_id end, case when $8 = 'desc' then by_id end desc nulls last,
      "cronId"
    limit $9 offset $10`,
    [...filterValues(filter), page.sortBy, page.sortOrder, page.limit, page.offset],
  );
  return rows;
}

export async function countCrons(sql: Sql, filter: CronFilter): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    `select count(*)::int as n
    from crons
    where tenant_id = $1 and ${MATCHES}`,
    filterValues(filter),
  );
  return rows[0]?.n ?? 0;
}
