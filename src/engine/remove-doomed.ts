// The end of a doomed pack: its object, then its row. Whoever dies in between leaves it to the orphan sweep.
import { deleteDoomedPacks } from "../checkpoint/packs.js";
import type { DoomedPack } from "../checkpoint/queries.js";
import type { Deps } from "../core/deps.js";

/** Deletes the objects; those that may still come are swept later, once more. Throws what the store throws. */
export async function removeDoomed(deps: Deps, packs: readonly DoomedPack[]): Promise<void> {
  if (packs.length === 0) return;
  await deps.bodies.delete(packs.map(({ key }) => key));
  await deleteDoomedPacks(
    deps.db,
    packs.filter(({ mayCome }) => !mayCome),
  );
}
