// What operators watch, as Prometheus reads it; and the time that requests took.
import { Hono, type MiddlewareHandler } from "hono";
import { routePath } from "hono/route";
import { DEFAULT_TENANT } from "../../core/ids.js";
import type { Engine } from "../../engine/engine.js";
import { forbidden } from "../auth/refusal.js";
import type { ApiEnv } from "../env.js";

const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

export function metricsRoutes({ meters, measures }: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  routes.get("/metrics", async (c) => {
    const tenantId = c.get("principal")?.tenantId ?? DEFAULT_TENANT;
    if (tenantId !== DEFAULT_TENANT) {
      throw forbidden("Not authorized: metrics are of all tenants, and for operators, who are of the default one");
    }
    return c.body(await meters.render(await measures()), 200, { "Content-Type": meters.contentType });
  });
  return routes;
}

/** Around everything else. */
export function measureRequests({ deps, meters }: Engine): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const startMs = deps.clock.monotonicMs();
    await next();
    // The path as it is written here: what somebody has asked for may be anything, as a method may.
    const method = METHODS.has(c.req.method) ? c.req.method : "_OTHER";
    meters.requestAnswered(
      { method, route: routePath(c, -1), status: c.res.status },
      (deps.clock.monotonicMs() - startMs) / 1_000,
    );
  };
}
