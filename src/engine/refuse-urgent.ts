// A priority that a request asks for and its tenant may not have is refused by name, rather than lowered without a word.
import type { Sql } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import type { TenantId } from "../core/ids.js";
import { PRIORITY, PRIORITY_NAMES, type PriorityName } from "../core/run.js";
import { bestPriority } from "../runs/limits.js";

/** Throws `forbidden`. */
export async function refuseUrgent(sql: Sql, tenantId: TenantId, wanted: PriorityName): Promise<void> {
  const best = await bestPriority(sql, tenantId);
  if (PRIORITY[wanted] >= best) return;
  const allowed = PRIORITY_NAMES.slice(best).join(", ");
  throw new EngineError(
    "forbidden",
    `config.configurable.perdure.priority: "${wanted}" is more urgent than tenant ${tenantId} may be; it may ask for ${allowed}`,
  );
}
