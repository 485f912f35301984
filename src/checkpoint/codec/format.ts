// The words of the format in docs/checkpoint-format.md: its shape, envelopes, and which nodes a text names.

/** What becomes a node of its own, and how arrays become trees. Whatever the shape, what was written is read the same way. */
export type Shape = Readonly<{
  /** A well-formed string of this many UTF-16 units or more is a node of its own. */
  leafChars: number;
  /** So are this many bytes. */
  leafBytes: number;
  /** Any other value whose text has this many UTF-16 units or more is a node of its own. */
  nodeChars: number;
  /** But arrays of few items from here on, so that the items of one that isn't nested stand in it themselves. */
  arrayChars: number;
  /** An array of this many items or more is a tree. */
  treeItems: number;
  /** An item whose JSON is longer than this many bytes is a node of its own. */
  inlineBytes: number;
  /** What a reference to an item counts; an inline item counts its bytes and 1. */
  referenceWeight: number;
  /** A group of items closes at this weight. */
  groupWeight: number;
  /** This many closed nodes of a level close into one of the level above; 2 at least. */
  fanout: number;
}>;

/** The shape of everything stored: with another one equal values would share no nodes with what is there. */
export const SHAPE: Shape = {
  leafChars: 1_024,
  leafBytes: 256,
  nodeChars: 4_096,
  arrayChars: 32_768,
  treeItems: 8,
  inlineBytes: 64,
  referenceWeight: 32,
  groupWeight: 256,
  fanout: 8,
};

/** A JSON object with this key is an envelope; user objects that have it are written as an `esc` envelope. */
export const MARK = "$";

/** s: a text, b: raw bytes, a: an array, n: any other value. */
export type ReferenceTag = "s" | "b" | "a" | "n";

export const UNDEFINED_TEXT = `{"${MARK}":"undefined"}`;
export const HOLE_TEXT = `{"${MARK}":"hole"}`;

/** How a text names a node; exactly so, since `referencesIn` looks for these characters. */
export function referenceText(tag: ReferenceTag, key: string): string {
  return `{"${MARK}":"${tag}","h":"${key}"}`;
}

export function envelopeText(tag: string, payload: string): string {
  return `{"${MARK}":"${tag}","v":${payload}}`;
}

/** A value by its own JSON text: for what is nested deeper than the rest of the format takes. */
export function jsonEnvelopeText(json: string): string {
  return envelopeText("json", JSON.stringify(json));
}

const INNER = `{"${MARK}":"inner",`;
const ROOT = `{"${MARK}":"root",`;

/** The text of an inner node of a tree: the nodes below it, left to right. */
export function innerText(keys: readonly string[]): string {
  return `${INNER}"c":${JSON.stringify(keys)}}`;
}

/** The text of a tree's root: how many items, the closed nodes per level (0 are groups of items), the items after them. */
export function rootText(count: number, levels: readonly (readonly string[])[], tail: readonly string[]): string {
  return `${ROOT}"n":${count},"c":${JSON.stringify(levels)},"t":[${tail.join(",")}]}`;
}

// No string of a JSON text can contain these characters, because its quotes would be escaped; and an object of the user
// that would be written so is written as an `esc` envelope.
const REFERENCE = /\{"\$":"[sban]","h":"([\w-]{43})"\}/g;

/** The keys of the nodes that a value's text or a JSON node's text names directly, each once. */
export function referencesIn(text: string): string[] {
  const keys = new Set<string>();
  if (text.startsWith(INNER) || text.startsWith(ROOT)) {
    const { c } = JSON.parse(text) as { c: string[] | string[][] };
    for (const key of c.flat()) keys.add(key);
  }
  for (const match of text.matchAll(REFERENCE)) keys.add(match[1] as string);
  return [...keys];
}

/** The same for a stored node: only JSON nodes (kind 1) name others. */
export function referencesOfNode(node: Readonly<{ kind: 0 | 1 | 2; data: Buffer }>): string[] {
  return node.kind === 1 ? referencesIn(node.data.toString("utf8")) : [];
}
