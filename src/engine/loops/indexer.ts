// The indexer: gives items vectors that have none of the store's index, because it has changed, or they were put without one. One process of those
// with the newest index does a round; nobody else waits for it, and until it is over such items aren't found by what they mean.
import type { Deps } from "../../core/deps.js";
import { beginIndex, claimIndexing, type ListedItem, listItems, postponeIndexing } from "../../items/indexes.js";
import { tenantOf } from "../../items/labels.js";
import { keepVectors } from "../../items/vectors.js";
import type { StoreIndex } from "../store-index.js";
import { createLoop, type Loop } from "./loop.js";

/** Longer than it takes from one page to the next; then the round of a process that died is anybody's. */
const CLAIM_MS = 10 * 60_000;
const EVERY_MS = 60 * 60_000;
const POLL_MS = 60_000;
const PAGE = 500;
/** Of items that are embedded at once. */
const AT_ONCE = 50;

export function createIndexer(deps: Deps, index: StoreIndex | null): Loop {
  let began = false;
  return createLoop(deps, {
    name: "indexer",
    pollMs: POLL_MS,
    tick: async (stopping) => {
      if (index === null) return 0;
      if (!began) await beginIndex(deps.db, index.id);
      began = true;
      return tickIndexer(deps, index, stopping);
    },
  });
}

/** One round, if it is due. Returns 0: there is nothing to look for again at once. */
export async function tickIndexer(deps: Deps, index: StoreIndex, signal?: AbortSignal): Promise<number> {
  if (!(await claimIndexing(deps.db, index.id, CLAIM_MS))) return 0;
  let indexed = 0;
  let after = { path: "", key: "" };
  let more = true;
  while (more) {
    const page = await listItems(deps.db, { indexId: index.id, after, limit: PAGE });
    const missing = page.filter(({ value }) => value !== null);
    for (let at = 0; at < missing.length && !signal?.aborted; at += AT_ONCE) {
      indexed += await indexItems(deps, index, missing.slice(at, at + AT_ONCE));
      if (!(await postponeIndexing(deps.db, index.id, CLAIM_MS))) return 0;
    }
    after = page.at(-1) ?? after;
    more = page.length === PAGE && !signal?.aborted;
  }
  await postponeIndexing(deps.db, index.id, signal?.aborted ? 0 : EVERY_MS);
  if (indexed > 0) deps.log.info({ items: indexed }, "items of the store have got vectors of its index");
  return 0;
}

async function indexItems(deps: Deps, index: StoreIndex, items: readonly ListedItem[]): Promise<number> {
  const vectors = await index.vectorsOf(items.map(({ value, paths }) => ({ value, paths })));
  let kept = 0;
  for (const [n, { path, key, sha256, paths }] of items.entries()) {
    const tenantId = tenantOf(path);
    if (tenantId === null) continue;
    await keepVectors(
      deps.db,
      { tenantId, path, key },
      { sha256, indexId: index.id, paths, vectors: vectors[n] ?? [] },
    );
    kept += 1;
  }
  return kept;
}
