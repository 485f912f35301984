// What a tenant needs before its first request: its row, its graphs' assistants, its timers. Of the one that is always there it is done at the
// start of a process.
import { LRUCache } from "lru-cache";
import type { Deps } from "../core/deps.js";
import { DEFAULT_TENANT, type TenantId } from "../core/ids.js";
import { ensureTenant } from "../runs/tenants.js";
import type { AssistantSettings } from "./assistant-json.js";
import { registerAssistants } from "./commands/register-assistants.js";
import { setRetentionTimer } from "./loops/pruner.js";

const MAX = 100_000;

/** Once for each in a process; safe to repeat. */
export function createTenantOpener(
  deps: Deps,
  {
    graphIds,
    hasRetention,
    settings,
  }: Readonly<{ graphIds: readonly string[]; hasRetention: boolean; settings?: AssistantSettings | undefined }>,
): (tenantId: TenantId) => Promise<void> {
  const opened = new LRUCache<TenantId, true>({
    max: MAX,
    fetchMethod: async (tenantId) => {
      await ensureTenant(deps.db, tenantId);
      await registerAssistants(deps, { tenantId, graphIds, settings });
      if (hasRetention) await setRetentionTimer(deps, tenantId);
      return true as const;
    },
  });
  return async (tenantId) => {
    if (tenantId !== DEFAULT_TENANT) await opened.fetch(tenantId);
  };
}
