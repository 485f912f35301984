// Follow-ups: what was promised for later, on which thread, and how far it has come.
import { type Context, Hono } from "hono";
import { z } from "zod";
import { EngineError } from "../../core/errors.js";
import type { ConversationId, FollowupId, ThreadId, TimerId } from "../../core/ids.js";
import { cancelFollowupIn, rescheduleFollowupIn } from "../../engine/commands/change-followup.js";
import { createFollowup } from "../../engine/commands/create-followup.js";
import { FollowupRefused } from "../../engine/commands/schedule-followup.js";
import type { Engine } from "../../engine/engine.js";
import { followupRecord } from "../../engine/followup-record.js";
import { refusingUnclear } from "../../engine/refusing-unclear.js";
import { FOLLOWUP_STATUSES, getFollowup, listFollowups } from "../../schedule/followups.js";
import type { When } from "../../schedule/when.js";
import { ask, userOf } from "../auth/ask.js";
import { mayUseAssistant } from "../auth/ask-run.js";
import type { ApiEnv } from "../env.js";
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
  const found = async (c: Context<ApiEnv>) => {
    const followup = await getFollowup(deps.db, keyOf(c));
    if (followup === undefined) throw new EngineError("not_found", `Follow-up ${keyOf(c).followupId} not found`);
    return followup;
  };

  routes.get("/v1/followups", async (c) => {
    const { thread_id: threadId, status = null, ...page } = readQuery(c, followupList);
    const { within } = await ask(engine, c, "threads:search", {});
    const ofThread = { threadId: (threadId ?? null) as ThreadId | null, within };
    const filter = { tenantId: c.get("tenantId"), ...ofThread, status, ...page };
    return json(c, (await listFollowups(deps.db, filter)).map(followupRecord));
  });

  routes.get("/v1/followups/:followup_id", async (c) => json(c, followupRecord(await found(c))));

  /** The answer goes to the conversation that is named, or where the thread's last turn came from. */
  routes.post("/v1/threads/:thread_id/followups", async (c) => {
    const threadId = pathId<ThreadId>(c, "thread_id");
    const {
      not_after: notAfter,
      cancel_if_person_writes: cancelIfPersonWrites,
      conversation_id: conversationId,
      assistant_id: assistantId,
      when,
      ...asked
    } = await readBody(c, followupCreate);
    await refuseOthersAssistant(engine, c, assistantId);
    const create = {
      ...{ tenantId: c.get("tenantId"), threadId, ...asked, when: whenOf(when) },
      ...{ notAfter, cancelIfPersonWrites, limits: engine.followups, once: onceOf(engine, c), user: userOf(c) },
      ...{ conversationId: (conversationId ?? null) as ConversationId | null, assistantId: assistantId ?? null },
    };
    const { followup, warnings, again } = await refusing(() => createFollowup(engine, create));
    if (again) markReplayed(c);
    return json(c, { ...followupRecord(followup), warnings }, again ? 200 : 201);
  });

  routes.post("/v1/followups/:followup_id/cancel", async (c) => {
    const key = await found(c);
    const timerId = deps.ids.next<TimerId>();
    const { outcome } = await deps.db.tx((sql) =>
      cancelFollowupIn(sql, { ...key, threadId: null, timerId, reason: "over the API" }),
    );
    deps.notifier.notify("timers");
    return json(c, { ...followupRecord(await found(c)), outcome });
  });

  routes.post("/v1/followups/:followup_id/reschedule", async (c) => {
    const key = await found(c);
    const { when } = await readBody(c, followupReschedule);
    const change = {
      ...{ ...key, threadId: null, timerId: deps.ids.next<TimerId>() },
      ...{ when: whenOf(when), limits: engine.followups },
    };
    await refusing(() => deps.db.tx((sql) => rescheduleFollowupIn(sql, change)));
    deps.notifier.notify("timers");
    return json(c, followupRecord(await found(c)));
  });

  return routes;
}

/** To who may not use it, it isn't there. */
async function refuseOthersAssistant(engine: Engine, c: Context<ApiEnv>, id: string | undefined): Promise<void> {
  const tenantId = c.get("tenantId");
  const assistant = id === undefined ? undefined : await engine.assistant({ tenantId, idOrGraphId: id });
  if (assistant === undefined || (await mayUseAssistant(engine, c, assistant))) return;
  throw new EngineError("bad_request", `assistant_id: there is no assistant ${JSON.stringify(id)}`);
}

function whenOf(when: z.output<typeof followupReschedule>["when"]): When {
  return "in" in when ? when : { at: when.at, timeZone: when.time_zone, weekday: when.weekday };
}

/** What a model is told as an answer, a program is told as an error. */
async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await refusingUnclear(work);
  } catch (error) {
    if (error instanceof FollowupRefused) throw new EngineError("conflict", error.message);
    throw error;
  }
}
