// Schedules: whom a tenant writes to by itself, when, and what became of it.
import { type Context, Hono } from "hono";
import { z } from "zod";
import type { ChannelAccountId, ContactId, ConversationId, ScheduleId } from "../../core/ids.js";
import type { Audience } from "../../delivery/audience.js";
import {
  changeSchedule,
  deleteSchedule,
  noSchedule,
  pauseSchedule,
  resumeSchedule,
} from "../../engine/commands/change-schedule.js";
import { createSchedule } from "../../engine/commands/create-schedule.js";
import { backfillSchedule, runScheduleNow } from "../../engine/commands/run-schedule.js";
import type { ScheduleAsked } from "../../engine/commands/schedule-settings.js";
import type { Engine } from "../../engine/engine.js";
import { previewSchedule } from "../../engine/schedule-preview.js";
import { firingRecord, occurrenceRecord, scheduleRecord } from "../../engine/schedule-record.js";
import { FOLLOWUP_STATUSES } from "../../schedule/followups.js";
import { listFirings } from "../../schedule/firings.js";
import { listOccurrences } from "../../schedule/occurrences.js";
import { getSchedule, listSchedules, SCHEDULE_STATUSES, type ScheduleRow } from "../../schedule/schedules.js";
import type { ApiEnv } from "../env.js";
import { markReplayed, onceOf } from "../idempotency.js";
import { json } from "../reply.js";
import { integer, one, pathId, readBody, readQuery } from "../request.js";
import { uuid } from "../schemas/parts.js";
import { scheduleBackfill, scheduleCreate, schedulePatch, scheduleRun } from "../schemas/schedules.js";

const page = {
  limit: integer({ min: 1, max: 1_000, fallback: 100 }),
  offset: integer({ min: 0, max: 2_147_483_647, fallback: 0 }),
};
export const firingList = z.object(page);
export const scheduleList = z.object({ status: one.pipe(z.enum(SCHEDULE_STATUSES).optional()), ...page });
export const occurrenceList = z.object({
  status: one.pipe(z.enum(FOLLOWUP_STATUSES).optional()),
  recipient: one.pipe(uuid.optional()),
  ...page,
});
export const previewQuery = z.object({
  times: integer({ min: 1, max: 50, fallback: 5 }),
  recipients: integer({ min: 0, max: 100, fallback: 0 }),
});

export function scheduleRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  const { deps, outreach } = engine;
  const keyOf = (c: Context<ApiEnv>) => ({
    tenantId: c.get("tenantId"),
    scheduleId: pathId<ScheduleId>(c, "schedule_id"),
  });
  const found = async (c: Context<ApiEnv>): Promise<ScheduleRow> => {
    const schedule = await getSchedule(deps.db, keyOf(c));
    if (schedule === undefined) throw noSchedule(keyOf(c).scheduleId);
    return schedule;
  };

  routes.post("/v1/schedules", async (c) => {
    const body = await readBody(c, scheduleCreate);
    const create = { tenantId: c.get("tenantId"), asked: askedOf(body), once: onceOf(engine, c) };
    const { schedule, again } = await createSchedule(deps, outreach, create);
    if (again) markReplayed(c);
    return json(c, scheduleRecord(schedule), again ? 200 : 201);
  });

  routes.get("/v1/schedules", async (c) => {
    const { status = null, ...rest } = readQuery(c, scheduleList);
    const schedules = await listSchedules(deps.db, { tenantId: c.get("tenantId"), status, ...rest });
    return json(c, schedules.map(scheduleRecord));
  });

  routes.get("/v1/schedules/:schedule_id", async (c) => json(c, scheduleRecord(await found(c))));

  routes.patch("/v1/schedules/:schedule_id", async (c) => {
    const key = keyOf(c);
    const { version, ...body } = await readBody(c, schedulePatch);
    const asked = (schedule: ScheduleRow) => {
      const { starts_at, ends_at, audience, ...record } = scheduleRecord(schedule);
      const before = { ...record, audience: schedule.audience, starts_at, ends_at };
      return askedOf({ ...before, ...body } as z.output<typeof scheduleCreate>);
    };
    return json(c, scheduleRecord(await changeSchedule(deps, outreach, key, { version, asked })));
  });

  routes.delete("/v1/schedules/:schedule_id", async (c) => {
    await deleteSchedule(deps, keyOf(c));
    return c.body(null, 204);
  });

  routes.post("/v1/schedules/:schedule_id/pause", async (c) =>
    json(c, scheduleRecord(await pauseSchedule(deps, keyOf(c)))),
  );
  routes.post("/v1/schedules/:schedule_id/resume", async (c) =>
    json(c, scheduleRecord(await resumeSchedule(deps, keyOf(c)))),
  );

  routes.post("/v1/schedules/:schedule_id/run", async (c) => {
    const { overlap = null } = await readBody(c, scheduleRun);
    const { times, again } = await runScheduleNow(deps, { ...keyOf(c), overlap, once: onceOf(engine, c) });
    if (again) markReplayed(c);
    return json(c, { ...scheduleRecord(await found(c)), times }, again ? 200 : 202);
  });

  routes.post("/v1/schedules/:schedule_id/backfill", async (c) => {
    const { from, to, overlap = null } = await readBody(c, scheduleBackfill);
    const backfill = { ...keyOf(c), from, to, overlap, once: onceOf(engine, c) };
    const { times, again } = await backfillSchedule(deps, backfill);
    if (again) markReplayed(c);
    return json(c, { ...scheduleRecord(await found(c)), times }, again ? 200 : 202);
  });

  /** The next times, with the wall's and UTC's, and what the first recipients get of each. */
  routes.get("/v1/schedules/:schedule_id/preview", async (c) => {
    const schedule = await found(c);
    return json(c, await previewSchedule(deps.db, schedule, readQuery(c, previewQuery)));
  });

  /** What became of each time, missed ones too; newest first. */
  routes.get("/v1/schedules/:schedule_id/firings", async (c) => {
    const schedule = await found(c);
    const firings = await listFirings(deps.db, schedule, readQuery(c, firingList));
    return json(
      c,
      firings.map((firing) => firingRecord(firing, schedule)),
    );
  });

  /** What was made for each recipient, with why not; newest first. */
  routes.get("/v1/schedules/:schedule_id/occurrences", async (c) => {
    const schedule = await found(c);
    const { status = null, recipient = null, ...rest } = readQuery(c, occurrenceList);
    const occurrences = await listOccurrences(deps.db, schedule, { status, recipient, ...rest });
    return json(c, occurrences.map(occurrenceRecord));
  });

  return routes;
}

function askedOf(body: z.output<typeof scheduleCreate>): ScheduleAsked {
  return {
    ...{ name: body.name, when: body.when, timeZone: body.time_zone, audience: audienceOf(body.audience) },
    ...{ mode: body.mode, about: body.about, instruction: body.instruction, purpose: body.purpose },
    ...{ quietHours: body.quiet_hours, catchUp: body.catch_up, catchUpWindow: body.catch_up_window },
    ...{ overlap: body.overlap, jitter: body.jitter, expiresAfter: body.expires_after },
    ...{ startsAt: body.starts_at, endsAt: body.ends_at, maxOccurrences: body.max_occurrences },
  };
}

type AudienceBody = z.output<typeof scheduleCreate>["audience"] & Readonly<{ channelAccountId?: string | null }>;

/** As a request has it, or as it is kept. */
function audienceOf(body: AudienceBody): Audience {
  const given = "channel_account_id" in body ? body.channel_account_id : body.channelAccountId;
  const channelAccountId = (given ?? null) as ChannelAccountId | null;
  if ("contacts" in body) return { channelAccountId, contacts: body.contacts as ContactId[] };
  if ("conversations" in body) return { channelAccountId, conversations: body.conversations as ConversationId[] };
  return { channelAccountId, where: body.where };
}
