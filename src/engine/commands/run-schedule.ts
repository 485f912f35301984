// Has a schedule come at other times than its own: now, or at those of a stretch that was missed.
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import { takeKey } from "../../runs/idempotency-keys.js";
import { insertFirings, type NewFiring } from "../../schedule/firings.js";
import { ruleOf } from "../../schedule/plan.js";
import { nextOf } from "../../schedule/recurrence.js";
import type { Overlap, ScheduleKey, ScheduleRow } from "../../schedule/schedules.js";
import { setTimer } from "../../schedule/timers.js";
import { databaseNow } from "../database-now.js";
import { lockOrThrow } from "./change-schedule.js";
import { scheduleTimer } from "./fire-schedule.js";
import { madeBefore, type Once } from "./make-once.js";

/** Times of one call. */
export const MOST_BACKFILLED = 100;

export type Asked = Readonly<{ times: readonly Date[]; again: boolean }>;

type RunAsked = ScheduleKey & Readonly<{ overlap: Overlap | null; once: Once | null }>;

/** An occurrence of this moment, for all recipients; a relative one for those whose day is today. Throws `conflict` for a paused one. */
export async function runScheduleNow(deps: Deps, run: RunAsked): Promise<Asked> {
  return fireTimes(deps, run, "now", (_schedule, now) => [now]);
}

/**
 * The schedule's times from `from` to `to`, both included: who got theirs then doesn't again. Throws `bad_request` for more than
 * `MOST_BACKFILLED`, for times to come, and for a schedule without a rule.
 */
export async function backfillSchedule(
  deps: Deps,
  backfill: RunAsked & Readonly<{ from: Date; to: Date }>,
): Promise<Asked> {
  const { from, to } = backfill;
  return fireTimes(deps, backfill, "backfill", (schedule, now) => {
    if (to > now) throw new EngineError("bad_request", "to: must not be in the future");
    const rule = ruleOf(schedule);
    if (rule === null) throw new EngineError("bad_request", "this schedule comes once: use run instead");
    const times: Date[] = [];
    for (let at = nextOf(rule, new Date(from.getTime() - 1)); at !== null && at <= to; at = nextOf(rule, at)) {
      if (times.length === MOST_BACKFILLED) {
        throw new EngineError(
          "bad_request",
          `from: there are more than ${MOST_BACKFILLED} times up to then; take less`,
        );
      }
      times.push(at);
    }
    return times;
  });
}

async function fireTimes(
  deps: Deps,
  { tenantId, scheduleId, overlap, once }: RunAsked,
  cause: "now" | "backfill",
  timesOf: (schedule: ScheduleRow, now: Date) => readonly Date[],
): Promise<Asked> {
  const key = { tenantId, scheduleId };
  const asked = await deps.db.tx(async (sql): Promise<Asked> => {
    const schedule = await lockOrThrow(sql, key);
    // Taken for the schedule: what it made then is among its times.
    if (once !== null && !(await takeKey(sql, once, scheduleId))) {
      await madeBefore(sql, once);
      return { times: [], again: true };
    }
    if (schedule.status === "paused") {
      throw new EngineError("conflict", `Schedule ${scheduleId} is paused: resume it first`);
    }
    const times = timesOf(schedule, await databaseNow(sql));
    const firings = times.map((occurrenceAt): NewFiring => {
      const base = { occurrenceAt, cause, status: "firing", reason: null, times: 1 } as const;
      return { ...base, overlap: overlap ?? schedule.overlap };
    });
    await insertFirings(sql, key, firings);
    if (times.length > 0) await setTimer(sql, scheduleTimer(deps, key, null));
    return { times, again: false };
  });
  deps.notifier.notify("timers");
  return asked;
}
