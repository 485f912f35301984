// API keys (table `api_keys`): only their hashes are here.
import type { Sql } from "../core/deps.js";
import type { ApiKeyId, TenantId } from "../core/ids.js";

type Key = Readonly<{ tenantId: TenantId; apiKeyId: ApiKeyId }>;

export type ApiKeyRow = Key &
  Readonly<{
    name: string;
    scopes: readonly string[];
    rotates: ApiKeyId | null;
    createdAt: Date;
    expiresAt: Date | null;
    revokedAt: Date | null;
    lastUsedAt: Date | null;
    /** It opens nothing any more: it was revoked, or has expired. */
    over: boolean;
  }>;

const COLUMNS = `
  tenant_id as "tenantId", api_key_id as "apiKeyId", name, scopes, rotates, created_at as "createdAt",
  expires_at as "expiresAt", revoked_at as "revokedAt", last_used_at as "lastUsedAt",
  (revoked_at is not null or coalesce(expires_at <= clock_timestamp(), false)) as over`;

export type NewApiKey = Key &
  Readonly<{
    name: string;
    keySha256: Buffer;
    scopes: readonly string[];
    rotates: ApiKeyId | null;
    /** From now; null: it doesn't expire. */
    expiresInMs: number | null;
  }>;

export async function insertApiKey(sql: Sql, key: NewApiKey): Promise<ApiKeyRow> {
  const { rows } = await sql.query<ApiKeyRow>(
    `insert into api_keys (tenant_id, api_key_id, name, key_sha256, scopes, rotates, expires_at)
    values ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7::float8 * interval '1 ms')
    returning ${COLUMNS}`,
    [key.tenantId, key.apiKeyId, key.name, key.keySha256, key.scopes, key.rotates, key.expiresInMs],
  );
  return rows[0] as ApiKeyRow;
}

/** With its hash; undefined when the tenant has none with this id. */
export async function findApiKey(
  sql: Sql,
  key: Key,
): Promise<(ApiKeyRow & Readonly<{ keySha256: Buffer }>) | undefined> {
  const { rows } = await sql.query<ApiKeyRow & { keySha256: Buffer }>(
    `select ${COLUMNS}, key_sha256 as "keySha256" from api_keys where tenant_id = $1 and api_key_id = $2`,
    [key.tenantId, key.apiKeyId],
  );
  return rows[0];
}

/** Newest first; of all tenants with null. */
export async function listApiKeys(sql: Sql, filter: Readonly<{ tenantId: TenantId | null }>): Promise<ApiKeyRow[]> {
  const { rows } = await sql.query<ApiKeyRow>(
    `select ${COLUMNS}
    from api_keys
    where $1::text is null or tenant_id = $1
    order by tenant_id, created_at desc, api_key_id`,
    [filter.tenantId],
  );
  return rows;
}

/** Whether anybody has a key that opens something. */
export async function hasApiKeys(sql: Sql): Promise<boolean> {
  const { rowCount } = await sql.query(
    `select tenant_id
    from api_keys
    where revoked_at is null and (expires_at is null or expires_at > clock_timestamp())
    limit 1`,
  );
  return rowCount > 0;
}

/** It opens nothing any more from now on; the same again changes nothing. Undefined when there is no such key. */
export async function revokeApiKey(sql: Sql, key: Key): Promise<ApiKeyRow | undefined> {
  const { rows } = await sql.query<ApiKeyRow>(
    `update api_keys
    set revoked_at = coalesce(revoked_at, clock_timestamp())
    where tenant_id = $1 and api_key_id = $2
    returning ${COLUMNS}`,
    [key.tenantId, key.apiKeyId],
  );
  return rows[0];
}

/** It ends after so long, or when it would have ended anyway. Undefined when it is over already, or there is no such key. */
export async function expireApiKey(
  sql: Sql,
  key: Key & Readonly<{ afterMs: number }>,
): Promise<(ApiKeyRow & Readonly<{ lifetimeMs: number | null }>) | undefined> {
  const { rows } = await sql.query<ApiKeyRow & { lifetimeMs: number | null }>(
    `with old as materialized (
      select tenant_id, api_key_id, extract(epoch from expires_at - created_at) * 1000 as lifetime_ms
      from api_keys
      where tenant_id = $1 and api_key_id = $2 and revoked_at is null
        and (expires_at is null or expires_at > clock_timestamp())
      for update
    )
    update api_keys k
    set expires_at = least(k.expires_at, clock_timestamp() + $3::float8 * interval '1 ms')
    from old
    where k.tenant_id = old.tenant_id and k.api_key_id = old.api_key_id
    returning k.tenant_id as "tenantId", k.api_key_id as "apiKeyId", k.name, k.scopes, k.rotates, k.created_at as "createdAt",
      k.expires_at as "expiresAt", k.revoked_at as "revokedAt", k.last_used_at as "lastUsedAt", false as over,
      old.lifetime_ms::float8 as "lifetimeMs"`,
    [key.tenantId, key.apiKeyId, key.afterMs],
  );
  return rows[0];
}

/** To the hour: who looks at it wants to know whether it is still in use. */
export async function touchApiKey(sql: Sql, key: Key): Promise<void> {
  await sql.query(
    `update api_keys
    set last_used_at = clock_timestamp()
    where tenant_id = $1 and api_key_id = $2
      and (last_used_at is null or last_used_at < clock_timestamp() - interval '1 hour')`,
    [key.tenantId, key.apiKeyId],
  );
}
