// When something is to happen, from what people say: a length of time from now, or the time on a clock on somebody's wall. Pure, but for
// what the runtime knows of time zones; the machine's own has no say.
import { Cron } from "croner";
import { asTimeZone } from "../core/time-zone.js";

export type When =
  /** An ISO 8601 duration, as PT10M or P6W. */
  | Readonly<{ in: string }>
  /** A time on the wall, as 2027-03-16T09:00, in `timeZone`; with an offset it is that instant. `weekday` is checked against the date. */
  | Readonly<{ at: string; timeZone?: string | undefined; weekday?: string | undefined }>;

export type Instant = Readonly<{ at: Date; localTime: string | null; timeZone: string }>;

/** Why it can't be meant, for whoever asked. */
export class UnclearTime extends Error {
  override readonly name = "UnclearTime";
}

const DURATION =
  /^P(?=\d|T\d)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$/;
const WALL = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?(\.\d+)?$/;
const OFFSET = /(?:Z|[+-]\d{2}:?\d{2})$/i;
const WEEKDAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"] as const;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** An ISO 8601 duration in ms; a month has 30 days, a year 365. Undefined when it is none. */
export function isoDurationMs(text: string): number | undefined {
  const found = DURATION.exec(text);
  if (found === null) return undefined;
  const [years = 0, months = 0, weeks = 0, days = 0, hours = 0, minutes = 0, seconds = 0] = found
    .slice(1)
    .map((part) => Number(part ?? 0));
  return (years * 365 + months * 30 + weeks * 7 + days) * DAY + hours * HOUR + minutes * MINUTE + seconds * SECOND;
}

/** Throws `UnclearTime` for an unknown one. */
export function checkTimeZone(timeZone: string): string {
  const known = asTimeZone(timeZone);
  if (known !== undefined) return known;
  throw new UnclearTime(`timeZone: "${timeZone}" is no time zone; it is a name like "Europe/Rome"`);
}

/**
 * The instant that is meant. A wall time that doesn't exist, as the clocks go forward, is the first moment after; one that exists twice
 * is the first of them. Throws `UnclearTime`.
 */
export function instantOf(when: When, now: Date, fallbackZone: string): Instant {
  if ("in" in when) {
    const ms = isoDurationMs(when.in);
    if (ms === undefined) throw new UnclearTime(`in: "${when.in}" is no duration; it is like PT10M, PT2H or P6W`);
    return { at: new Date(now.getTime() + ms), localTime: null, timeZone: checkTimeZone(fallbackZone) };
  }
  const timeZone = checkTimeZone(when.timeZone ?? fallbackZone);
  const at = wallTime(when.at, timeZone);
  if (at <= now) throw new UnclearTime(`at: ${when.at} (${timeZone}) is over; it is now ${localText(now, timeZone)}`);
  if (when.weekday !== undefined) checkWeekday(when.weekday, at, timeZone);
  return { at, localTime: OFFSET.test(when.at) ? null : when.at, timeZone };
}

function wallTime(text: string, timeZone: string): Date {
  if (OFFSET.test(text)) {
    const at = new Date(text);
    if (Number.isNaN(at.getTime())) throw notATime(text);
    return at;
  }
  if (!WALL.test(text) || Number.isNaN(Date.parse(`${text}Z`)) || !existsAsDate(text)) throw notATime(text);
  const at = new Cron(text, { timezone: timeZone, paused: true }).nextRun(new Date(0));
  if (at === null) throw notATime(text);
  return at;
}

/** February 30th is taken for March by many. */
function existsAsDate(text: string): boolean {
  return new Date(`${text}Z`).toISOString().startsWith(text.slice(0, 16));
}

function notATime(text: string): UnclearTime {
  return new UnclearTime(`at: "${text}" is no time; it is like 2027-03-16T09:00:00`);
}

function checkWeekday(weekday: string, at: Date, timeZone: string): void {
  const asked = WEEKDAYS.find((name) => name.startsWith(weekday.toLowerCase()) && weekday.length >= 2);
  if (asked === undefined) throw new UnclearTime(`weekday: "${weekday}" is no day of the week`);
  const is = new Intl.DateTimeFormat("en", { timeZone, weekday: "long" }).format(at);
  if (is.toLowerCase() === asked) return;
  throw new UnclearTime(`weekday: ${localText(at, timeZone)} is a ${is}, not a ${weekday}; which one is meant?`);
}

/** `Tue 16 Mar 2027, 09:00 (Europe/Rome)`. */
export function localText(at: Date, timeZone: string): string {
  const parts = new Intl.DateTimeFormat("en-GB", {
    timeZone,
    weekday: "short",
    day: "numeric",
    month: "short",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  }).formatToParts(at);
  const of = (type: Intl.DateTimeFormatPartTypes): string => parts.find((part) => part.type === type)?.value ?? "";
  return `${of("weekday")} ${of("day")} ${of("month")} ${of("year")}, ${of("hour")}:${of("minute")} (${timeZone})`;
}
