// Schedules: whom to write to, when, and what.
import type { Sql } from "../core/deps.js";
import type { ScheduleId, TenantId } from "../core/ids.js";
import type { FollowupMode } from "./followups.js";
import type { QuietHours } from "./quiet-hours.js";

export const SCHEDULE_STATUSES = ["active", "paused", "ended"] as const;
export type ScheduleStatus = (typeof SCHEDULE_STATUSES)[number];
export type Overlap = "skip" | "queue";
export type Relative = Readonly<{ attribute: string; days_before: readonly number[] }>;

/** What somebody says about a schedule, and may change. */
export type ScheduleSettings = Readonly<{
  name: string;
  kind: "cron" | "once" | "relative";
  cron: string | null;
  timeZone: string;
  relative: Relative | null;
  /** As `Audience` of the ledger of contacts has it. */
  audience: Readonly<Record<string, unknown>>;
  mode: FollowupMode;
  /** JSON {about, instruction}, with {{variables}}. */
  content: Buffer;
  purpose: "utility" | "marketing";
  quietHours: QuietHours | null;
  catchup: "latest" | "skip" | "all";
  catchupWindowMs: number;
  overlap: Overlap;
  jitterMs: number;
  expiresMs: number | null;
  startsAt: Date | null;
  endsAt: Date | null;
  maxOccurrences: number | null;
}>;

export type ScheduleRow = ScheduleSettings &
  Readonly<{
    tenantId: TenantId;
    scheduleId: ScheduleId;
    occurrences: number;
    status: ScheduleStatus;
    nextAt: Date | null;
    version: number;
    createdAt: Date;
    updatedAt: Date;
  }>;

const COLUMNS = `
  tenant_id as "tenantId", schedule_id as "scheduleId", name, kind, cron, time_zone as "timeZone", relative, audience, mode,
  content, purpose, quiet_hours as "quietHours", catchup, catchup_window_ms::float8 as "catchupWindowMs", overlap,
  jitter_ms::float8 as "jitterMs", expires_ms::float8 as "expiresMs", starts_at as "startsAt", ends_at as "endsAt",
  max_occurrences as "maxOccurrences", occurrences, status, next_at as "nextAt", version, created_at as "createdAt",
  updated_at as "updatedAt"`;

export type ScheduleKey = Readonly<{ tenantId: TenantId; scheduleId: ScheduleId }>;

function valuesOf(settings: ScheduleSettings): unknown[] {
  return [
    settings.name,
    settings.kind,
    settings.cron,
    settings.timeZone,
    settings.relative === null ? null : JSON.stringify(settings.relative),
    JSON.stringify(settings.audience),
    settings.mode,
    settings.content,
    settings.purpose,
    settings.quietHours === null ? null : JSON.stringify(settings.quietHours),
    settings.catchup,
    settings.catchupWindowMs,
    settings.overlap,
    settings.jitterMs,
    settings.expiresMs,
    settings.startsAt,
    settings.endsAt,
    settings.maxOccurrences,
  ];
}

/** Undefined when there is one with this name. */
export async function insertSchedule(
  sql: Sql,
  key: ScheduleKey,
  settings: ScheduleSettings & Readonly<{ nextAt: Date | null }>,
): Promise<ScheduleRow | undefined> {
  const { rows } = await sql.query<ScheduleRow>(
    `insert into schedules (tenant_id, schedule_id, name, kind, cron, time_zone, relative, audience, mode, content, purpose,
      quiet_hours, catchup, catchup_window_ms, overlap, jitter_ms, expires_ms, starts_at, ends_at, max_occurrences, next_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
    on conflict on constraint schedules_name do nothing
    returning ${COLUMNS}`,
    [key.tenantId, key.scheduleId, ...valuesOf(settings), settings.nextAt],
  );
  return rows[0];
}

/** The caller has locked it. Undefined when another has this name. */
export async function updateSchedule(
  sql: Sql,
  key: ScheduleKey,
  settings: ScheduleSettings & Readonly<{ status: ScheduleStatus; nextAt: Date | null }>,
): Promise<ScheduleRow | undefined> {
  const { rows } = await sql.query<ScheduleRow>(
    `update schedules s
    set name = $3, kind = $4, cron = $5, time_zone = $6, relative = $7, audience = $8, mode = $9, content = $10, purpose = $11,
      quiet_hours = $12, catchup = $13, catchup_window_ms = $14, overlap = $15, jitter_ms = $16, expires_ms = $17,
      starts_at = $18, ends_at = $19, max_occurrences = $20, status = $21, next_at = $22, version = version + 1,
      updated_at = clock_timestamp()
    where tenant_id = $1 and schedule_id = $2 and not exists (
      select 1 from schedules o where o.tenant_id = $1 and o.name = $3 and o.schedule_id <> $2)
    returning ${COLUMNS}`,
    [key.tenantId, key.scheduleId, ...valuesOf(settings), settings.status, settings.nextAt],
  );
  return rows[0];
}

/** How far it has come: when next, or that there is no next time. */
export async function moveSchedule(
  sql: Sql,
  key: ScheduleKey,
  move: Readonly<{ nextAt: Date | null; occurrences: number; ended: boolean }>,
): Promise<void> {
  await sql.query(
    `update schedules
    set next_at = $3, occurrences = occurrences + $4, status = case when $5 then 'ended' else status end,
      updated_at = clock_timestamp()
    where tenant_id = $1 and schedule_id = $2`,
    [key.tenantId, key.scheduleId, move.nextAt, move.occurrences, move.ended],
  );
}

export async function getSchedule(sql: Sql, key: ScheduleKey): Promise<ScheduleRow | undefined> {
  const { rows } = await sql.query<ScheduleRow>(
    `select ${COLUMNS} from schedules where tenant_id = $1 and schedule_id = $2`,
    [key.tenantId, key.scheduleId],
  );
  return rows[0];
}

/** Locked until the transaction ends. */
export async function lockSchedule(sql: Sql, key: ScheduleKey): Promise<ScheduleRow | undefined> {
  const { rows } = await sql.query<ScheduleRow>(
    `select ${COLUMNS} from schedules where tenant_id = $1 and schedule_id = $2 for no key update`,
    [key.tenantId, key.scheduleId],
  );
  return rows[0];
}

/** The same for loops, which wait for nobody: undefined also when somebody has it. */
export async function lockScheduleIfFree(sql: Sql, key: ScheduleKey): Promise<ScheduleRow | undefined> {
  const { rows } = await sql.query<ScheduleRow>(
    `select ${COLUMNS} from schedules where tenant_id = $1 and schedule_id = $2 for no key update skip locked`,
    [key.tenantId, key.scheduleId],
  );
  return rows[0];
}

/** By name. */
export async function listSchedules(
  sql: Sql,
  filter: Readonly<{ tenantId: TenantId; status: ScheduleStatus | null; limit: number; offset: number }>,
): Promise<ScheduleRow[]> {
  const { rows } = await sql.query<ScheduleRow>(
    `select ${COLUMNS}
    from schedules
    where tenant_id = $1 and ($2::text is null or status = $2)
    order by name
    limit $3 offset $4`,
    [filter.tenantId, filter.status, filter.limit, filter.offset],
  );
  return rows;
}

/** With the record of its times. */
export async function deleteScheduleRow(sql: Sql, key: ScheduleKey): Promise<void> {
  await sql.query("delete from schedules where tenant_id = $1 and schedule_id = $2", [key.tenantId, key.scheduleId]);
}
