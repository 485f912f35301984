// Which requests with an Idempotency-Key have made what (table `idempotency_keys`), written by the transaction that makes it.
import type { Sql } from "../core/deps.js";
import type { TenantId } from "../core/ids.js";

/** A request that may come again. */
export type RequestKey = Readonly<{
  tenantId: TenantId;
  /** Of who asks, method, path and key. */
  keySha256: Buffer;
  /** Of the body. */
  requestSha256: Buffer;
}>;

/** Notes what the request makes; false when the key is taken. Waits for a transaction under way that has it. */
export async function takeKey(sql: Sql, key: RequestKey, madeId: string): Promise<boolean> {
  const { rowCount } = await sql.query(
    `insert into idempotency_keys (tenant_id, key_sha256, request_sha256, made_id)
    values ($1, $2, $3, $4)
    on conflict do nothing`,
    [key.tenantId, key.keySha256, key.requestSha256, madeId],
  );
  return rowCount === 1;
}

export type Made = Readonly<{ madeId: string; sameRequest: boolean }>;

/** What was made with the key; undefined when nothing was. */
export async function madeWithKey(sql: Sql, key: RequestKey): Promise<Made | undefined> {
  const { rows } = await sql.query<Made>(
    `select made_id as "madeId", request_sha256 = $3 as "sameRequest"
    from idempotency_keys
    where tenant_id = $1 and key_sha256 = $2`,
    [key.tenantId, key.keySha256, key.requestSha256],
  );
  return rows[0];
}

/** Says what the request that has taken the key in this transaction made, when it turned out to be something else. */
export async function pointKey(sql: Sql, key: RequestKey, madeId: string): Promise<void> {
  await sql.query("update idempotency_keys set made_id = $3 where tenant_id = $1 and key_sha256 = $2", [
    key.tenantId,
    key.keySha256,
    madeId,
  ]);
}

/** Makes the key free again, unless another request has taken it for something else meanwhile. */
export async function giveKeyBack(sql: Sql, key: RequestKey, madeId: string): Promise<void> {
  await sql.query("delete from idempotency_keys where tenant_id = $1 and key_sha256 = $2 and made_id = $3", [
    key.tenantId,
    key.keySha256,
    madeId,
  ]);
}

/** Forgets keys that are older; returns how many. */
export async function deleteOldKeys(sql: Sql, olderThanMs: number): Promise<number> {
  const { rowCount } = await sql.query(
    "delete from idempotency_keys where created_at < (select clock_timestamp() - $1::float8 * interval '1 ms')",
    [olderThanMs],
  );
  return rowCount;
}
