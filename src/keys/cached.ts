// Keys as requests need them: looked at every few seconds, however many requests come with one.
import { LRUCache } from "lru-cache";
import { type ReadKey, sameHash } from "../core/api-key.js";
import type { Sql } from "../core/deps.js";
import { type ApiKeyRow, findApiKey, touchApiKey } from "./api-keys.js";

/** What was revoked or has expired opens nothing after this long, in any process. */
export const KEY_FRESH_MS = 5_000;
const MAX = 10_000;
const HOUR_MS = 3_600_000;

export type OpenWithKey = (key: ReadKey) => Promise<ApiKeyRow | undefined>;

type Known = Readonly<{ row: (ApiKeyRow & Readonly<{ keySha256: Buffer }>) | null }>;

/** The key's row, if it is one that opens something. */
export function cachedKeys(sql: Sql): OpenWithKey {
  const known = new LRUCache<string, Known, ReadKey>({
    max: MAX,
    ttl: KEY_FRESH_MS,
    fetchMethod: async (_name, _stale, { context }) => ({ row: await look(sql, context) }),
  });
  return async (key) => {
    const found = await known.fetch(`${key.tenantId} ${key.apiKeyId}`, { context: key });
    const row = found?.row ?? null;
    return row !== null && !row.over && sameHash(row.keySha256, key.sha256) ? row : undefined;
  };
}

async function look(sql: Sql, key: ReadKey): Promise<Known["row"]> {
  const row = await findApiKey(sql, key);
  if (row === undefined) return null;
  const isStale = row.lastUsedAt === null || Date.now() - row.lastUsedAt.getTime() > HOUR_MS;
  if (isStale && !row.over && sameHash(row.keySha256, key.sha256)) await touchApiKey(sql, row);
  return row;
}
