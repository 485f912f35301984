// For suites of tests: begin with nothing. Served only where PERDURE_TEST_ROUTES says so.
import { Hono } from "hono";
import { z } from "zod";
import { deleteEverything } from "../../engine/commands/delete-everything.js";
import type { Engine } from "../../engine/engine.js";
import type { ApiEnv } from "../env.js";
import { readBody } from "../request.js";
import { absent } from "../schemas/parts.js";

const yes = absent(z.boolean());
/** Runs and states go with their threads. */
const truncateBody = z.object({ runs: yes, threads: yes, assistants: yes, store: yes, checkpoint: yes });

export function truncateRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  routes.post("/internal/truncate", async (c) => {
    const { runs, threads, checkpoint, assistants, store } = await readBody(c, truncateBody);
    await deleteEverything(engine, await engine.tenantOf(c.req.raw.headers), {
      threads: [runs, threads, checkpoint].includes(true),
      assistants: assistants === true,
      store: store === true,
    });
    return c.json({ ok: true });
  });
  return routes;
}
