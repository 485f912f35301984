// The times of schedules: what became of each, and how far a large audience has been gone through.
import type { Sql } from "../core/deps.js";
import type { ScheduleKey, Overlap } from "./schedules.js";

export type FiringCause = "due" | "now" | "backfill";
export type FiringRow = Readonly<{
  occurrenceAt: Date;
  cause: FiringCause;
  status: "firing" | "fired" | "missed" | "skipped";
  reason: string | null;
  times: number;
  overlap: Overlap;
  /** Where in the audience it goes on. */
  doneTo: string | null;
  made: number;
  skipped: number;
  createdAt: Date;
  updatedAt: Date;
}>;

const COLUMNS = `
  occurrence_at as "occurrenceAt", cause, status, reason, times, overlap, done_to as "doneTo", made, skipped,
  created_at as "createdAt", updated_at as "updatedAt"`;

export type NewFiring = Pick<FiringRow, "occurrenceAt" | "cause" | "status" | "reason" | "times" | "overlap">;

/** A time that was missed or is over may be fired again; one that is going on goes on. */
export async function insertFirings(sql: Sql, key: ScheduleKey, firings: readonly NewFiring[]): Promise<void> {
  for (const firing of firings) {
    await sql.query(
      `insert into schedule_firings as f (tenant_id, schedule_id, occurrence_at, cause, status, reason, times, overlap)
      values ($1, $2, $3, $4, $5, $6, $7, $8)
      on conflict (tenant_id, schedule_id, occurrence_at) do update
      set cause = excluded.cause, status = excluded.status, reason = excluded.reason, times = excluded.times,
        overlap = excluded.overlap, done_to = null, updated_at = clock_timestamp()
      where f.status <> 'firing' and excluded.status = 'firing'`,
      [
        key.tenantId,
        key.scheduleId,
        firing.occurrenceAt,
        firing.cause,
        firing.status,
        firing.reason,
        firing.times,
        firing.overlap,
      ],
    );
  }
}

/** The oldest time that is gone through. */
export async function openFiring(sql: Sql, key: ScheduleKey): Promise<FiringRow | undefined> {
  const { rows } = await sql.query<FiringRow>(
    `select ${COLUMNS}
    from schedule_firings
    where tenant_id = $1 and schedule_id = $2 and status = 'firing'
    order by occurrence_at
    limit 1`,
    [key.tenantId, key.scheduleId],
  );
  return rows[0];
}

/** How far it has come; `doneTo` null: through. */
export async function moveFiring(
  sql: Sql,
  key: ScheduleKey,
  move: Readonly<{ occurrenceAt: Date; doneTo: string | null; made: number; skipped: number }>,
): Promise<void> {
  await sql.query(
    `update schedule_firings
    set done_to = $4, made = made + $5, skipped = skipped + $6,
      status = case when $4::uuid is null then 'fired' else status end, updated_at = clock_timestamp()
    where tenant_id = $1 and schedule_id = $2 and occurrence_at = $3 and status = 'firing'`,
    [key.tenantId, key.scheduleId, move.occurrenceAt, move.doneTo, move.made, move.skipped],
  );
}

/** Newest first. */
export async function listFirings(
  sql: Sql,
  key: ScheduleKey,
  page: Readonly<{ limit: number; offset: number }>,
): Promise<FiringRow[]> {
  const { rows } = await sql.query<FiringRow>(
    `select ${COLUMNS}
    from schedule_firings
    where tenant_id = $1 and schedule_id = $2
    order by occurrence_at desc
    limit $3 offset $4`,
    [key.tenantId, key.scheduleId, page.limit, page.offset],
  );
  return rows;
}

/** Forgets times that were over longer ago. What they made stays. */
export async function deleteOldFirings(sql: Sql, olderThanMs: number): Promise<number> {
  const { rowCount } = await sql.query(
    `delete from schedule_firings
    where status <> 'firing' and updated_at < clock_timestamp() - $1::float8 * interval '1 ms'`,
    [olderThanMs],
  );
  return rowCount;
}
