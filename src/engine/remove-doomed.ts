// The end of a doomed pack: its object, then its row. Whoever dies in between leaves it to the orphan sweep.
import { deleteDoomedPacks } from "../checkpoint/packs.js";
import type { Deps } from "../core/deps.js";
import type { TenantId } from "../core/ids.js";

/** `mayCome`: its upload may still be on its way. */
export type Doomed = Readonly<{ tenantId: TenantId; packId: string; key: string; mayCome?: boolean }>;

/** Deletes the objects; those that may still come are swept later, once more. Throws what the store throws. */
export async function removeDoomed(deps: Deps, packs: readonly Doomed[]): Promise<void> {
  if (packs.length === 0) return;
  await deps.bodies.delete(packs.map(({ key }) => key));
  await deleteDoomedPacks(
    deps.db,
    packs.filter(({ mayCome }) => mayCome !== true),
  );
}
