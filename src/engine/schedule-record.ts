// Schedules, their times and what they made, as people and programs read them.
import type { FiringRow } from "../schedule/firings.js";
import type { OccurrenceRow } from "../schedule/occurrences.js";
import type { ScheduleRow } from "../schedule/schedules.js";
import { localText } from "../schedule/when.js";
import { contentOf } from "./followup-runs.js";

export function scheduleRecord(schedule: ScheduleRow) {
  const { about, instruction } = contentOf(schedule);
  const { channelAccountId, ...audience } = schedule.audience;
  return {
    schedule_id: schedule.scheduleId,
    name: schedule.name,
    status: schedule.status,
    kind: schedule.kind,
    when: whenRecord(schedule),
    time_zone: schedule.timeZone,
    next_at: schedule.nextAt,
    next_at_local: schedule.nextAt && localText(schedule.nextAt, schedule.timeZone),
    audience: { ...audience, ...(channelAccountId ? { channel_account_id: channelAccountId } : {}) },
    mode: schedule.mode,
    about,
    instruction,
    purpose: schedule.purpose,
    quiet_hours: schedule.quietHours,
    catch_up: schedule.catchup,
    catch_up_window: isoText(schedule.catchupWindowMs),
    overlap: schedule.overlap,
    jitter: isoText(schedule.jitterMs),
    expires_after: schedule.expiresMs === null ? null : isoText(schedule.expiresMs),
    starts_at: schedule.kind === "once" ? null : schedule.startsAt,
    ends_at: schedule.endsAt,
    max_occurrences: schedule.maxOccurrences,
    occurrences: schedule.occurrences,
    version: schedule.version,
    created_at: schedule.createdAt,
    updated_at: schedule.updatedAt,
  };
}

function whenRecord({ kind, cron, relative, startsAt }: ScheduleRow) {
  switch (kind) {
    case "cron":
      return { cron: cron ?? "" };
    case "once":
      return { at: startsAt?.toISOString() ?? "" };
    case "relative": {
      const [minute = "", hour = ""] = (cron ?? "").split(" ");
      const at = `${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;
      return { days_before: relative?.days_before ?? [], attribute: relative?.attribute ?? "", at };
    }
  }
}

/** A length of time as ISO 8601 has it; whole seconds. */
function isoText(ms: number): string {
  return `PT${Math.round(ms / 1_000)}S`;
}

export function firingRecord(firing: FiringRow, { timeZone }: ScheduleRow) {
  return {
    occurrence_at: firing.occurrenceAt,
    occurrence_at_local: localText(firing.occurrenceAt, timeZone),
    cause: firing.cause,
    status: firing.status,
    reason: firing.reason,
    times: firing.times,
    made: firing.made,
    skipped: firing.skipped,
    updated_at: firing.updatedAt,
  };
}

export function occurrenceRecord(occurrence: OccurrenceRow) {
  return {
    followup_id: occurrence.followupId,
    recipient: occurrence.recipient,
    occurrence: occurrence.occurrence,
    occurrence_at: occurrence.occurrenceAt,
    status: occurrence.status,
    reason: occurrence.reason,
    fire_at: occurrence.fireAt,
    fires_at_local: localText(occurrence.fireAt, occurrence.timeZone ?? "UTC"),
    not_after: occurrence.notAfter,
    fired_at: occurrence.firedAt,
    thread_id: occurrence.threadId,
    conversation_id: occurrence.conversationId,
    run_id: occurrence.runId,
    tell_run_id: occurrence.tellRunId,
  };
}
