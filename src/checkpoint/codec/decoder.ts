// Text and nodes back to state values. Only envelopes become instances, and only of the classes that have a form.
import type { BaseMessage } from "@langchain/core/messages";
import { EngineError, isEngineError } from "../../core/errors.js";
import { MARK } from "./format.js";
import { assignAll, type Form, JAVASCRIPT_FORMS } from "./forms.js";
import { isMessage, LANGCHAIN_FORMS } from "./langchain-forms.js";

export type Decoder = Readonly<{
  /** The value of a text. Every node it names must be among the decoder's. Throws `body_corrupt` for what is no text of ours. */
  decode(text: string): unknown;
  /** The same for a text that was parsed already; works in place on what it is given. */
  revive(json: unknown): unknown;
}>;

/** Gives the bytes of a node; throws when there is none. */
export type NodeData = (key: string) => Buffer;

/**
 * A decoder for values that belong together: a message with an id that several of them hold is made once and shared.
 * Without an id each is made by itself: LangGraph's reducer gives ids in place, and two that are one object would become
 * one message. `onMessage` hears of every message that is an item with a node of its own.
 */
export function createDecoder(nodeData: NodeData, onMessage?: (message: object, key: string) => void): Decoder {
  const reading: Reading = {
    nodeData,
    onMessage,
    texts: new Map(),
    messages: new Map(),
    lists: new Map(),
    share: true,
  };
  const reviveChecked = (json: unknown): unknown => {
    try {
      return revive(reading, json);
    } catch (cause) {
      if (isEngineError(cause)) throw cause;
      throw new EngineError("body_corrupt", "A stored state value isn't what the codec writes: it is damaged.", {
        cause,
      });
    }
  };
  return { decode: (text) => reviveChecked(parse(text)), revive: reviveChecked };
}

type Reading = Readonly<{
  nodeData: NodeData;
  onMessage: ((message: object, key: string) => void) | undefined;
  texts: Map<string, string>;
  messages: Map<string, BaseMessage>;
  /** Items of groups and inner nodes that hold nothing a reader could change for another. */
  lists: Map<string, readonly unknown[]>;
  share: boolean;
}>;

type Json = { [key: string]: unknown };
type Envelope = Readonly<{ v: unknown; h: string }>;

/** In an array: no item here. */
const HOLE = Symbol("hole");

const FORMS = new Map<string, Form>([...JAVASCRIPT_FORMS, ...LANGCHAIN_FORMS].map((form) => [form.tag, form]));

const READERS = new Map<string, (r: Reading, envelope: Envelope) => unknown>([
  ["undefined", () => undefined],
  ["hole", () => HOLE],
  ["number", (_, { v }) => Number(v)],
  ["json", (_, { v }) => JSON.parse(v as string)],
  ["bigint", (_, { v }) => BigInt(v as string)],
  ["s", (r, { h }) => textOf(r, h)],
  ["b", (r, { h }) => r.nodeData(h)],
  ["a", (r, { h }) => readTree(r, h)],
  ["n", (r, { h }) => readItem(r, h)],
  ["esc", (r, { v }) => Object.fromEntries((v as [string, unknown][]).map(([key, value]) => [key, revive(r, value)]))],
  ["null", (r, { v }) => Object.assign(Object.create(null), revive(r, v))],
  ["array", (r, { v }) => readArrayWithNames(r, v as [unknown, unknown])],
]);

function parse(text: string): unknown {
  // No JSON starts so: later formats will.
  if (text.startsWith("#")) {
    throw new EngineError(
      "body_corrupt",
      "A state value was written by a newer version of perdure, which must read it.",
    );
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new EngineError("body_corrupt", "A stored state value isn't readable text any more.", { cause });
  }
}

/** Works in place on what JSON.parse made, where even `__proto__` is a property like any other. */
function revive(r: Reading, value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return reviveItems(r, value);
  const json = value as Json;
  if (MARK in json) return readEnvelope(r, json);
  for (const key in json) {
    const inner = json[key];
    if (typeof inner === "object" && inner !== null) json[key] = revive(r, inner);
  }
  return json;
}

function reviveItems(r: Reading, items: unknown[]): unknown[] {
  for (let i = 0; i < items.length; i++) {
    const item = items[i];
    if (typeof item === "object" && item !== null) put(items, i, revive(r, item));
  }
  return items;
}

function put(items: unknown[], index: number, item: unknown): void {
  if (item === HOLE) delete items[index];
  else items[index] = item;
}

function readEnvelope(r: Reading, envelope: Json): unknown {
  const tag = envelope[MARK] as string;
  const read = READERS.get(tag);
  if (read !== undefined) return read(r, envelope as Envelope);
  const form = FORMS.get(tag);
  if (form === undefined) throw new EngineError("body_corrupt", `No form named ${JSON.stringify(tag)} is known.`);
  return form.make(revive(COLLECTIONS.has(tag) ? unshared(r) : r, envelope["v"]));
}

/** Their members are told apart by identity: two equal messages must stay two. */
const COLLECTIONS = new Set(["Set", "Map"]);

function unshared(r: Reading): Reading {
  return { ...r, messages: new Map(), lists: new Map(), share: false };
}

function textOf(r: Reading, key: string): string {
  let text = r.texts.get(key);
  if (text === undefined) {
    text = r.nodeData(key).toString("utf8");
    r.texts.set(key, text);
  }
  return text;
}

function jsonOf(r: Reading, key: string): unknown {
  return parse(r.nodeData(key).toString("utf8"));
}

function readItem(r: Reading, key: string): unknown {
  const known = r.messages.get(key);
  if (known !== undefined) return known;
  const item = revive(r, jsonOf(r, key));
  if (typeof item === "object" && item !== null && isMessage(item)) {
    if (r.share && hasId(item)) r.messages.set(key, item);
    r.onMessage?.(item, key);
  }
  return item;
}

function readTree(r: Reading, key: string): unknown[] {
  const { n, c, t } = jsonOf(r, key) as { n: number; c: string[][]; t: unknown[] };
  const items: unknown[] = new Array(n);
  let end = 0;
  const append = (more: readonly unknown[]): void => {
    for (const item of more) {
      if (item !== HOLE) items[end] = item;
      end++;
    }
  };
  for (let level = c.length - 1; level >= 0; level--) {
    for (const child of c[level] as string[]) append(readList(r, child, level));
  }
  append(reviveSlots(r, t));
  if (end !== n) throw new EngineError("body_corrupt", `The array ${key} has ${end} items, its root says ${n}.`);
  return items;
}

/** The items below a group (level 0) or an inner node; holes stay marked. */
function readList(r: Reading, key: string, level: number): readonly unknown[] {
  const known = r.lists.get(key);
  if (known !== undefined) return known;
  const json = jsonOf(r, key);
  const items =
    level === 0
      ? reviveSlots(r, json as unknown[])
      : (json as { c: string[] }).c.flatMap((child) => readList(r, child, level - 1));
  if (r.share && items.every(canBeShared)) r.lists.set(key, items);
  return items;
}

function reviveSlots(r: Reading, slots: readonly unknown[]): unknown[] {
  return slots.map((slot) => revive(r, slot));
}

function canBeShared(item: unknown): boolean {
  return typeof item !== "object" || item === null || (isMessage(item) && hasId(item));
}

function hasId(message: BaseMessage): boolean {
  return typeof message.id === "string" && message.id !== "";
}

function readArrayWithNames(r: Reading, [items, names]: [unknown, unknown]): unknown {
  return assignAll(revive(r, items) as unknown[], revive(r, names) as object);
}
