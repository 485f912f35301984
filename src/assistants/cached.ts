// Assistants as requests need them: read once a second at most.
import { LRUCache } from "lru-cache";
import type { Sql } from "../core/deps.js";
import type { TenantId } from "../core/ids.js";
import { type AssistantRow, getAssistant } from "./queries.js";

/** A change is seen by every process after this long. */
const FRESH_MS = 1_000;
const MAX = 10_000;

export type GetAssistant = (
  key: Readonly<{
    tenantId: TenantId;
    idOrGraphId: string;
    /** Not from memory. */
    fresh?: boolean;
  }>,
) => Promise<AssistantRow | undefined>;

/** Like `getAssistant`, from memory when it was read within the last second. What isn't there is looked for each time. */
export function cachedAssistants(sql: Sql): GetAssistant {
  const known = new LRUCache<string, AssistantRow, Parameters<GetAssistant>[0]>({
    max: MAX,
    ttl: FRESH_MS,
    fetchMethod: (_name, _stale, { context }) => getAssistant(sql, context),
  });
  return (key) =>
    known.fetch(`${key.tenantId} ${key.idOrGraphId}`, {
      context: key,
      forceRefresh: key.fresh ?? false,
    });
}
