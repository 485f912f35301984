// Runs by the dozen: made in one request, cancelled in one.
import { Hono } from "hono";
import { canonicalSha256 } from "../../core/canonical.js";
import { cancelRuns } from "../../engine/commands/cancel-runs.js";
import { allMadeBefore, createRuns, type MadeRuns } from "../../engine/commands/create-runs.js";
import type { Once } from "../../engine/commands/make-once.js";
import type { Engine } from "../../engine/engine.js";
import { runShape } from "../../engine/run-shape.js";
import { ask } from "../auth/ask.js";
import { askForRun } from "../auth/ask-run.js";
import type { ApiEnv } from "../env.js";
import { markReplayed, onceOf } from "../idempotency.js";
import { json } from "../reply.js";
import { readBody, readItems, readQuery } from "../request.js";
import { type RunCreate, runsCancel, runsCancelHow, statelessRunCreate } from "../schemas/runs.js";
import { againIfChanged, type C, inputOf, refuseUnmeetable } from "./runs.js";

const MOST_AT_ONCE = 500;

/** Mount before the routes of single runs: these names could be taken for a run's id. */
export function manyRunsRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();

  routes.post("/runs/batch", async (c) => {
    const bodies: RunCreate[] = await readItems(c, statelessRunCreate, MOST_AT_ONCE);
    for (const body of bodies) refuseUnmeetable(engine, body, "background");
    const { runs, again } = await makeAll(engine, c, bodies);
    if (again) markReplayed(c);
    const shapes = [];
    for (const run of runs) shapes.push(await runShape(engine, run));
    return json(c, shapes);
  });

  routes.post("/runs/cancel", async (c) => {
    const { action = "interrupt" } = readQuery(c, runsCancelHow);
    const { thread_id: threadId = null, run_ids: runIds = [], status } = await readBody(c, runsCancel);
    const told = { thread_id: threadId, action, metadata: { run_ids: runIds, status } };
    const { within } = await ask(engine, c, "threads:update", told);
    const statuses = status === "all" ? (["pending", "running"] as const) : status && ([status] as const);
    await cancelRuns(engine.deps, {
      tenantId: c.get("tenantId"),
      threadId,
      which: statuses === undefined ? { runIds } : { statuses },
      action,
      within,
      moveAfterMs: engine.edits.moveAfterMs,
    });
    return c.body(null, 204);
  });

  return routes;
}

async function makeAll(engine: Engine, c: C, bodies: readonly RunCreate[]): Promise<MadeRuns> {
  const asked: Awaited<ReturnType<typeof askForRun>>[] = [];
  for (const body of bodies) asked.push(await askForRun(engine, c, { threadId: null, body }));
  const key = onceOf(engine, c);
  const once = key === null ? null : bodies.map((_, at) => keyOfItem(key, at));
  const before = await allMadeBefore(engine.deps, once);
  if (before !== undefined) return { runs: before, again: true };
  const make = async (fresh: boolean): Promise<MadeRuns> => {
    const inputs = [];
    for (const one of asked) inputs.push(await inputOf(engine, c, { ...one, waits: false, fresh }));
    return createRuns(engine.deps, inputs, once);
  };
  return againIfChanged(make);
}

/** One request's key makes several things. */
function keyOfItem(key: Once, at: number): Once {
  return { ...key, keySha256: canonicalSha256([key.keySha256.toString("hex"), at]) };
}
