// Makes keys, and others in their place. What a key says is told once: here only its hash stays.
import { randomBytes } from "node:crypto";
import { keySha256, keyText, SECRET_BYTES } from "../../core/api-key.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { ApiKeyId, TenantId } from "../../core/ids.js";
import { scopeProblem } from "../../core/scopes.js";
import { type ApiKeyRow, expireApiKey, insertApiKey, type NewApiKey } from "../../keys/api-keys.js";
import { ensureTenant, isTenantId } from "../../runs/tenants.js";

const MAX_NAME = 200;

export type MadeKey = Readonly<{ row: ApiKeyRow /** The key itself, which nobody can be told again. */; key: string }>;

/** For a tenant, which is made with its first key. Throws `bad_request` for a name, tenant or scope that can't be. */
export async function createApiKey(
  deps: Pick<Deps, "db" | "ids">,
  asked: Readonly<{ tenantId: string; name: string; scopes: readonly string[]; expiresInMs: number | null }>,
): Promise<MadeKey> {
  const { tenantId, name, scopes } = asked;
  if (!isTenantId(tenantId)) {
    throw new EngineError("bad_request", `${JSON.stringify(tenantId)} is no tenant: 1 to 63 of a-z, 0-9, _ and -`);
  }
  if (name.trim() === "" || name.length > MAX_NAME) {
    throw new EngineError("bad_request", `a key's name has 1 to ${MAX_NAME} characters`);
  }
  const problem = scopes.length === 0 ? "a key without a scope opens nothing" : scopes.map(scopeProblem).find(Boolean);
  if (problem !== undefined) throw new EngineError("bad_request", problem);
  return deps.db.tx(async (sql) => {
    await ensureTenant(sql, tenantId);
    return insert(deps, sql, { ...asked, tenantId, rotates: null });
  });
}

/**
 * Another key with the same name, scopes and length of life; the old one ends after `keepMs`. Throws `not_found` when there is no such key, or it is
 * over.
 */
export async function rotateApiKey(
  deps: Pick<Deps, "db" | "ids">,
  { keepMs, ...old }: Readonly<{ tenantId: TenantId; apiKeyId: ApiKeyId; keepMs: number }>,
): Promise<MadeKey> {
  return deps.db.tx(async (sql) => {
    const row = await expireApiKey(sql, { ...old, afterMs: keepMs });
    if (row === undefined) throw noKey(old);
    return insert(deps, sql, { ...row, rotates: row.apiKeyId, expiresInMs: row.lifetimeMs });
  });
}

export function noKey({ tenantId, apiKeyId }: Readonly<{ tenantId: string; apiKeyId: string }>): EngineError {
  const message = `Tenant ${tenantId} has no API key ${apiKeyId} that is in use; \`perdure keys ls\` lists them`;
  return new EngineError("not_found", message, { details: { api_key_id: apiKeyId } });
}

async function insert(
  { ids }: Pick<Deps, "ids">,
  sql: Sql,
  asked: Omit<NewApiKey, "apiKeyId" | "keySha256">,
): Promise<MadeKey> {
  const { tenantId, name, scopes, rotates, expiresInMs } = asked;
  const apiKeyId = ids.next<ApiKeyId>();
  const key = keyText(tenantId, apiKeyId, randomBytes(SECRET_BYTES));
  const row = await insertApiKey(sql, {
    ...{ tenantId, apiKeyId, name, scopes, rotates, expiresInMs },
    keySha256: keySha256(key),
  });
  return { row, key };
}
