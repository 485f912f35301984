// Runs that failed and wait for a person: which they are, and what the person decides.
import { type Context, Hono } from "hono";
import { z } from "zod";
import type { RunId } from "../../core/ids.js";
import { closeRun, retryRun } from "../../engine/commands/retry-run.js";
import type { Engine } from "../../engine/engine.js";
import { attentionOf } from "../../engine/attention.js";
import { listRuns } from "../../runs/runs.js";
import { ask } from "../auth/ask.js";
import type { ApiEnv } from "../env.js";
import { markReplayed, onceOf } from "../idempotency.js";
import { json } from "../reply.js";
import { flag, integer, pathId, readBody, readQuery } from "../request.js";
import { runShape } from "../../engine/run-shape.js";
import { absent, text } from "../schemas/parts.js";

export const runList = z.object({
  needs_attention: flag,
  limit: integer({ min: 1, max: 1_000, fallback: 100 }),
  offset: integer({ min: 0, max: 2_147_483_647, fallback: 0 }),
});
export const resolution = z.object({ by: absent(text.min(1).max(200)) });

export function failedRunRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();

  /** Runs of all threads, newest first. */
  routes.get("/v1/runs", async (c) => {
    const { needs_attention: needsAttention, limit, offset } = readQuery(c, runList);
    const { within } = await ask(engine, c, "threads:search", {});
    const filter = { tenantId: c.get("tenantId"), needsAttention, within };
    const runs = await listRuns(engine.deps.db, { ...filter, limit, offset });
    const shapes = [];
    for (const run of runs) shapes.push({ ...(await runShape(engine, run, [])), needs_attention: attentionOf(run) });
    return json(c, shapes);
  });

  /** Answers with the run that goes on for it. */
  routes.post("/v1/runs/:run_id/retry", async (c) => {
    const { run, again } = await retryRun(engine.deps, { ...(await resolve(c)), once: onceOf(engine, c) });
    if (again) markReplayed(c);
    c.header("Content-Location", `/threads/${run.threadId}/runs/${run.runId}`);
    return json(c, await runShape(engine, run));
  });

  routes.post("/v1/runs/:run_id/close", async (c) => {
    const { moveAfterMs } = engine.edits;
    return json(c, await runShape(engine, await closeRun(engine.deps, { ...(await resolve(c)), moveAfterMs })));
  });

  return routes;
}

async function resolve(c: Context<ApiEnv>) {
  const { by = "api" } = await readBody(c, resolution);
  return { tenantId: c.get("tenantId"), runId: pathId<RunId>(c, "run_id"), by };
}
