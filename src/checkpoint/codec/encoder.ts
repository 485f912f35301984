// State values to text and nodes, exactly or not at all. Synchronous: a value is written as it is when the saver gets it.
import { LRUCache } from "lru-cache";
import {
  envelopeText,
  HOLE_TEXT,
  MARK,
  type ReferenceTag,
  referenceText,
  SHAPE,
  type Shape,
  UNDEFINED_TEXT,
} from "./format.js";
import { type Form, JAVASCRIPT_FORMS, RawBytes } from "./forms.js";
import { type Entry, entryOf, holdsStill, type ItemCache, type Slot, DEEP_ITEMS } from "./item-cache.js";
import { formOfOtherCopy, isMessage, LANGCHAIN_FORMS } from "./langchain-forms.js";
import { keysOf, makeNode, type Node } from "./node.js";
import { type TreeMemo, treeOf } from "./tree.js";
import { describeType, type PathStep, unsupported } from "./unsupported.js";

/** What encoders of one thread in one run share. */
export type EncodeSession = Readonly<{
  /** Keys of nodes that are stored: neither they nor what they name is written again. */
  known: Set<string>;
  items: ItemCache;
  trees: TreeMemo;
  shape: Shape;
}>;

export type EncodedValue = Readonly<{ text: string; refs: readonly string[] }>;

export type Encoder = Readonly<{
  /** Throws `value_unsupported` naming the path, which starts with `name`. */
  encode(value: unknown, name: string): EncodedValue;
  /** The nodes of all values so far that aren't known to be stored. */
  nodes: ReadonlyMap<string, Node>;
}>;

export function createSession(shape: Shape = SHAPE): EncodeSession {
  return { known: new Set(), items: new WeakMap(), trees: [], shape };
}

export function createEncoder(session: EncodeSession): Encoder {
  const nodes = new Map<string, Node>();
  const add = (node: Node): void => {
    if (session.known.has(node.key) || nodes.has(node.key)) return;
    nodes.set(node.key, node);
    for (const child of node.children) add(child);
  };
  return {
    nodes,
    encode(value, name) {
      const writing = startWriting(session, name);
      const text = write(writing, value);
      for (const child of writing.children) add(child);
      return { text, refs: keysOf(writing.children) };
    },
  };
}

/** The same text without nodes: for what must be whole wherever it stands. */
export function encodeInline(value: unknown, name: string): string {
  return isPlainJson(value) ? JSON.stringify(value) : write(startWriting(null, name), value);
}

/** Of what JSON.stringify writes the same. */
export function isPlainJson(value: unknown, depth = 0): boolean {
  if (typeof value === "string" || typeof value === "boolean" || value === null) return true;
  if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0);
  if (typeof value !== "object" || depth > PLAIN_DEPTH || Object.getPrototypeOf(value) !== Object.prototype)
    return false;
  if (Object.getOwnPropertySymbols(value).length > 0) return false;
  for (const key of Object.keys(value)) {
    if (key === MARK || !isPlainJson((value as Record<string, unknown>)[key], depth + 1)) return false;
  }
  return true;
}

type Writing = {
  /** Null: everything inline. */
  readonly session: EncodeSession | null;
  readonly path: PathStep[];
  /** The objects being written, outermost first, and how long the path was at each. */
  readonly open: object[];
  readonly depths: number[];
  /** The nodes that the text being written names. */
  children: Node[];
  /** Set when something was written whose changes its properties don't show. */
  opaque: boolean;
};

const MAX_DEPTH = 1_000;
/** Deeper, nobody has looked for a cycle. */
const PLAIN_DEPTH = 8;
/** A cycle gets here soon enough; below it nobody pays for the search. */
const CYCLE_DEPTH = 64;

const FORMS = new Map<object, Form>([...JAVASCRIPT_FORMS, ...LANGCHAIN_FORMS].map((form) => [form.prototype, form]));
/** Of these only what they are made of is kept, nothing that was set on them. */
const BARE = new Set<object>([Date, Map, Set, RegExp, URL, ArrayBuffer, DataView].map(({ prototype }) => prototype));
const ERROR_FORM = FORMS.get(Error.prototype) as Form;

function startWriting(session: EncodeSession | null, name: string): Writing {
  return { session, path: [name], open: [], depths: [], children: [], opaque: false };
}

function write(w: Writing, value: unknown): string {
  switch (typeof value) {
    case "string":
      return w.session !== null && value.length >= w.session.shape.leafChars
        ? writeLongText(w, value)
        : JSON.stringify(value);
    case "number":
      if (Number.isFinite(value) && !Object.is(value, -0)) return String(value);
      return envelopeText("number", Object.is(value, -0) ? '"-0"' : `"${value}"`);
    case "boolean":
      return value ? "true" : "false";
    case "undefined":
      return UNDEFINED_TEXT;
    case "bigint":
      return envelopeText("bigint", `"${value}"`);
    case "object":
      return value === null ? "null" : writeObject(w, value);
    case "function":
    case "symbol":
      throw unsupported(w.path, describeType(value));
  }
}

function writeUnder(w: Writing, key: PathStep, value: unknown): string {
  w.path.push(key);
  const text = write(w, value);
  w.path.pop();
  return text;
}

function writeLongText(w: Writing, value: string): string {
  if (isWellFormed(value)) return writeReference(w, "s", textNode(value));
  // UTF-8 can't hold it, JSON's escapes can.
  return writeReference(w, "n", makeNode(1, JSON.stringify(value), []));
}

function writeReference(w: Writing, tag: ReferenceTag, node: Node): string {
  w.children.push(node);
  return referenceText(tag, node.key);
}

function writeObject(w: Writing, object: object): string {
  if (w.open.length >= CYCLE_DEPTH) refuseEndless(w, object);
  w.open.push(object);
  w.depths.push(w.path.length);
  const outside = w.children.length;
  const prototype: unknown = Object.getPrototypeOf(object);
  let text: string;
  if (prototype === Object.prototype) text = writePlain(w, object);
  else if (prototype === Array.prototype) text = writeArray(w, object as unknown[]);
  else if (prototype === null) text = envelopeText("null", writePlain(w, object));
  else text = writeForm(w, object);
  w.open.pop();
  w.depths.pop();
  if (w.session === null) return text;
  const { arrayChars, nodeChars } = w.session.shape;
  if (text.length < (Array.isArray(object) ? arrayChars : nodeChars)) return text;
  // A node wherever it stands: what is around it changes without it, and no row of Postgres holds megabytes.
  return writeReference(w, "n", makeNode(1, text, w.children.splice(outside)));
}

function writePlain(w: Writing, object: object): string {
  if (Object.getOwnPropertySymbols(object).length > 0) refuseSymbolKeys(w, object);
  const keys = Object.keys(object);
  const values = object as Record<string, unknown>;
  if (keys.includes(MARK)) return writeEscaped(w, keys, values);
  let text = "{";
  for (const key of keys) {
    if (text.length > 1) text += ",";
    text += `${JSON.stringify(key)}:${writeUnder(w, key, values[key])}`;
  }
  return `${text}}`;
}

/** As entries, so that nothing in the text looks like an envelope. */
function writeEscaped(w: Writing, keys: readonly string[], values: Readonly<Record<string, unknown>>): string {
  const entries = keys.map((key) => `[${JSON.stringify(key)},${writeUnder(w, key, values[key])}]`);
  return envelopeText("esc", `[${entries.join(",")}]`);
}

function writeArray(w: Writing, array: readonly unknown[]): string {
  if (Object.getOwnPropertySymbols(array).length > 0) refuseSymbolKeys(w, array);
  const holes = array.includes(undefined) ? countHoles(array) : 0;
  const named = Object.keys(array).length - (array.length - holes);
  if (named > 0) return writeArrayWithNames(w, array);
  return writeItems(w, array, holes > 0);
}

function writeItems(w: Writing, array: readonly unknown[], sparse: boolean): string {
  if (w.session === null || array.length < w.session.shape.treeItems) {
    return `[${Array.from(array, (item, i) => writeItem(w, array, item, i)).join(",")}]`;
  }
  // The cache takes a hole for undefined.
  const memo = sparse ? [] : w.session.trees;
  return writeReference(w, "a", treeOf(array, itemSource(w, w.session, array), memo, w.session.shape));
}

function writeItem(w: Writing, array: readonly unknown[], item: unknown, index: number): string {
  return item === undefined && !(index in array) ? HOLE_TEXT : writeUnder(w, index, item);
}

/** What a regular expression's match is, for example. */
function writeArrayWithNames(w: Writing, array: readonly unknown[]): string {
  const named = Object.keys(array).filter((key) => !(key in array && isIndex(key)));
  const values = array as unknown as Readonly<Record<string, unknown>>;
  const names = Object.fromEntries(named.map((key) => [key, values[key]]));
  return envelopeText("array", `[${writeItems(w, array, true)},${writePlain(w, names)}]`);
}

function writeForm(w: Writing, object: object): string {
  const form = FORMS.get(Object.getPrototypeOf(object) as object) ?? otherForm(object);
  if (form === undefined) {
    // From another realm, or made with Object.create.
    if (isPlainElsewhere(object)) return writePlain(w, object);
    throw unsupported(w.path, describeType(object));
  }
  if (!isMessage(object)) w.opaque = true;
  if (BARE.has(form.prototype)) refuseKeys(w, object, form.tag);
  const payload = form.take(object);
  return envelopeText(form.tag, payload instanceof RawBytes ? writeBytes(w, payload.bytes) : write(w, payload));
}

function otherForm(object: object): Form | undefined {
  return object instanceof Error ? ERROR_FORM : formOfOtherCopy(object);
}

function writeBytes(w: Writing, bytes: Buffer): string {
  if (w.session === null || bytes.length < w.session.shape.leafBytes) return `"${bytes.toString("base64")}"`;
  // A copy: the caller may change its bytes before they are stored.
  return writeReference(w, "b", makeNode(2, Buffer.from(bytes), []));
}

function itemSource(w: Writing, session: EncodeSession, array: readonly unknown[]) {
  const newest = array.length - DEEP_ITEMS;
  const entry = (item: unknown, index: number): Entry => {
    const cached = typeof item === "object" && item !== null ? session.items.get(item) : undefined;
    if (cached !== undefined && holdsStill(item, cached, index >= newest) === true) return cached;
    return writeEntry(w, session, array, item, index);
  };
  return {
    entry,
    holds(item: unknown, index: number, known: Entry): boolean {
      const holds = holdsStill(item, known, index >= newest);
      return holds ?? writeEntry(w, session, array, item, index).slot.text === known.slot.text;
    },
  };
}

function writeEntry(
  w: Writing,
  session: EncodeSession,
  array: readonly unknown[],
  item: unknown,
  index: number,
): Entry {
  const { children, opaque } = w;
  w.children = [];
  w.opaque = false;
  const text = writeItem(w, array, item, index);
  const entry = entryOf(item, slotOf(session.shape, text, w.children), w.opaque);
  w.children = children;
  w.opaque ||= opaque;
  if (typeof item === "object" && item !== null) session.items.set(item, entry);
  return entry;
}

function slotOf(shape: Shape, text: string, children: readonly Node[]): Slot {
  const [only] = children;
  if (only !== undefined && text === referenceText("n", only.key)) return slotOfNode(shape, only);
  const bytes = Buffer.byteLength(text);
  if (bytes <= shape.inlineBytes) return { text, weight: bytes + 1, children };
  return slotOfNode(shape, makeNode(1, text, children));
}

export function slotOfNode(shape: Shape, node: Node): Slot {
  return { text: referenceText("n", node.key), weight: shape.referenceWeight, children: [node] };
}

// The same long texts stand in many values: in a message, in the update that brought it, in each state sent to a tool.
const textNodes = new LRUCache<string, Node>({
  maxSize: 16_000_000,
  sizeCalculation: (node, text) => text.length + node.key.length,
});

function textNode(text: string): Node {
  let node = textNodes.get(text);
  if (node === undefined) {
    node = makeNode(0, text, []);
    textNodes.set(text, node);
  }
  return node;
}

function refuseEndless(w: Writing, object: object): void {
  if (w.open.includes(object)) {
    const again = [...w.open, object].findIndex((other, i, all) => all.indexOf(other) < i);
    throw unsupported(w.path.slice(0, w.depths[again] ?? w.path.length), "part of a cycle");
  }
  if (w.open.length >= MAX_DEPTH) throw unsupported(w.path, `nested more than ${MAX_DEPTH} deep`);
}

function refuseSymbolKeys(w: Writing, object: object): void {
  for (const symbol of Object.getOwnPropertySymbols(object)) {
    if (Object.prototype.propertyIsEnumerable.call(object, symbol)) {
      throw unsupported(w.path, `an object with the key ${String(symbol)}`);
    }
  }
}

function refuseKeys(w: Writing, object: object, tag: string): void {
  refuseSymbolKeys(w, object);
  const [key] = Object.keys(object);
  if (key !== undefined) throw unsupported(w.path, `a ${tag} with the key ${JSON.stringify(key)}`);
}

function isIndex(key: string): boolean {
  return String(Number(key) >>> 0) === key;
}

function countHoles(array: readonly unknown[]): number {
  let holes = 0;
  for (let i = 0; i < array.length; i++) if (!(i in array)) holes++;
  return holes;
}

function isPlainElsewhere(object: object): boolean {
  const prototype = Object.getPrototypeOf(object) as object;
  return Object.getPrototypeOf(prototype) === null && prototype.constructor?.name === "Object";
}

/** In Node 20, not yet in the library types of ES2023. */
function isWellFormed(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed();
}
