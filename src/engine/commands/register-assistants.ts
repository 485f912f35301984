// At start every graph gets its system assistant, so that a graph's name works wherever an assistant's id does.
import { upsertSystemAssistants } from "../../assistants/queries.js";
import type { Deps } from "../../core/deps.js";
import type { TenantId } from "../../core/ids.js";
import type { AssistantSettings } from "../assistant-json.js";

/** Registers the graphs for a tenant; safe to repeat and to do from many processes at once. */
export async function registerAssistants(
  deps: Deps,
  start: Readonly<{
    tenantId: TenantId;
    graphIds: readonly string[];
    settings?: AssistantSettings | undefined;
  }>,
): Promise<void> {
  const { tenantId, graphIds, settings = {} } = start;
  const given = graphIds.map((graphId) => ({ graphId, ...(settings[graphId] ?? { config: {}, context: {} }) }));
  const changed = await upsertSystemAssistants(deps.db, tenantId, given);
  if (changed > 0) deps.log.info({ tenantId, changed }, "system assistants registered");
}
