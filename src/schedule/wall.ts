// Times on somebody's wall: what a clock shows there, and when it shows something next. Pure.
import { Cron } from "croner";

export type WallClock = Readonly<{ date: string; time: string }>;

/** `{date: "2027-03-16", time: "09:05"}` where `timeZone` is. */
export function wallClock(at: Date, timeZone: string): WallClock {
  const parts = new Intl.DateTimeFormat("en-CA", {
    timeZone,
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  }).formatToParts(at);
  const of = (type: Intl.DateTimeFormatPartTypes): string => parts.find((part) => part.type === type)?.value ?? "";
  return { date: `${of("year")}-${of("month")}-${of("day")}`, time: `${of("hour")}:${of("minute")}` };
}

/** The first instant after `after` at which it is `time` there, or the first moment after where the clocks leave it out. */
export function nextAtTime(time: string, timeZone: string, after: Date): Date {
  const [hour, minute] = time.split(":").map(Number);
  const at = new Cron(`${minute} ${hour} * * *`, { timezone: timeZone, mode: "5-part", paused: true }).nextRun(after);
  // Every day has it.
  return at as Date;
}

/** `2027-03-16` and so many days. */
export function addDays(date: string, days: number): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
}

const DATE = /^\d{4}-\d{2}-\d{2}/;

/** The date that an attribute says, as it stands there: `2027-03-16`, perhaps with a time. Undefined where it is none. */
export function dateIn(value: unknown): string | undefined {
  if (typeof value !== "string" || !DATE.test(value)) return undefined;
  const date = value.slice(0, 10);
  const at = new Date(`${date}T00:00:00Z`);
  return Number.isNaN(at.getTime()) || at.toISOString().slice(0, 10) !== date ? undefined : date;
}
