// Who asks: as what stands in front of the API says in headers that it sets itself, or as whoever let the request in knows.
import type { Context } from "hono";
import type { Caller } from "../core/approval.js";
import type { Engine } from "../engine/engine.js";
import type { ApiEnv } from "./env.js";

export const UNKNOWN: Caller = { person: null, roles: [] };

/** From X-Perdure-Person, and X-Perdure-Roles separated by commas. */
export function callerFrom(headers: Headers): Caller {
  const person = headers.get("x-perdure-person")?.trim() ?? "";
  const roles = headers.get("x-perdure-roles")?.split(",") ?? [];
  return {
    person: person === "" ? null : person,
    roles: roles.map((role) => role.trim()).filter((role) => role !== ""),
  };
}

/** Headers come first, where they say who asks at all. A key's scopes are no roles of a person's. */
export function callerOf(engine: Engine, c: Context<ApiEnv>): Caller {
  if (engine.callerOf !== null) return engine.callerOf(c.req.raw.headers);
  const principal = c.get("principal");
  if (principal === undefined) return UNKNOWN;
  return { person: principal.user.identity, roles: principal.handled ? principal.user.permissions : [] };
}
