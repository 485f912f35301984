// Makes assistants, and versions of them.
import { type AssistantRow, getAssistant, systemAssistantId } from "../../assistants/queries.js";
import { addVersion, type AssistantPatch, insertAssistant, type NewAssistant } from "../../assistants/versions.js";
import { reaches, type Within } from "../../core/access.js";
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { AssistantId, TenantId } from "../../core/ids.js";
import { takeKey } from "../../runs/idempotency-keys.js";
import { findMadeBefore, type Once } from "./make-once.js";

/** `again`: an earlier request with the same key has made it. */
export type MadeAssistant = Readonly<{ assistant: AssistantRow; again: boolean }>;

type Asked = Omit<NewAssistant, "assistantId"> &
  Readonly<{
    assistantId: AssistantId | undefined;
    ifExists: "raise" | "do_nothing";
    within?: Within;
    once: Once | null;
  }>;

/** Throws `conflict` when the tenant has an assistant with this id and `ifExists` is "raise". */
export async function createAssistant(deps: Deps, asked: Asked): Promise<MadeAssistant> {
  const { tenantId, once, within = null } = asked;
  const before = once === null ? undefined : await assistantMadeBefore(deps, once);
  if (before !== undefined) return { assistant: before, again: true };
  const assistantId = asked.assistantId ?? deps.ids.next<AssistantId>();
  const made = await deps.db.tx(async (sql) => {
    if (once !== null && !(await takeKey(sql, once, assistantId))) return undefined;
    const made = await insertAssistant(sql, { ...asked, assistantId });
    const found =
      made ??
      (asked.ifExists === "do_nothing" ? await getAssistant(sql, { tenantId, idOrGraphId: assistantId }) : undefined);
    const isTheirs = made !== undefined || (found !== undefined && reaches(within, found.metadata));
    if (found === undefined || !isTheirs) throw new EngineError("conflict", `Assistant ${assistantId} already exists`);
    return found;
  });
  // Another request with the key was faster.
  return made === undefined ? createAssistant(deps, asked) : { assistant: made, again: false };
}

function assistantMadeBefore({ db }: Deps, once: Once): Promise<AssistantRow | undefined> {
  const { tenantId } = once;
  return findMadeBefore(db, once, "assistant", (id) => getAssistant(db, { tenantId, idOrGraphId: id }));
}

/**
 * The assistant with its next version, in which `metadata` is merged and all else takes the place of what it was.
 * Throws `bad_request` for another graph of a graph's own assistant, whose id says which it is; `not_found`.
 */
export async function changeAssistant(
  deps: Deps,
  { assistantId, graphId }: AssistantRow,
  patch: AssistantPatch & Readonly<{ tenantId: TenantId }>,
): Promise<AssistantRow> {
  const other = patch.graphId !== undefined && patch.graphId !== graphId;
  if (other && isSystemAssistant({ assistantId, graphId })) {
    throw new EngineError("bad_request", `graph_id: the assistant of graph "${graphId}" stays with its graph`);
  }
  const changed = await addVersion(deps.db, { ...patch, assistantId });
  if (changed === undefined) throw new EngineError("not_found", "Assistant not found");
  return changed;
}

/** Made by servers at their start, under the id that the graph's name stands for. */
export function isSystemAssistant({ assistantId, graphId }: Pick<AssistantRow, "assistantId" | "graphId">): boolean {
  return assistantId === systemAssistantId(graphId);
}
