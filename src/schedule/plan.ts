// When a schedule comes next, and what becomes of the times that were passed over while nobody looked. Pure.
import type { NewFiring } from "./firings.js";
import { missedTimes, nextOf, type Rule } from "./recurrence.js";
import type { ScheduleRow, ScheduleSettings } from "./schedules.js";

/** A time at which somebody looked within this was not missed. */
export const ON_TIME_MS = 60_000;
/** Of missed times, that are caught up with at once. */
const MOST_CAUGHT_UP = 10;

export type Times = Pick<ScheduleSettings, "kind" | "cron" | "timeZone" | "startsAt" | "endsAt">;

/** The first time after `after`; null: there is none. */
export function nextTime(schedule: Times, after: Date): Date | null {
  const { startsAt, endsAt } = schedule;
  const rule = ruleOf(schedule);
  if (rule === null) return startsAt !== null && startsAt > after ? startsAt : null;
  // A rule's first time may be the very instant that it starts at.
  const from = startsAt !== null && startsAt > after ? new Date(startsAt.getTime() - 1) : after;
  const next = nextOf(rule, from);
  return next === null || (endsAt !== null && next > endsAt) ? null : next;
}

export function ruleOf({ cron, timeZone }: Pick<Times, "cron" | "timeZone">): Rule | null {
  return cron === null ? null : { cron, timeZone };
}

/** What decides which of its times are fired. */
export type Planned = Times &
  Pick<ScheduleRow, "catchup" | "catchupWindowMs" | "overlap" | "maxOccurrences" | "occurrences">;
export type Plan = Readonly<{
  firings: readonly NewFiring[];
  /** Times that were missed and are not caught up with. */
  missed: number;
  nextAt: Date | null;
  ended: boolean;
}>;

/** For a schedule whose `nextAt` is over. */
export function planOf(schedule: Planned, nextAt: Date, now: Date): Plan {
  const { endsAt, maxOccurrences, occurrences } = schedule;
  const rule = ruleOf(schedule);
  const until = endsAt !== null && endsAt < now ? endsAt : now;
  const over = rule === null ? { newest: [nextAt], times: 1 } : missedTimes(rule, nextAt, until, MOST_CAUGHT_UP);
  const left = maxOccurrences === null ? Number.POSITIVE_INFINITY : Math.max(0, maxOccurrences - occurrences);
  const fired = caughtUp(schedule, over.newest, now).slice(0, left);
  const next = fired.length >= left ? null : nextTime(schedule, now);
  // Who wants all of them wants those that come while the one before isn't over, too.
  const overlap = fired.length > 1 ? "queue" : schedule.overlap;
  const firings = fired.map((occurrenceAt) => ({ ...firingOf(schedule, occurrenceAt), overlap }));
  const missed = missedOf(schedule, nextAt, over, fired);
  return {
    firings: missed === null ? firings : [missed, ...firings],
    missed: missed?.times ?? 0,
    nextAt: next,
    ended: next === null,
  };
}

/** One row for all that were missed in a row, at the newest of them. */
function missedOf(
  schedule: Planned,
  first: Date,
  { newest, times }: Readonly<{ newest: readonly Date[]; times: number }>,
  fired: readonly Date[],
): NewFiring | null {
  const count = times - fired.length;
  if (count <= 0) return null;
  const latest = newest.filter((at) => !fired.includes(at)).at(-1) ?? first;
  const reason = `nobody looked from ${first.toISOString()} on; catch_up is ${schedule.catchup}`;
  return { ...firingOf(schedule, latest), status: "missed", reason, times: count };
}

/** Which of the times that are over are fired all the same. */
function caughtUp({ catchup, catchupWindowMs }: Planned, newest: readonly Date[], now: Date): readonly Date[] {
  const last = newest.at(-1);
  if (last === undefined) return [];
  const lateMs = now.getTime() - last.getTime();
  switch (catchup) {
    case "all":
      return newest;
    case "latest":
      return lateMs <= Math.max(catchupWindowMs, ON_TIME_MS) ? [last] : [];
    case "skip":
      return lateMs <= ON_TIME_MS ? [last] : [];
  }
}

function firingOf({ overlap }: Planned, occurrenceAt: Date): NewFiring {
  return { occurrenceAt, cause: "due", status: "firing", reason: null, times: 1, overlap };
}
