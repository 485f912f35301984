// What a schedule will do: its next times with why they are not where one would think, and for each of its first recipients when they get
// it, or why they don't, as things are now.
import { getAssistant } from "../assistants/queries.js";
import type { Sql } from "../core/deps.js";
import { type Audience, nextRecipients, type Recipient } from "../delivery/audience.js";
import { nextTime, ruleOf } from "../schedule/plan.js";
import { shiftOf } from "../schedule/recurrence.js";
import type { ScheduleRow } from "../schedule/schedules.js";
import { localText } from "../schedule/when.js";
import { databaseNow } from "./database-now.js";
import { datesDue, occurrenceOf } from "./occurrence-of.js";

/** As if it were resumed, where it is paused. */
export async function previewSchedule(
  sql: Sql,
  schedule: ScheduleRow,
  size: Readonly<{ times: number; recipients: number }>,
) {
  const now = await databaseNow(sql);
  const times = timesFrom(schedule, now, size.times);
  return {
    schedule_id: schedule.scheduleId,
    version: schedule.version,
    times: await Promise.all(times.map((at) => previewTime(sql, schedule, at, size.recipients))),
  };
}

function timesFrom(schedule: ScheduleRow, now: Date, count: number): Date[] {
  if (schedule.status === "ended") return [];
  const left = schedule.maxOccurrences === null ? count : schedule.maxOccurrences - schedule.occurrences;
  const times: Date[] = [];
  for (
    let at = nextTime(schedule, now);
    at !== null && times.length < Math.min(count, left);
    at = nextTime(schedule, at)
  ) {
    times.push(at);
  }
  return times;
}

async function previewTime(sql: Sql, schedule: ScheduleRow, at: Date, limit: number) {
  const rule = ruleOf(schedule);
  const time = {
    at,
    local: localText(at, schedule.timeZone),
    utc: localText(at, "UTC"),
    reason: rule === null ? null : shiftOf(rule, at),
  };
  if (limit === 0) return time;
  const { tenantId, relative } = schedule;
  const recipients = await nextRecipients(sql, {
    ...{ tenantId, audience: schedule.audience as Audience, marketing: schedule.purpose === "marketing" },
    ...{ after: null, limit, dated: relative && { attribute: relative.attribute, dates: datesDue(schedule, at) } },
  });
  const previewed = await Promise.all(recipients.map((recipient) => previewOne(sql, schedule, at, recipient)));
  return { ...time, recipients: previewed.flatMap((one) => one ?? []) };
}

async function previewOne(sql: Sql, schedule: ScheduleRow, at: Date, recipient: Recipient) {
  const { tenantId, overlap } = schedule;
  const assistant =
    recipient.assistant === null ? undefined : await getAssistant(sql, { tenantId, idOrGraphId: recipient.assistant });
  const firing = { occurrenceAt: at, cause: "due", overlap } as const;
  const occurrence = occurrenceOf({ schedule, firing, recipient, busy: false, assistant, now: at });
  if (occurrence === undefined) return undefined;
  const { fire_at: fireAt, time_zone: timeZone, status, reason } = occurrence;
  return {
    recipient: recipient.recipient,
    key: recipient.contactKey,
    conversation_id: recipient.conversationId,
    occurrence: occurrence.occurrence,
    gets_it: status === "pending",
    fire_at: fireAt,
    local: localText(fireAt, timeZone),
    reason,
  };
}
