// The rest of the wire contract: routes that stock clients may call and this server doesn't serve yet answer 501 by name.
import { Hono } from "hono";
import { EngineError } from "../../core/errors.js";
import type { ApiEnv } from "../env.js";

const UNSERVED: readonly (readonly [method: string, path: string])[] = [["POST", "/a2a/:assistant_id"]];

/** Mount after the served routes: what one of them has taken never gets here. */
export function notImplementedRoutes(): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  for (const [method, path] of UNSERVED) {
    routes.on(method, [path, `${path}/`], () => {
      const shown = path.replaceAll(/:(\w+)/g, "{$1}");
      throw new EngineError("not_implemented", `${method} ${shown} is not implemented yet`);
    });
  }
  return routes;
}
