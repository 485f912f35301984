// The items of a stored array that another stored array doesn't have, found by the names of nodes: what both share is
// neither read nor decoded, so that the messages a turn added cost what they are, however long the conversation is.
import { createHash } from "node:crypto";
import { EngineError } from "../core/errors.js";
import { MARK, SHAPE } from "./codec/format.js";
import type { PackedNode } from "./pack-types.js";

/** An item: the key of its node, or of the node it would be in a longer array; its parsed JSON where it stands in the array. */
export type Item = Readonly<{ key: string; json: unknown; inNode: boolean }>;

/** Gives these nodes, none of those they name. */
export type ReadNodes = (keys: readonly string[]) => Promise<ReadonlyMap<string, PackedNode>>;

type Root = Readonly<{ c: readonly (readonly string[])[]; t: readonly unknown[] }>;
type Json = Readonly<Record<string, unknown>>;

/** Undefined when the text is no array. Equal items count as often as they stand there. */
export async function newItems(read: ReadNodes, text: string, before: string | undefined): Promise<Item[] | undefined> {
  const [array, base] = [await open(read, text), before === undefined ? undefined : await open(read, before)];
  if (array === undefined) return undefined;
  const closed = new Set(base?.c.flat());
  const met = new Set<string>();
  const items = await flatten(read, array, closed, met);
  // Everything that was closed is in it still: only the open end of the other can be among what was found.
  if (met.size === closed.size) return without(items, (base?.t ?? []).map(itemOf));
  const [all, others] = [await flatten(read, array), await flatten(read, base as Root)];
  return without(all, others);
}

async function open(read: ReadNodes, text: string): Promise<Root | undefined> {
  const value: unknown = JSON.parse(text);
  if (Array.isArray(value)) return { c: [], t: value };
  const { [MARK]: tag, h } = (value ?? {}) as Json;
  if (tag === "a") return (await jsonOf(read, [h as string]))[0] as Root;
  if (tag !== "n") return undefined;
  const [inner] = await jsonOf(read, [h as string]);
  return Array.isArray(inner) ? { c: [], t: inner } : undefined;
}

/** From left to right; nodes in `skip` are passed over and noted in `met`. */
async function flatten(
  read: ReadNodes,
  root: Root,
  skip: ReadonlySet<string> = new Set(),
  met: Set<string> = new Set(),
): Promise<Item[]> {
  const below = async (keys: readonly string[], level: number): Promise<Item[]> => {
    const wanted = keys.filter((key) => !skip.has(key) || (met.add(key), false));
    const nodes = await jsonOf(read, wanted);
    const lists: Item[][] = [];
    for (const node of nodes) {
      lists.push(level === 0 ? (node as unknown[]).map(itemOf) : await below((node as { c: string[] }).c, level - 1));
    }
    return lists.flat();
  };
  const items: Item[] = [];
  for (let level = root.c.length - 1; level >= 0; level--) items.push(...(await below(root.c[level] ?? [], level)));
  return [...items, ...root.t.map(itemOf)];
}

/** An item by its slot in a group, a root or a short array. */
export function itemOf(slot: unknown): Item {
  const { [MARK]: tag, h } = (typeof slot === "object" ? (slot ?? {}) : {}) as Json;
  if (tag === "n") return { key: h as string, json: null, inNode: true };
  const text = JSON.stringify(slot);
  const isLong = Buffer.byteLength(text) > SHAPE.inlineBytes;
  return { key: isLong ? createHash("sha256").update(text).digest("base64url") : text, json: slot, inNode: false };
}

function without(items: readonly Item[], others: readonly Item[]): Item[] {
  const left = new Map<string, number>();
  for (const { key } of others) left.set(key, (left.get(key) ?? 0) + 1);
  return items.filter(({ key }) => {
    const count = left.get(key) ?? 0;
    left.set(key, count - 1);
    return count <= 0;
  });
}

async function jsonOf(read: ReadNodes, keys: readonly string[]): Promise<unknown[]> {
  if (keys.length === 0) return [];
  const nodes = await read(keys);
  return keys.map((key) => {
    const node = nodes.get(key);
    if (node === undefined)
      throw new EngineError("body_missing", `Body ${key} was not read`, { details: { body: key } });
    return JSON.parse(node.data.toString("utf8")) as unknown;
  });
}
