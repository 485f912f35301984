// Rules that come again: five-part cron in a named zone. Pure, but for what the runtime knows of time zones; the machine's own has no say.
// A time of day that the clocks leave out is the first moment after; one that comes twice is the first. What comes every so many minutes
// comes so in real time.
import { Cron } from "croner";
import { checkTimeZone, localText, UnclearTime } from "./when.js";

export type Rule = Readonly<{ cron: string; timeZone: string }>;

/** Within these a rule has shown each of its distances: a day of quarters of an hour. */
const LOOKED_AT = 100;
/** Earlier ones of a row of missed times are told as a number only, up to this. */
const MOST_COUNTED = 200;
const MINUTE_MS = 60_000;

/** Throws `UnclearTime` for a rule that can't be meant, never comes, or comes more often than every `shortestMs`. */
export function checkRule(rule: Rule, now: Date, shortestMs: number): void {
  const first = nextOf(rule, now);
  if (first === null) throw new UnclearTime(`cron: "${rule.cron}" never comes`);
  let before = first;
  for (let n = 0; n < LOOKED_AT; n += 1) {
    const next = nextOf(rule, before);
    if (next === null) return;
    if (next.getTime() - before.getTime() < shortestMs) {
      const minutes = shortestMs / MINUTE_MS;
      throw new UnclearTime(
        `cron: "${rule.cron}" comes more often than every ${minutes} minutes, which is the most here`,
      );
    }
    // What comes once a day or less has no smaller distance.
    if (next.getTime() - first.getTime() > 2 * 24 * 60 * MINUTE_MS) return;
    before = next;
  }
}

/** The next time after `after`; null: there is none. Throws `UnclearTime` for what is no rule. */
export function nextOf(rule: Rule, after: Date): Date | null {
  return opened(rule).nextRun(after);
}

/** Rules are asked for again and again. */
const OPENED = new Map<string, Cron>();
const MOST_OPENED = 1_000;

function opened({ cron, timeZone }: Rule): Cron {
  const name = `${timeZone} ${cron}`;
  const known = OPENED.get(name);
  if (known !== undefined) return known;
  const zone = checkTimeZone(timeZone);
  // Filled in by the moment when it is read, by the machine's clock.
  if (cron.includes("?")) throw new UnclearTime(`cron: "${cron}" must not have a ?`);
  try {
    const made = new Cron(cron, { timezone: zone, mode: "5-part", paused: true });
    if (OPENED.size >= MOST_OPENED) OPENED.clear();
    OPENED.set(name, made);
    return made;
  } catch {
    throw new UnclearTime(
      `cron: "${cron}" is no rule; it has five parts, like "0 9 * * MON": minute, hour, day, month, weekday`,
    );
  }
}

/** The times from `first` to `until`, oldest first and newest last; of many only the newest `keep`. `times` counts all, up to a bound. */
export function missedTimes(
  rule: Rule,
  first: Date,
  until: Date,
  keep: number,
): Readonly<{ newest: readonly Date[]; times: number }> {
  const cron = opened(rule);
  const newest = cron
    .previousRuns(keep, new Date(until.getTime() + 1))
    .filter((at) => at >= first)
    .reverse();
  let times = 0;
  for (let at: Date | null = first; at !== null && at <= until && times < MOST_COUNTED; at = cron.nextRun(at))
    times += 1;
  return { newest: newest.length === 0 ? [first] : newest, times: Math.max(times, newest.length) };
}

/** Why an occurrence isn't at the time on the wall that its rule says; null: it is. */
export function shiftOf({ cron, timeZone }: Rule, at: Date): string | null {
  const [minute = "", hour = ""] = cron.trim().split(/\s+/);
  if (!/^\d{1,2}$/.test(minute) || !/^\d{1,2}$/.test(hour)) return null;
  const asked = `${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;
  if (wallOf(at, timeZone) !== asked) return `the clocks leave out ${asked} that day: it is the first moment after`;
  const again = [30, 60].some((minutes) => wallOf(new Date(at.getTime() + minutes * MINUTE_MS), timeZone) === asked);
  return again ? `${asked} comes twice that day: it is the first` : null;
}

function wallOf(at: Date, timeZone: string): string {
  const local = localText(at, timeZone);
  return local.slice(local.indexOf(",") + 2, local.indexOf(",") + 7);
}
