// What langgraph.json turns off (`http.disable_…`) isn't there: by the paths that belong to each part of the surface.
import type { MiddlewareHandler } from "hono";
import type { Surface } from "../engine/http-json.js";
import { nothingServed } from "./http-errors.js";

/** A path belongs to each part of which a pattern fits. Webhooks have no path: they are refused where they are asked for. */
const PATHS: readonly (readonly [RegExp, readonly Surface[]])[] = [
  [/^\/assistants(\/|$)/, ["assistants"]],
  [/^\/threads\/[^/]+\/runs(\/|$)/, ["runs"]],
  [/^\/runs(\/|$)/, ["runs"]],
  // It makes runs, and is read by thread.
  [/^\/threads\/[^/]+\/(commands|stream\/events)\/?$/, ["runs", "threads"]],
  [/^\/threads(?!\/[^/]+\/runs(\/|$))(\/|$)/, ["threads"]],
  [/^\/store(\/|$)/, ["store"]],
  [/^\/(info|metrics|docs|openapi\.json)(\/|$)/, ["meta"]],
  [/^\/mcp(\/|$)/, ["mcp"]],
  [/^\/a2a(\/|$)|^\/\.well-known\/agent-card\.json$/, ["a2a"]],
  [/^\/ui(\/|$)/, ["ui"]],
];

export function withoutDisabled(disabled: ReadonlySet<Surface>): MiddlewareHandler {
  return async (c, next) => {
    const isOff = PATHS.some(([path, parts]) => parts.some((part) => disabled.has(part)) && path.test(c.req.path));
    if (isOff) throw nothingServed(c);
    await next();
  };
}
