// Who asks, when what stands in front of the API says so in headers that it sets itself.
import type { Caller } from "../core/approval.js";

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
