// The door: whose request it is. Nothing behind it is reached by anybody who wasn't let in.
import type { MiddlewareHandler } from "hono";
import type { Principal } from "../../core/access.js";
import type { Engine } from "../../engine/engine.js";
import type { ApiEnv } from "../env.js";
import { unlessRefused } from "./refusal.js";

/**
 * For requests that never left the process: `app.fetch(request, { [ACTING_AS]: principal })` is this principal's, whatever its headers say. No
 * request from outside can bring one.
 */
export const ACTING_AS = Symbol("perdure.acting_as");

export function door(engine: Engine): MiddlewareHandler<ApiEnv> {
  return unlessRefused(async (c) => {
    const acting = (c.env as { [ACTING_AS]?: Principal } | undefined)?.[ACTING_AS];
    if (engine.gate === null) {
      c.set("tenantId", acting?.tenantId ?? (await engine.tenantOf(c.req.raw.headers)));
      return;
    }
    const principal = acting ?? (await engine.gate.admit(c.req.raw));
    c.set("tenantId", principal.tenantId);
    c.set("principal", principal);
  });
}
