// An array as a tree whose shape depends on its items only, from the left: two arrays with an equal start share every
// closed node of it, and an append writes the open end. Item texts fill groups by weight; `fanout` closed nodes of a
// level close into one of the level above; the root names the closed nodes of each level and holds the items after them.
import { innerText, rootText, type Shape } from "./format.js";
import type { Entry, Slot } from "./item-cache.js";
import { makeNode, type Node } from "./node.js";

/** Arrays written last, newest first. */
export type TreeMemo = Written[];
const MEMO_SIZE = 8;

type Written = Readonly<{
  items: readonly unknown[];
  entries: readonly Entry[];
  closed: readonly Closed[];
  root: Node;
}>;
/** The state after a group closed: how many items the groups so far hold, and the closed nodes not yet under another. */
type Closed = Readonly<{ end: number; levels: readonly (readonly Node[])[] }>;

export type ItemSource = Readonly<{
  /** The item's entry, from the cache or written now. */
  entry(item: unknown, index: number): Entry;
  /** True when what the entry says still holds. `newest` items are compared deeply. */
  holds(item: unknown, index: number, entry: Entry): boolean;
}>;

/** The root of an array's tree. Starts from the written array that shares the longest beginning with it. */
export function treeOf(items: readonly unknown[], source: ItemSource, memo: TreeMemo, shape: Shape): Node {
  const { written, length } = longestStart(items, memo);
  const entries = written === undefined ? [] : written.entries.slice(0, length);
  for (let i = 0; i < entries.length; i++) {
    if (!source.holds(items[i], i, entries[i] as Entry)) entries.length = i;
  }
  if (written !== undefined && entries.length === items.length && written.items.length === items.length) {
    return written.root;
  }
  const same = entries.length;
  for (let i = same; i < items.length; i++) entries.push(source.entry(items[i], i));

  const closed = written === undefined ? [] : written.closed.filter(({ end }) => end <= same);
  closeGroups(entries, closed, shape);
  const root = rootOf(entries, closed.at(-1) ?? NOTHING_CLOSED);
  memo.unshift({ items: [...items], entries, closed, root });
  memo.length = Math.min(memo.length, MEMO_SIZE);
  return root;
}

/** The children of a text made of these slots. */
function childrenOf(slots: readonly Slot[]): Node[] {
  return slots.flatMap((slot) => slot.children);
}

const NOTHING_CLOSED: Closed = { end: 0, levels: [] };

function longestStart(items: readonly unknown[], memo: TreeMemo): { written?: Written; length: number } {
  let best: { written?: Written; length: number } = { length: 0 };
  for (const written of memo) {
    const end = Math.min(items.length, written.items.length);
    let length = 0;
    while (length < end && Object.is(items[length], written.items[length])) length++;
    if (length > best.length) best = { written, length };
    if (length >= items.length - 1) break;
  }
  return best;
}

/** Adds to `closed` the state after each group that the entries close. */
function closeGroups(entries: readonly Entry[], closed: Closed[], shape: Shape): void {
  let { end, levels } = closed.at(-1) ?? NOTHING_CLOSED;
  let weight = 0;
  for (let i = end; i < entries.length; i++) {
    weight += (entries[i] as Entry).slot.weight;
    if (weight < shape.groupWeight) continue;
    levels = withGroup(levels, groupNode(entries.slice(end, i + 1)), shape.fanout);
    end = i + 1;
    weight = 0;
    closed.push({ end, levels });
  }
}

function groupNode(entries: readonly Entry[]): Node {
  const slots = entries.map((entry) => entry.slot);
  return makeNode(1, `[${slots.map((slot) => slot.text).join(",")}]`, childrenOf(slots));
}

function withGroup(levels: readonly (readonly Node[])[], group: Node, fanout: number): readonly (readonly Node[])[] {
  const grown = [...levels];
  let node = group;
  for (let level = 0; ; level++) {
    const nodes = [...(grown[level] ?? []), node];
    if (nodes.length < fanout) {
      grown[level] = nodes;
      return grown;
    }
    grown[level] = [];
    node = makeNode(1, innerText(nodes.map(({ key }) => key)), nodes);
  }
}

function rootOf(entries: readonly Entry[], { end, levels }: Closed): Node {
  const tail = entries.slice(end).map((entry) => entry.slot);
  const text = rootText(
    entries.length,
    levels.map((nodes) => nodes.map(({ key }) => key)),
    tail.map((slot) => slot.text),
  );
  return makeNode(1, text, [...levels.flat(), ...childrenOf(tail)]);
}
