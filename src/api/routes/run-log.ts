// A run by its id alone: its record, and its log, page by page or as it grows.
import { type Context, Hono } from "hono";
import { z } from "zod";
import { EngineError } from "../../core/errors.js";
import type { RunId } from "../../core/ids.js";
import type { Engine } from "../../engine/engine.js";
import { runRecord } from "../../engine/run-record.js";
import { LOG_START, logLine, positionAfter, readLog } from "../../engine/run-log.js";
import { getRun, type RunRow } from "../../runs/runs.js";
import type { ApiEnv } from "../env.js";
import { json } from "../reply.js";
import { integer, one, pathId, readQuery } from "../request.js";
import { sseLog } from "../sse.js";

export const logQuery = z.object({ after: one, limit: integer({ min: 1, max: 1_000, fallback: 100 }) });

export function runLogRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();

  routes.get("/v1/runs/:run_id", async (c) => json(c, await runRecord(engine, await findRun(engine, c))));

  routes.get("/v1/runs/:run_id/events", async (c) => {
    const { after, limit } = readQuery(c, logQuery);
    const run = await findRun(engine, c);
    const from = c.req.header("Last-Event-ID") || after;
    const position = from === undefined || from === "" ? LOG_START : positionAfter(from);
    if (c.req.header("accept")?.includes("text/event-stream")) return sseLog(c, engine, run, position);
    return json(c, (await readLog(engine.deps.db, run, position, limit)).map(logLine));
  });

  return routes;
}

async function findRun({ deps }: Engine, c: Context<ApiEnv>): Promise<RunRow> {
  const runId = pathId<RunId>(c, "run_id");
  const run = await getRun(deps.db, { tenantId: c.get("tenantId"), runId });
  if (run === undefined) throw new EngineError("not_found", "Run not found", { details: { run_id: runId } });
  return run;
}
