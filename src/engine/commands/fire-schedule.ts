// A schedule is due: for each recipient of its audience an occurrence is made, and its next time is set. A large audience is gone through
// in several transactions, each of which says how far it came: whoever goes on, after whatever, makes none twice and leaves none out.
import { type AssistantRow, getAssistant } from "../../assistants/queries.js";
import type { Deps, Sql } from "../../core/deps.js";
import type { ScheduleId, TimerId } from "../../core/ids.js";
import { type Audience, nextRecipients, type Recipient } from "../../delivery/audience.js";
import { type FiringRow, insertFirings, moveFiring, openFiring } from "../../schedule/firings.js";
import { busyRecipients, insertOccurrences } from "../../schedule/occurrences.js";
import { planOf } from "../../schedule/plan.js";
import {
  getSchedule,
  lockScheduleIfFree,
  moveSchedule,
  type ScheduleKey,
  type ScheduleRow,
} from "../../schedule/schedules.js";
import { claimDueTimer, finishTimer, setTimer, type TimerRow } from "../../schedule/timers.js";
import { databaseNow } from "../database-now.js";
import { datesDue, occurrenceOf } from "../occurrence-of.js";

const BATCH = 200;

/** Does one batch. Returns whether it did. */
export async function fireSchedule(deps: Deps, timer: TimerRow, batch = BATCH): Promise<boolean> {
  const key: ScheduleKey = { tenantId: timer.tenantId, scheduleId: timer.refId as ScheduleId };
  const done = await deps.db.tx(async (sql) => {
    if (!(await claimDueTimer(sql, timer))) return null;
    const schedule = await lockScheduleIfFree(sql, key);
    if (schedule === undefined) {
      if ((await getSchedule(sql, key)) === undefined) await finishTimer(sql, timer);
      return null;
    }
    const { nextAt, missed } = await begin(sql, schedule);
    const firing = await openFiring(sql, key);
    if (firing !== undefined) await fireBatch(sql, schedule, firing, batch);
    if ((await openFiring(sql, key)) !== undefined) return { missed };
    await finishTimer(sql, timer);
    if (nextAt !== null) await setTimer(sql, scheduleTimer(deps, key, nextAt));
    return { missed };
  });
  if (done === null) return false;
  if (done.missed > 0) {
    deps.log.warn(
      { schedule_id: key.scheduleId, times: done.missed },
      "times of a schedule were missed, and not caught up with",
    );
  }
  return true;
}

/** At `at`, or as soon as somebody looks. */
export function scheduleTimer({ ids }: Pick<Deps, "ids">, { tenantId, scheduleId }: ScheduleKey, at: Date | null) {
  const when = at === null ? ({ afterMs: 0 } as const) : { at };
  return { tenantId, timerId: ids.next<TimerId>(), kind: "schedule.fire", refId: scheduleId, when } as const;
}

/** If its time has come: notes what is to be fired, and when it comes next. */
async function begin(sql: Sql, schedule: ScheduleRow): Promise<Readonly<{ nextAt: Date | null; missed: number }>> {
  const { status, nextAt } = schedule;
  if (status !== "active" || nextAt === null) return { nextAt: null, missed: 0 };
  const now = await databaseNow(sql);
  if (nextAt > now) return { nextAt, missed: 0 };
  const plan = planOf(schedule, nextAt, now);
  await insertFirings(sql, schedule, plan.firings);
  const fired = plan.firings.filter((firing) => firing.status === "firing");
  await moveSchedule(sql, schedule, { nextAt: plan.nextAt, occurrences: fired.length, ended: plan.ended });
  return { nextAt: plan.nextAt, missed: plan.missed };
}

async function fireBatch(sql: Sql, schedule: ScheduleRow, firing: FiringRow, batch: number): Promise<void> {
  const { tenantId } = schedule;
  const { relative } = schedule;
  const recipients = await nextRecipients(sql, {
    ...{ tenantId, audience: schedule.audience as Audience, marketing: schedule.purpose === "marketing" },
    ...{ after: firing.doneTo, limit: batch },
    dated: relative && { attribute: relative.attribute, dates: datesDue(schedule, firing.occurrenceAt) },
  });
  const made = await makeOccurrences(sql, schedule, firing, recipients);
  const doneTo = recipients.length < batch ? null : (recipients.at(-1)?.at ?? null);
  await moveFiring(sql, schedule, { occurrenceAt: firing.occurrenceAt, doneTo, ...made });
}

async function makeOccurrences(sql: Sql, schedule: ScheduleRow, firing: FiringRow, recipients: readonly Recipient[]) {
  if (recipients.length === 0) return { made: 0, skipped: 0 };
  const now = await databaseNow(sql);
  const ids = recipients.map(({ recipient }) => recipient);
  const busy = await busyRecipients(sql, schedule, ids);
  const assistants = await assistantsOf(sql, schedule, recipients);
  const occurrences = recipients.flatMap((recipient) => {
    const of = { schedule, firing, recipient, now, busy: busy.has(recipient.recipient) };
    return occurrenceOf({ ...of, assistant: assistants.get(recipient.assistant ?? "") }) ?? [];
  });
  const { mode } = schedule;
  const { occurrenceAt, cause } = firing;
  return insertOccurrences(sql, schedule, { mode, occurrenceAt, occurrences, again: cause === "backfill" });
}

async function assistantsOf(
  sql: Sql,
  { tenantId }: ScheduleKey,
  recipients: readonly Recipient[],
): Promise<Map<string, AssistantRow>> {
  const found = new Map<string, AssistantRow>();
  for (const idOrGraphId of new Set(recipients.flatMap(({ assistant }) => assistant ?? []))) {
    const assistant = await getAssistant(sql, { tenantId, idOrGraphId });
    if (assistant !== undefined) found.set(idOrGraphId, assistant);
  }
  return found;
}
