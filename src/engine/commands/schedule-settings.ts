// What somebody says of a schedule, checked: a time that can be meant, people that there are, a text that can be filled in.
import type { Sql } from "../../core/deps.js";
import type { TenantId } from "../../core/ids.js";
import { type Audience, unknownIn } from "../../delivery/audience.js";
import type { QuietHours } from "../../schedule/quiet-hours.js";
import { checkRule } from "../../schedule/recurrence.js";
import type { Overlap, ScheduleSettings } from "../../schedule/schedules.js";
import { strayMark } from "../../schedule/template.js";
import { checkTimeZone, instantOf, isoDurationMs, UnclearTime } from "../../schedule/when.js";
import { refusingUnclear } from "../refusing-unclear.js";

export type WhenAsked =
  | Readonly<{ cron: string }>
  /** A time on the wall in the schedule's zone, or an instant. */
  | Readonly<{ at: string }>
  /** So many days before the date that each recipient's attribute says; below 0: after it. `at`: the hour, in the schedule's zone. */
  | Readonly<{ days_before: readonly number[]; attribute: string; at: string }>;

/** As the wire has it; lengths of time as ISO 8601 says. */
export type ScheduleAsked = Readonly<{
  name: string;
  when: WhenAsked;
  timeZone: string;
  audience: Audience;
  mode: "remind" | "work";
  about: string;
  instruction: string;
  purpose: "utility" | "marketing";
  quietHours: QuietHours | null;
  /** Null: all of a relative one, since each time is of other people; otherwise the latest. */
  catchUp: "latest" | "skip" | "all" | null;
  catchUpWindow: string;
  overlap: Overlap;
  jitter: string;
  expiresAfter: string | null;
  startsAt: Date | null;
  endsAt: Date | null;
  maxOccurrences: number | null;
}>;

const DAY_MS = 24 * 60 * 60_000;

/** Throws `bad_request` by the place that can't be meant. */
export async function settingsOf(
  sql: Sql,
  asked: ScheduleAsked,
  at: Readonly<{ tenantId: TenantId; now: Date; shortestMs: number; onceIsOver: boolean }>,
): Promise<ScheduleSettings> {
  return refusingUnclear(async () => {
    const { about, instruction } = asked;
    for (const [name, text] of Object.entries({ about, instruction })) {
      const stray = strayMark(text);
      if (stray !== null)
        throw new UnclearTime(`${name}: ${JSON.stringify(stray)} is no variable; one is like {{name}}`);
    }
    await refuseUnknown(sql, at.tenantId, asked.audience);
    const when = whenOf(asked, at);
    return {
      ...{ name: asked.name, ...when, audience: asked.audience as never, mode: asked.mode, purpose: asked.purpose },
      content: Buffer.from(JSON.stringify({ about, instruction }), "utf8"),
      quietHours: asked.quietHours,
      catchup: asked.catchUp ?? (when.kind === "relative" ? "all" : "latest"),
      catchupWindowMs: lengthOf("catch_up_window", asked.catchUpWindow, 400 * DAY_MS),
      overlap: asked.overlap,
      jitterMs: lengthOf("jitter", asked.jitter, DAY_MS),
      expiresMs:
        asked.expiresAfter === null ? null : Math.max(1, lengthOf("expires_after", asked.expiresAfter, 400 * DAY_MS)),
      endsAt: asked.endsAt,
      maxOccurrences: asked.maxOccurrences,
    };
  });
}

type At = Readonly<{ now: Date; shortestMs: number; onceIsOver: boolean }>;

function whenOf(asked: ScheduleAsked, { now, shortestMs, onceIsOver }: At) {
  const { when, startsAt } = asked;
  const timeZone = checkTimeZone(asked.timeZone);
  if ("days_before" in when) {
    const [hour, minute] = when.at.split(":").map(Number);
    const relative = { attribute: when.attribute, days_before: when.days_before };
    return { kind: "relative" as const, cron: `${minute} ${hour} * * *`, timeZone, relative, startsAt };
  }
  if ("at" in when) {
    // One that has been may be changed all the same.
    const { at } = instantOf({ at: when.at, timeZone }, onceIsOver ? new Date(0) : now, timeZone);
    return { kind: "once" as const, cron: null, timeZone, relative: null, startsAt: at };
  }
  checkRule({ cron: when.cron, timeZone }, now, shortestMs);
  return { kind: "cron" as const, cron: when.cron.trim().replaceAll(/\s+/g, " "), timeZone, relative: null, startsAt };
}

function lengthOf(name: string, text: string, mostMs: number): number {
  const ms = isoDurationMs(text);
  if (ms === undefined) throw new UnclearTime(`${name}: "${text}" is no duration; it is like PT15M, PT6H or P2D`);
  if (ms > mostMs) throw new UnclearTime(`${name}: must not be longer than ${mostMs / DAY_MS} days`);
  return ms;
}

const MOST_NAMED = 5;

async function refuseUnknown(sql: Sql, tenantId: TenantId, audience: Audience): Promise<void> {
  const unknown = await unknownIn(sql, tenantId, audience);
  if (unknown.length === 0) return;
  const named = unknown.slice(0, MOST_NAMED).join(", ");
  const more = unknown.length > MOST_NAMED ? ` and ${unknown.length - MOST_NAMED} more` : "";
  throw new UnclearTime(`audience: there is no ${named}${more}`);
}
