// Hours in which nobody is written to, on the recipient's wall. Pure.
import { nextAtTime, wallClock } from "./wall.js";

/** Times like "21:00"; over midnight where `from` is the later one. */
export type QuietHours = Readonly<{ from: string; to: string }>;

/** When the quiet hours that `at` lies in are over there; null: it lies in none. */
export function quietUntil(hours: QuietHours | null, at: Date, timeZone: string): Date | null {
  if (hours === null || hours.from === hours.to) return null;
  const { time } = wallClock(at, timeZone);
  const { from, to } = hours;
  const isQuiet = from < to ? time >= from && time < to : time >= from || time < to;
  return isQuiet ? nextAtTime(to, timeZone, at) : null;
}
