// The indexer: gives items vectors that have none of the store's index, because it has changed, or they were put without one. One process of those
// with the newest index does a round; nobody else waits for it, and until it is over such items aren't found by what they mean.
import type { Deps } from "../../core/deps.js";
import { isEngineError } from "../../core/errors.js";
import { classify } from "../../core/failure.js";
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
/** When none could be embedded before as many were refused, it isn't their fault. */
const MOST_REFUSED = 100;

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
  const done: Done = { indexed: 0, refused: 0 };
  let after = { path: "", key: "" };
  let more = true;
  while (more) {
    const page = await listItems(deps.db, { indexId: index.id, after, limit: PAGE });
    const missing = page.filter(({ value }) => value !== null);
    for (let at = 0; at < missing.length && !signal?.aborted; at += AT_ONCE) {
      await indexItems(deps, index, missing.slice(at, at + AT_ONCE), done);
      if (!(await postponeIndexing(deps.db, index.id, CLAIM_MS))) return 0;
    }
    after = page.at(-1) ?? after;
    more = page.length === PAGE && !signal?.aborted;
  }
  await postponeIndexing(deps.db, index.id, signal?.aborted ? 0 : EVERY_MS);
  const { indexed: items, refused } = done;
  if (items > 0) deps.log.info({ items }, "items of the store have got vectors of its index");
  if (refused > 0) deps.log.warn({ items: refused }, "items of the store can't be embedded, and no query finds them");
  return 0;
}

/** Of a round. */
type Done = { indexed: number; refused: number };

/** An item that can't be embedded keeps no other from being found. */
async function indexItems(deps: Deps, index: StoreIndex, items: readonly ListedItem[], done: Done): Promise<void> {
  const vectors = await index.vectorsOf(items.map(({ value, paths }) => ({ value, paths }))).catch((error: unknown) => {
    if (!isOfItems(error) || (done.indexed === 0 && done.refused >= MOST_REFUSED)) throw error;
    return null;
  });
  if (vectors !== null) return keepAll(deps, index, items, vectors, done);
  if (items.length === 1) {
    done.refused += 1;
    return;
  }
  const half = Math.ceil(items.length / 2);
  await indexItems(deps, index, items.slice(0, half), done);
  await indexItems(deps, index, items.slice(half), done);
}

/** What the model says of all, that it is away or lets nobody in, is no item's. */
function isOfItems(error: unknown): boolean {
  if (isEngineError(error, "bad_request")) return true;
  if (!isEngineError(error, "embedding_failed")) return false;
  const { class: kind, code } = classify(error.cause, 0);
  return kind === "content" || code === null;
}

async function keepAll(
  deps: Deps,
  index: StoreIndex,
  items: readonly ListedItem[],
  vectors: readonly number[][],
  done: Done,
): Promise<void> {
  for (const [n, { path, key, sha256, paths }] of items.entries()) {
    const tenantId = tenantOf(path);
    if (tenantId === null) continue;
    await keepVectors(
      deps.db,
      { tenantId, path, key },
      { sha256, indexId: index.id, paths, vectors: vectors[n] ?? [] },
    );
    done.indexed += 1;
  }
}
