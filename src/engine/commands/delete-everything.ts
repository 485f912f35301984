// Deletes what clients have made, for suites of tests that want to begin with nothing. Only where the installation says that it may be.
import { searchAssistants } from "../../assistants/queries.js";
import type { TenantId } from "../../core/ids.js";
import type { Engine } from "../engine.js";
import { isSystemAssistant } from "./create-assistant.js";
import { deleteAssistant } from "./delete-assistant.js";
import { deleteThreadsLike } from "./delete-thread.js";

const AT_ONCE = 100;

export type What = Readonly<{ threads: boolean; assistants: boolean; store: boolean }>;

export async function deleteEverything(engine: Engine, tenantId: TenantId, what: What): Promise<void> {
  if (what.threads) await deleteThreadsLike(engine.deps, { tenantId });
  if (what.assistants) await deleteAssistants(engine, tenantId);
  if (what.store) await deleteItems(engine, tenantId);
}

async function deleteAssistants({ deps, edits }: Engine, tenantId: TenantId): Promise<void> {
  const page = { tenantId, sortBy: "assistant_id", sortOrder: "asc", limit: 1_000, offset: 0 } as const;
  for (;;) {
    const own = (await searchAssistants(deps.db, page)).filter((assistant) => !isSystemAssistant(assistant));
    if (own.length === 0) return;
    for (const assistant of own) {
      const { moveAfterMs } = edits;
      await deleteAssistant(deps, { tenantId, assistant, deleteThreads: false, moveAfterMs });
    }
  }
}

async function deleteItems({ storeOf }: Engine, tenantId: TenantId): Promise<void> {
  const store = storeOf(tenantId);
  for (;;) {
    const items = await store.search([], { limit: AT_ONCE });
    if (items.length === 0) return;
    for (const { namespace, key } of items) await store.delete(namespace, key);
  }
}
