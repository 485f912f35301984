// Changes, pauses, resumes and deletes schedules. What was made for somebody and hasn't gone out waits with a paused one, stays as it was
// written with a changed one, and is taken back with a deleted one: when the call returns nothing of it begins any more.
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import { openFiring } from "../../schedule/firings.js";
import { cancelPending, holdPending, releasePending } from "../../schedule/occurrences.js";
import { nextTime } from "../../schedule/plan.js";
import {
  deleteScheduleRow,
  lockSchedule,
  type ScheduleKey,
  type ScheduleRow,
  updateSchedule,
} from "../../schedule/schedules.js";
import { cancelTimers, setTimer } from "../../schedule/timers.js";
import { databaseNow } from "../database-now.js";
import type { OutreachLimits } from "../../core/outreach-limits.js";
import { nameTaken } from "./create-schedule.js";
import { scheduleTimer } from "./fire-schedule.js";
import { type ScheduleAsked, settingsOf } from "./schedule-settings.js";

export function noSchedule(id: string): EngineError {
  return new EngineError("not_found", `Schedule ${id} not found`, { details: { schedule_id: id } });
}

/**
 * `asked` gets the schedule as it is.
 * Throws `not_found`, `conflict` when it isn't at this version any more or the name is taken, and `bad_request`.
 */
export async function changeSchedule(
  deps: Deps,
  limits: OutreachLimits,
  key: ScheduleKey,
  change: Readonly<{ version: number; asked: (schedule: ScheduleRow) => ScheduleAsked }>,
): Promise<ScheduleRow> {
  const changed = await deps.db.tx(async (sql) => {
    const schedule = await lockOrThrow(sql, key);
    refuseOtherVersion(schedule, change.version);
    const asked = change.asked(schedule);
    const now = await databaseNow(sql);
    const onceIsOver = schedule.kind === "once" && schedule.status === "ended";
    const at = { tenantId: key.tenantId, now, shortestMs: limits.shortestMs, onceIsOver };
    const settings = await settingsOf(sql, asked, at);
    const left = settings.maxOccurrences === null || settings.maxOccurrences > schedule.occurrences;
    const nextAt = schedule.status === "paused" || !left ? null : nextTime(settings, now);
    const status = schedule.status === "paused" ? "paused" : nextAt === null ? "ended" : "active";
    const updated = await updateSchedule(sql, key, { ...settings, status, nextAt });
    if (updated === undefined) throw nameTaken(asked.name);
    if (status !== "paused") await moveTimer(deps, sql, key, nextAt);
    return updated;
  });
  deps.notifier.notify("timers");
  return changed;
}

/** Until it is resumed nothing of it goes out. Safe to repeat. */
export async function pauseSchedule(deps: Deps, key: ScheduleKey): Promise<ScheduleRow> {
  return deps.db.tx(async (sql) => {
    const schedule = await lockOrThrow(sql, key);
    if (schedule.status !== "active") return schedule;
    await cancelTimers(sql, { tenantId: key.tenantId, kinds: ["schedule.fire"], refIds: [key.scheduleId] });
    await holdPending(sql, key);
    return (await updateSchedule(sql, key, { ...schedule, status: "paused", nextAt: null })) ?? schedule;
  });
}

/** Times that came meanwhile are not caught up with. Safe to repeat. */
export async function resumeSchedule(deps: Deps, key: ScheduleKey): Promise<ScheduleRow> {
  const resumed = await deps.db.tx(async (sql) => {
    const schedule = await lockOrThrow(sql, key);
    if (schedule.status !== "paused") return schedule;
    const nextAt = nextTime(schedule, await databaseNow(sql));
    await releasePending(sql, key);
    await moveTimer(deps, sql, key, nextAt);
    const status = nextAt === null ? "ended" : "active";
    return (await updateSchedule(sql, key, { ...schedule, status, nextAt })) ?? schedule;
  });
  deps.notifier.notify("timers");
  return resumed;
}

/** With what it has made and that hasn't gone out. */
export async function deleteSchedule(deps: Deps, key: ScheduleKey): Promise<void> {
  await deps.db.tx(async (sql) => {
    await lockOrThrow(sql, key);
    await cancelTimers(sql, { tenantId: key.tenantId, kinds: ["schedule.fire"], refIds: [key.scheduleId] });
    await cancelPending(sql, key, "its schedule was deleted");
    await deleteScheduleRow(sql, key);
  });
}

/** What is being gone through goes on first. */
async function moveTimer(deps: Deps, sql: Sql, key: ScheduleKey, nextAt: Date | null): Promise<void> {
  await cancelTimers(sql, { tenantId: key.tenantId, kinds: ["schedule.fire"], refIds: [key.scheduleId] });
  const isFiring = (await openFiring(sql, key)) !== undefined;
  if (isFiring || nextAt !== null) await setTimer(sql, scheduleTimer(deps, key, isFiring ? null : nextAt));
}

export async function lockOrThrow(sql: Sql, key: ScheduleKey): Promise<ScheduleRow> {
  const schedule = await lockSchedule(sql, key);
  if (schedule === undefined) throw noSchedule(key.scheduleId);
  return schedule;
}

function refuseOtherVersion({ scheduleId, version }: ScheduleRow, wanted: number): void {
  if (version === wanted) return;
  throw new EngineError(
    "conflict",
    `Schedule ${scheduleId} is at version ${version} by now, not ${wanted}: read it again`,
    {
      details: { schedule_id: scheduleId, version },
    },
  );
}
