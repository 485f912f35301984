// The order in which the checkpoints of a stock thread were made. PostgresSaver takes the largest id for the newest; but ids
// are clocks of machines, and a checkpoint that stands on another is newer than it whatever its id says.
import { type StockLink, stockKey } from "./tables.js";

type Placed = StockLink & Readonly<{ latest: string; depth: number }>;

/** By id, but none before its parent. One whose parent is not there any more stands for itself. */
export function inOrderOfMaking(checkpoints: readonly StockLink[]): StockLink[] {
  const links = new Map(checkpoints.map((link) => [stockKey(link), link]));
  const placed = new Map<string, Placed>();
  for (const link of checkpoints) place(link, links, placed);
  return [...placed.values()].sort(
    (a, b) =>
      compare(a.latest, b.latest) ||
      a.depth - b.depth ||
      compare(a.checkpointId, b.checkpointId) ||
      compare(a.ns, b.ns),
  );
}

/** Places the chain above a checkpoint from its top down. */
function place(link: StockLink, links: ReadonlyMap<string, StockLink>, placed: Map<string, Placed>): void {
  const chain: StockLink[] = [];
  // The parent that closes a circle, which no saver makes, is taken for none.
  const onChain = new Set<string>();
  let next: StockLink | undefined = link;
  while (next !== undefined && !placed.has(stockKey(next)) && !onChain.has(stockKey(next))) {
    chain.push(next);
    onChain.add(stockKey(next));
    next = parentOf(next, links);
  }
  for (const one of chain.reverse()) {
    const above = parentOf(one, links);
    const parent = above === undefined ? undefined : placed.get(stockKey(above));
    const latest = parent === undefined || one.checkpointId > parent.latest ? one.checkpointId : parent.latest;
    placed.set(stockKey(one), { ...one, latest, depth: parent === undefined ? 0 : parent.depth + 1 });
  }
}

function parentOf({ ns, parentId }: StockLink, links: ReadonlyMap<string, StockLink>): StockLink | undefined {
  return parentId === null ? undefined : links.get(stockKey({ ns, checkpointId: parentId }));
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
