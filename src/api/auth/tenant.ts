// The tenant that somebody's word for a user names.
import type { TenantId } from "../../core/ids.js";
import { isTenantId } from "../../runs/tenants.js";
import { unauthorized } from "./refusal.js";

/** Throws 401 for what can be no tenant; `what` says where that stands. */
export function tenantNamed(named: unknown, what: string): TenantId {
  if (typeof named === "string" && isTenantId(named)) return named;
  throw unauthorized(`Not authenticated: ${what} names no tenant`);
}
