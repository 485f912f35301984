// `perdure schedules`: whom a tenant writes to by itself, and when.
import type { Deps } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { DEFAULT_TENANT, isUuid, type ScheduleId } from "../core/ids.js";
import { noSchedule, pauseSchedule, resumeSchedule } from "../engine/commands/change-schedule.js";
import { backfillSchedule, runScheduleNow } from "../engine/commands/run-schedule.js";
import { previewSchedule } from "../engine/schedule-preview.js";
import { firingRecord, occurrenceRecord, scheduleRecord } from "../engine/schedule-record.js";
import { listFirings } from "../schedule/firings.js";
import { listOccurrences } from "../schedule/occurrences.js";
import { getSchedule, listSchedules, type ScheduleRow, type ScheduleStatus } from "../schedule/schedules.js";
import { details, type Output, table } from "./output.js";
import { json } from "./wire.js";

type Print = Output & Readonly<{ json: boolean }>;
const tenantId = DEFAULT_TENANT;

export async function schedulesLs(
  { db }: Deps,
  filter: Readonly<{ status: ScheduleStatus | null; limit: number }>,
  print: Print,
): Promise<void> {
  const schedules = (await listSchedules(db, { tenantId, offset: 0, ...filter })).map(scheduleRecord);
  if (print.json) return print.line(json(schedules));
  const rows = schedules.map(({ name, status, kind, next_at_local, mode, purpose, occurrences, schedule_id }) => ({
    ...{ name, status, kind, next: next_at_local, mode, purpose, times: occurrences, schedule: schedule_id },
  }));
  print.line(table(rows, "There are no such schedules."));
}

/** By id or name. */
async function named({ db }: Deps, text: string): Promise<ScheduleRow> {
  if (isUuid(text)) {
    const schedule = await getSchedule(db, { tenantId, scheduleId: text.toLowerCase() as ScheduleId });
    if (schedule !== undefined) return schedule;
    throw noSchedule(text);
  }
  const all = await listSchedules(db, { tenantId, status: null, limit: 10_000, offset: 0 });
  const schedule = all.find(({ name }) => name === text);
  if (schedule === undefined) throw new EngineError("not_found", `There is no schedule ${JSON.stringify(text)}`);
  return schedule;
}

const SHOWN = 20;

/** With its last times and what was made. */
export async function schedulesShow(deps: Deps, name: string, print: Print): Promise<void> {
  const schedule = await named(deps, name);
  const page = { limit: SHOWN, offset: 0 };
  const firings = (await listFirings(deps.db, schedule, page)).map((firing) => firingRecord(firing, schedule));
  const made = await listOccurrences(deps.db, schedule, { status: null, recipient: null, ...page });
  const record = scheduleRecord(schedule);
  const occurrences = made.map(occurrenceRecord);
  if (print.json) return print.line(json({ ...record, firings, occurrences }));
  const { when, audience, quiet_hours, ...plain } = record;
  const texts = { when, audience, quiet_hours };
  print.line(
    details({
      ...plain,
      ...Object.fromEntries(Object.entries(texts).map(([key, value]) => [key, JSON.stringify(value)])),
    }),
  );
  const times = firings.map(({ occurrence_at_local, cause, status, times: n, made: m, skipped, reason }) => ({
    ...{ time: occurrence_at_local, cause, status, times: n, made: m, skipped, reason },
  }));
  print.line(`\n${table(times, "It hasn't come yet.")}`);
  const people = occurrences.map(({ occurrence, status, reason, fires_at_local, recipient, followup_id }) => ({
    ...{ occurrence, status, reason, fires: fires_at_local, recipient, followup: followup_id },
  }));
  print.line(`\n${table(people, "Nothing was made for anybody yet.")}`);
}

export async function schedulesTurn(deps: Deps, name: string, how: "pause" | "resume", print: Print): Promise<void> {
  const key = await named(deps, name);
  const schedule = await (how === "pause" ? pauseSchedule : resumeSchedule)(deps, key);
  const record = scheduleRecord(schedule);
  if (print.json) return print.line(json(record));
  const next = record.next_at_local === null ? "" : `; it comes next ${record.next_at_local}`;
  print.line(`Schedule "${schedule.name}" is ${schedule.status}${next}.`);
}

export async function schedulesRun(deps: Deps, name: string, print: Print): Promise<void> {
  const key = await named(deps, name);
  const { times } = await runScheduleNow(deps, { ...key, overlap: null, once: null });
  if (print.json) return print.line(json({ schedule_id: key.scheduleId, times }));
  print.line(`Schedule "${key.name}" comes now.`);
}

export async function schedulesBackfill(
  deps: Deps,
  name: string,
  stretch: Readonly<{ from: Date; to: Date }>,
  print: Print,
): Promise<void> {
  const key = await named(deps, name);
  const { times } = await backfillSchedule(deps, { ...key, ...stretch, overlap: null, once: null });
  if (print.json) return print.line(json({ schedule_id: key.scheduleId, times }));
  print.line(`Schedule "${key.name}" comes for ${times.length} times of then.`);
}

export async function schedulesPreview(
  deps: Deps,
  name: string,
  size: Readonly<{ times: number; recipients: number }>,
  print: Print,
): Promise<void> {
  const preview = await previewSchedule(deps.db, await named(deps, name), size);
  if (print.json) return print.line(json(preview));
  print.line(
    table(
      preview.times.map(({ local, utc, reason }) => ({ local, utc, reason })),
      "It doesn't come any more.",
    ),
  );
  for (const time of preview.times) {
    if (!("recipients" in time)) continue;
    const rows = time.recipients.map(({ key, recipient, gets_it, local, reason }) => ({
      ...{ recipient: key ?? recipient, gets_it, at: local, reason },
    }));
    print.line(`\n${time.local}\n${table(rows, "Nobody.")}`);
  }
}
