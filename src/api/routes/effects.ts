// The ledger of effects, as it is: what tools did, may have done, or certainly didn't.
import { Hono } from "hono";
import { z } from "zod";
import type { RunId, ThreadId } from "../../core/ids.js";
import { EFFECT_STATUSES } from "../../effects/effect.js";
import { listEffects } from "../../effects/queries.js";
import { effectRecord } from "../../engine/effect-record.js";
import type { Engine } from "../../engine/engine.js";
import { ask } from "../auth/ask.js";
import type { ApiEnv } from "../env.js";
import { json } from "../reply.js";
import { integer, one, readQuery } from "../request.js";
import { uuid } from "../schemas/parts.js";

export const effectList = z.object({
  thread_id: one.pipe(uuid.optional()),
  run_id: one.pipe(uuid.optional()),
  status: one.pipe(z.enum(EFFECT_STATUSES).optional()),
  limit: integer({ min: 1, max: 1_000, fallback: 100 }),
  offset: integer({ min: 0, max: 2_147_483_647, fallback: 0 }),
});

export function effectRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();

  /** Newest first; results are content, and stand in the run's messages. */
  routes.get("/v1/effects", async (c) => {
    const { thread_id: threadId, run_id: runId, status, limit, offset } = readQuery(c, effectList);
    const { within } = await ask(engine, c, "threads:search", {});
    const effects = await listEffects(engine.deps.db, {
      tenantId: c.get("tenantId"),
      threadId: (threadId ?? null) as ThreadId | null,
      runId: (runId ?? null) as RunId | null,
      status: status ?? null,
      within,
      limit,
      offset,
    });
    return json(c, effects.map(effectRecord));
  });

  return routes;
}
