// The life of one upload: a pending row, the object, and the transaction that points to it. Whoever dies in between leaves a
// pending pack, which the orphan sweep finds; after the transaction everything is in place.
import { uuidToULID } from "ulid";
import { threadPrefix } from "../bodies/keys.js";
import type { ThreadKey } from "../checkpoint/move-queries.js";
import type { PackFile } from "../checkpoint/pack.js";
import { doomPack, insertPendingPack } from "../checkpoint/packs.js";
import type { Deps } from "../core/deps.js";
import type { PackId } from "../core/ids.js";
import { removeDoomed } from "./remove-doomed.js";

export type StoreStep = "announced" | "uploaded" | "committed";

/** Uploads the pack; `place` points to it, or gives undefined when there is nothing to point from: then the object goes again. */
export async function storePack<T>(
  deps: Deps,
  key: ThreadKey,
  { bytes, ...index }: PackFile,
  place: (packId: PackId) => Promise<T | undefined>,
  reached: (step: StoreStep) => Promise<void> | void,
): Promise<T | undefined> {
  const packId = deps.ids.next<PackId>();
  const objectKey = `${threadPrefix(key)}${uuidToULID(packId)}.jsonl.gz`;
  const pack = { ...key, packId, kind: "pack" as const, key: objectKey, bytes: bytes.length, ...index };
  await insertPendingPack(deps.db, pack);
  await reached("announced");
  await deps.bodies.create(pack.key, bytes);
  await reached("uploaded");
  const placed = await place(packId);
  await reached("committed");
  if (placed !== undefined) return placed;
  await doomPack(deps.db, pack);
  await removeDoomed(deps, [pack]);
  return undefined;
}
