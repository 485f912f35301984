// Is it up, and what is it: `/ok` says whether requests can be served now, `/info` what clients may expect.
import { Hono } from "hono";
import { z } from "zod";
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { Engine } from "../../engine/engine.js";
import { readVersions } from "../../engine/versions.js";
import type { ApiEnv } from "../env.js";
import { one, readQuery } from "../request.js";

const DATABASE_ANSWER_MS = 2_000;
export const readyQuery = z.object({ check_db: one });

export function metaRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  const versions = readVersions();

  // Without a database nothing can be accepted, so readiness asks it unless the caller wants liveness (`check_db=0`).
  routes.get("/ok", async (c) => {
    const { check_db } = readQuery(c, readyQuery);
    if (check_db !== "0" && check_db !== "false") await isReady(engine);
    return c.json({ ok: true });
  });

  routes.get("/info", (c) =>
    c.json({
      version: versions.perdure,
      langgraph_js_version: versions.langgraph,
      context: "js",
      engine: "perdure",
      flags: {
        ...{ assistants: true, crons: true, langsmith: false, langsmith_tracing_replicas: false },
        ...{ stream_namespaces: true, strict_resume: true },
      },
    }),
  );

  return routes;
}

async function isReady({ deps, readiness }: Engine): Promise<void> {
  await databaseAnswers(deps);
  if (!readiness.prepared) throw new EngineError("unavailable", "This process is still starting");
}

async function databaseAnswers(deps: Deps): Promise<void> {
  const patience = new AbortController();
  const late = deps.clock.sleep(DATABASE_ANSWER_MS, patience.signal).then(() => {
    if (!patience.signal.aborted) throw new EngineError("unavailable", "The database doesn't answer");
  });
  try {
    await Promise.race([deps.db.query("select 1"), late]);
  } finally {
    patience.abort();
  }
}
