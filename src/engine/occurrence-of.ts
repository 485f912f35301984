// What a schedule has to say to one recipient at one of its times, or why nothing. Pure.
import { createHash } from "node:crypto";
import { v5 as uuidv5 } from "uuid";
import type { AssistantRow } from "../assistants/queries.js";
import type { FollowupId } from "../core/ids.js";
import type { Recipient } from "../delivery/audience.js";
import type { FiringRow } from "../schedule/firings.js";
import type { NewOccurrence } from "../schedule/occurrences.js";
import { ON_TIME_MS } from "../schedule/plan.js";
import { quietUntil } from "../schedule/quiet-hours.js";
import type { ScheduleRow } from "../schedule/schedules.js";
import { fillIn } from "../schedule/template.js";
import { addDays, dateIn, wallClock } from "../schedule/wall.js";
import { contentOf } from "./followup-runs.js";

export type Firing = Pick<FiringRow, "occurrenceAt" | "cause" | "overlap">;

export type Of = Readonly<{
  schedule: ScheduleRow;
  firing: Firing;
  recipient: Recipient;
  /** The one before isn't over. */
  busy: boolean;
  assistant: AssistantRow | undefined;
  now: Date;
}>;

/** What makes it the same one again; undefined: this isn't a time for this recipient. */
function occurrenceName(
  { kind, relative, timeZone }: ScheduleRow,
  { occurrenceAt }: Firing,
  { attributes }: Recipient,
): Readonly<{ name: string; days: number | null }> | undefined {
  if (kind !== "relative" || relative === null) return { name: occurrenceAt.toISOString(), days: null };
  const day = wallClock(occurrenceAt, timeZone).date;
  const date = dateIn(attributes[relative.attribute]);
  const days = date === undefined ? undefined : relative.days_before.find((before) => addDays(date, -before) === day);
  return days === undefined ? undefined : { name: `${days} days before ${date}`, days };
}

/** The dates that the attribute of a relative schedule has for whom this is a time. */
export function datesDue({ relative, timeZone }: ScheduleRow, at: Date): string[] {
  const day = wallClock(at, timeZone).date;
  return (relative?.days_before ?? []).map((before) => addDays(day, before));
}

export function occurrenceOf(of: Of): NewOccurrence | undefined {
  const { schedule, firing, recipient, assistant, now } = of;
  const named = occurrenceName(schedule, firing, recipient);
  if (named === undefined) return undefined;
  const zone = recipient.timeZone ?? schedule.timeZone;
  const when = timeOf(schedule, firing, recipient, named.name, now);
  const written = write(schedule, recipient, named.days);
  const why = passedOver(of) ?? ("reason" in written ? written.reason : null);
  return {
    followup_id: uuidv5(`${recipient.recipient} ${named.name}`, schedule.scheduleId) as FollowupId,
    thread_id: recipient.threadId,
    assistant_id: assistant?.assistantId ?? null,
    graph_id: assistant?.graphId ?? null,
    conversation_id: recipient.conversationId,
    recipient: recipient.recipient,
    occurrence: named.name,
    content:
      "content" in written ? written.content : JSON.stringify({ about: contentOf(schedule).about, instruction: "" }),
    fire_at: when.fireAt,
    time_zone: zone,
    not_after: when.notAfter,
    status: why !== null ? "skipped" : when.isOver ? "expired" : "pending",
    reason: why ?? (when.isOver ? "it was too late" : when.reason),
  };
}

/** Why this recipient gets nothing; null: nothing speaks against it. */
function passedOver({ schedule, firing, recipient, busy, assistant }: Of): string | null {
  if (recipient.suppressed) return "suppressed";
  if (schedule.purpose === "marketing" && !recipient.optedIn) return "no opt-in to marketing";
  if (recipient.conversationId === null) return "no conversation";
  if (assistant === undefined) return "no assistant";
  return busy && firing.overlap === "skip" ? "the one before isn't over" : null;
}

/** When it goes out: at its time or, where that is over, now; later by the jitter, and by quiet hours. */
function timeOf(schedule: ScheduleRow, firing: Firing, recipient: Recipient, name: string, now: Date) {
  const { occurrenceAt, cause } = firing;
  const isLate = now.getTime() - occurrenceAt.getTime() > ON_TIME_MS;
  const base = isLate ? now : occurrenceAt;
  // Who asks for it now wants it now.
  const jitterMs = cause === "now" ? 0 : jitterOf(schedule, recipient, name);
  const jittered = new Date(base.getTime() + jitterMs);
  const quiet = quietUntil(schedule.quietHours, jittered, recipient.timeZone ?? schedule.timeZone);
  const wanted = cause === "backfill" ? base : occurrenceAt;
  const notAfter = schedule.expiresMs === null ? null : new Date(wanted.getTime() + schedule.expiresMs);
  const fireAt = quiet ?? jittered;
  const isOver = notAfter !== null && fireAt > notAfter;
  return { fireAt, notAfter, isOver, jitterMs, isLate, reason: quiet === null ? null : "after quiet hours" };
}

/** The same for the same occurrence, whoever computes it. */
function jitterOf({ scheduleId, jitterMs }: ScheduleRow, { recipient }: Recipient, name: string): number {
  if (jitterMs === 0) return 0;
  const hash = createHash("sha256").update(`${scheduleId} ${recipient} ${name}`).digest();
  return hash.readUIntBE(0, 6) % jitterMs;
}

function write(
  schedule: ScheduleRow,
  { attributes }: Recipient,
  days: number | null,
): Readonly<{ content: string }> | Readonly<{ reason: string }> {
  const { about, instruction } = contentOf(schedule);
  const variables = { ...(days === null ? {} : { days_before: days }), ...attributes };
  const filled = { about: fillIn(about, variables), instruction: fillIn(instruction, variables) };
  const missing = Object.values(filled).flatMap((text) => ("missing" in text ? text.missing : []));
  if (missing.length > 0) return { reason: `no value for ${[...new Set(missing)].join(", ")}` };
  const texts = Object.entries(filled).map(([name, text]) => [name, "text" in text ? text.text : ""]);
  return { content: JSON.stringify(Object.fromEntries(texts)) };
}
