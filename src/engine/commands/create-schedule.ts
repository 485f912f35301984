// Makes a schedule with its first timer, or one that a request with the same key has made.
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { ScheduleId, TenantId } from "../../core/ids.js";
import { takeKey } from "../../runs/idempotency-keys.js";
import { nextTime } from "../../schedule/plan.js";
import { getSchedule, insertSchedule, type ScheduleRow } from "../../schedule/schedules.js";
import { setTimer } from "../../schedule/timers.js";
import { databaseNow } from "../database-now.js";
import type { OutreachLimits } from "../../core/outreach-limits.js";
import { scheduleTimer } from "./fire-schedule.js";
import { findMadeBefore, type Once } from "./make-once.js";
import { type ScheduleAsked, settingsOf } from "./schedule-settings.js";

export type MadeSchedule = Readonly<{ schedule: ScheduleRow; again: boolean }>;

/** Throws `bad_request` for what can't be meant, and `conflict` when the name is taken. */
export async function createSchedule(
  deps: Deps,
  limits: OutreachLimits,
  create: Readonly<{ tenantId: TenantId; asked: ScheduleAsked; once: Once | null }>,
): Promise<MadeSchedule> {
  const { tenantId, asked, once } = create;
  const before = once === null ? undefined : await scheduleMadeBefore(deps, once);
  if (before !== undefined) return { schedule: before, again: true };
  const key = { tenantId, scheduleId: deps.ids.next<ScheduleId>() };
  const made = await deps.db.tx(async (sql) => {
    if (once !== null && !(await takeKey(sql, once, key.scheduleId))) return undefined;
    const now = await databaseNow(sql);
    const settings = await settingsOf(sql, asked, { tenantId, now, shortestMs: limits.shortestMs, onceIsOver: false });
    const nextAt = nextTime(settings, now);
    if (nextAt === null) throw new EngineError("bad_request", "when: it never comes, from starts_at to ends_at");
    const schedule = await insertSchedule(sql, key, { ...settings, nextAt });
    if (schedule === undefined) throw nameTaken(asked.name);
    await setTimer(sql, scheduleTimer(deps, key, nextAt));
    return schedule;
  });
  // Another request with the key was faster.
  if (made === undefined) return createSchedule(deps, limits, create);
  deps.notifier.notify("timers");
  return { schedule: made, again: false };
}

export function nameTaken(name: string): EngineError {
  return new EngineError("conflict", `name: there is a schedule "${name}" already`);
}

function scheduleMadeBefore({ db }: Deps, once: Once): Promise<ScheduleRow | undefined> {
  const { tenantId } = once;
  return findMadeBefore(db, once, "schedule", (id) => getSchedule(db, { tenantId, scheduleId: id as ScheduleId }));
}
