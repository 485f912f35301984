// Who is let in, and what they may do: by a key, by the project's own `Auth`, by a token of an issuer that is trusted; nobody else.
import type { AuthModule, AuthUser, Gate, Principal } from "../../core/access.js";
import { looksLikeKey, readKey } from "../../core/api-key.js";
import type { Deps } from "../../core/deps.js";
import { DEFAULT_TENANT, type TenantId } from "../../core/ids.js";
import { isOwn, mayDo } from "../../core/scopes.js";
import { cachedKeys } from "../../keys/cached.js";
import { createHandlers, forOperators } from "./handlers.js";
import { createTokenReader, type JwtSettings } from "./jwt.js";
import { forbidden, unauthorized } from "./refusal.js";
import { tenantNamed } from "./tenant.js";

export type GateSettings = Readonly<{
  module: AuthModule | null;
  /** Who says to be LangGraph Studio is let in as such. */
  studio: boolean;
  jwt: JwtSettings | null;
  /** Called once for a tenant before its first request; it must not be called for names that nobody vouches for. */
  openTenant(tenantId: TenantId): Promise<void>;
}>;

const STUDIO: AuthUser = {
  kind: "StudioUser",
  identity: "langgraph-studio-user",
  display_name: "langgraph-studio-user",
  permissions: [],
  is_authenticated: true,
};
const MAX_TOKEN_CHARACTERS = 16_384;
/** Of a user that the project's `Auth` gives back: whose tenant's it is. */
const TENANT_FIELD = "perdure_tenant";

export function createGate(deps: Pick<Deps, "db" | "clock" | "log">, settings: GateSettings): Gate {
  const handlers = settings.module === null ? null : createHandlers(deps, settings.module);
  const authenticate = handlers?.authenticate ?? null;
  const openWithKey = cachedKeys(deps.db);
  const readToken = settings.jwt === null ? null : createTokenReader(settings.jwt);

  const byKey = async (text: string): Promise<Principal> => {
    const key = readKey(text);
    const row = key === undefined ? undefined : await openWithKey(key);
    if (row === undefined) throw unauthorized("Not authenticated: the API key is not known, or is over");
    const identity = `key:${row.apiKeyId}`;
    const user = { identity, display_name: row.name, permissions: row.scopes, is_authenticated: true };
    const isOver = async () => key === undefined || (await openWithKey(key)) === undefined;
    return { tenantId: row.tenantId, user, scopes: row.scopes, handled: false, isOver };
  };
  const byToken = async (read: NonNullable<typeof readToken>, token: string): Promise<Principal> => {
    const { tenantId, user, permissions, isOver } = await read(token);
    return { tenantId, user, scopes: handlers === null ? permissions : null, handled: true, isOver };
  };
  const principalOf = async (request: Request): Promise<Principal> => {
    const { headers } = request;
    const bearer = bearerOf(headers);
    const key = [headers.get("x-api-key") ?? "", bearer].find(looksLikeKey);
    if (key !== undefined) return byKey(key);
    if (settings.studio && headers.get("x-auth-scheme") === "langsmith") {
      return { tenantId: DEFAULT_TENANT, user: STUDIO, scopes: null, handled: true };
    }
    if (authenticate !== null) {
      const user = await authenticate(request);
      const tenantId = tenantNamed(user[TENANT_FIELD] ?? DEFAULT_TENANT, TENANT_FIELD);
      return { tenantId, user, scopes: null, handled: true };
    }
    if (readToken !== null && bearer !== "") return byToken(readToken, bearer);
    throw unauthorized("Not authenticated: send an API key (x-api-key) or a token (Authorization: Bearer)");
  };

  return {
    async admit(request) {
      const principal = await principalOf(request);
      await settings.openTenant(principal.tenantId);
      return principal;
    },

    async ask({ user, scopes, handled }, event, value) {
      if (scopes !== null && !mayDo(scopes, event)) throw forbidden(`Not authorized: this needs the scope ${event}`);
      if (!handled) return { within: null, value };
      if (handlers !== null) return { within: await handlers.authorize(user, event, value), value };
      if (isOwn(event) && scopes === null) throw forOperators(event);
      return { within: null, value };
    },
  };
}

function bearerOf(headers: Headers): string {
  const [, token = ""] = /^bearer +(\S+)$/i.exec(headers.get("authorization") ?? "") ?? [];
  return token.length > MAX_TOKEN_CHARACTERS ? "" : token;
}
