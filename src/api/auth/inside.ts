// Whose request a call from inside is: of a run, or of a request to a route of the project's own.
import type { AuthUser, Principal } from "../../core/access.js";
import type { Who } from "../../engine/loopback.js";

/** Where nobody is asked for anything: only the tenant counts. */
const ANYBODY: AuthUser = { identity: "", display_name: "", permissions: [], is_authenticated: false };

/** Null: nobody's, which is let in like any other. A run has no more than its user: where there were scopes they hold, and handlers are asked. */
export function principalOf(
  { tenantId, user, principal }: Who,
  auth: "open" | Readonly<{ module: unknown }>,
): Principal | null {
  if (principal !== undefined) return principal;
  if (auth === "open") return { tenantId, user: ANYBODY, scopes: null, handled: false };
  if (user === null) return null;
  const isHeldToScopes = auth.module === null || user.identity.startsWith("key:");
  return { tenantId, user, scopes: isHeldToScopes ? user.permissions : null, handled: true };
}
