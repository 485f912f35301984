// Follow-ups: what was promised for later, on which thread, and how far it has come.
import { type Context, Hono } from "hono";
import { z } from "zod";
import type { FollowupId, ThreadId } from "../../core/ids.js";
import type { Engine } from "../../engine/engine.js";
import { followupRecord } from "../../engine/followup-record.js";
import { FOLLOWUP_STATUSES, listFollowups } from "../../schedule/followups.js";
import type { When } from "../../schedule/when.js";
import { ask } from "../auth/ask.js";
import type { ApiEnv } from "../env.js";
import { cancelFollowup, findFollowup, rescheduleFollowup, scheduleFollowup } from "../followups.js";
import { markReplayed, onceOf } from "../idempotency.js";
import { json } from "../reply.js";
import { integer, one, pathId, readBody, readQuery } from "../request.js";
import { followupCreate, followupReschedule } from "../schemas/followups.js";
import { uuid } from "../schemas/parts.js";

export const followupList = z.object({
  thread_id: one.pipe(uuid.optional()),
  status: one.pipe(z.enum(FOLLOWUP_STATUSES).optional()),
  limit: integer({ min: 1, max: 1_000, fallback: 100 }),
  offset: integer({ min: 0, max: 2_147_483_647, fallback: 0 }),
});

export function followupRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  const { deps } = engine;
  const keyOf = (c: Context<ApiEnv>) => ({
    tenantId: c.get("tenantId"),
    followupId: pathId<FollowupId>(c, "followup_id"),
  });
  const found = (c: Context<ApiEnv>) => findFollowup(engine, keyOf(c));

  routes.get("/v1/followups", async (c) => {
    const { thread_id: threadId, status = null, ...page } = readQuery(c, followupList);
    const { within } = await ask(engine, c, "threads:search", {});
    const ofThread = { threadId: (threadId ?? null) as ThreadId | null, within };
    const filter = { tenantId: c.get("tenantId"), ...ofThread, status, ...page };
    return json(c, (await listFollowups(deps.db, filter)).map(followupRecord));
  });

  routes.get("/v1/followups/:followup_id", async (c) => json(c, followupRecord(await found(c))));

  routes.post("/v1/threads/:thread_id/followups", async (c) => {
    const threadId = pathId<ThreadId>(c, "thread_id");
    const { not_after, cancel_if_person_writes, conversation_id, assistant_id, when, ...asked } = await readBody(
      c,
      followupCreate,
    );
    const { followup, warnings, again } = await scheduleFollowup(engine, c, {
      ...{ threadId, ...asked, when: whenOf(when), notAfter: not_after },
      ...{ cancelIfPersonWrites: cancel_if_person_writes, once: onceOf(engine, c) },
      ...{ conversationId: conversation_id, assistantId: assistant_id },
    });
    if (again) markReplayed(c);
    return json(c, { ...followupRecord(followup), warnings }, again ? 200 : 201);
  });

  routes.post("/v1/followups/:followup_id/cancel", async (c) => {
    const outcome = await cancelFollowup(engine, await found(c), "over the API");
    return json(c, { ...followupRecord(await found(c)), outcome });
  });

  routes.post("/v1/followups/:followup_id/reschedule", async (c) => {
    const followup = await found(c);
    const { when } = await readBody(c, followupReschedule);
    return json(c, followupRecord(await rescheduleFollowup(engine, followup, whenOf(when))));
  });

  return routes;
}

function whenOf(when: z.output<typeof followupReschedule>["when"]): When {
  return "in" in when ? when : { at: when.at, timeZone: when.time_zone, weekday: when.weekday };
}
