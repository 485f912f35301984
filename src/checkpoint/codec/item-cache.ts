// What the items of arrays were written as, so that a conversation that grew by one message costs one message.
// An entry holds while its object holds what it held: a message is compared field by field, and deeply only while it is
// among the newest; any other object always deeply. So a deep change made in place to an older message isn't noticed.
import type { BaseMessage } from "@langchain/core/messages";
import { isMessage } from "./langchain-forms.js";
import type { Node } from "./node.js";

/** This many items at the end of an array are compared deeply. */
export const DEEP_ITEMS = 32;
const MAX_DEPTH = 12;

/** An item as its array holds it: its text or a reference to its node. */
export type Slot = Readonly<{ text: string; weight: number; children: readonly Node[] }>;

export type Entry = Readonly<{
  slot: Slot;
  /** A message's fields when it was written; null for other items. */
  fields: MessageFields | null;
  /** Every object inside the item with what it held; null when a change inside can't be seen from its properties. */
  inside: readonly Held[] | null;
}>;

type Held = Readonly<{ object: object; keys: readonly string[]; values: readonly unknown[] }>;

export type ItemCache = WeakMap<object, Entry>;

/** `opaque`: the item holds a Date, a Map, bytes or the like. */
export function entryOf(item: unknown, slot: Slot, opaque: boolean): Entry {
  if (typeof item !== "object" || item === null) return { slot, fields: null, inside: NOTHING };
  return { slot, fields: isMessage(item) ? fieldsOf(item) : null, inside: opaque ? null : whatItHolds(item) };
}

/** The entry of a message that was read under this slot: it is compared deeply after it was written once. */
export function entryOfRead(message: BaseMessage, slot: Slot): Entry {
  return { slot, fields: fieldsOf(message), inside: null };
}

/** True or false when the comparison tells, undefined when only writing the item again can. */
export function holdsStill(item: unknown, entry: Entry, deeply: boolean): boolean | undefined {
  if (typeof item !== "object" || item === null) return true;
  if (entry.fields !== null) {
    if (!sameFields(item as BaseMessage, entry.fields)) return false;
    if (!deeply) return true;
  }
  return entry.inside === null ? undefined : entry.inside.every(holdsTheSame);
}

const NOTHING: readonly Held[] = [];

function whatItHolds(item: object): readonly Held[] | null {
  const held: Held[] = [];
  return collect(item, held, 0) ? held : null;
}

function collect(object: object, held: Held[], depth: number): boolean {
  if (depth > MAX_DEPTH) return false;
  const keys: string[] = [];
  const values: unknown[] = [];
  for (const key in object) {
    keys.push(key);
    values.push((object as Record<string, unknown>)[key]);
  }
  held.push({ object, keys, values });
  return values.every((value, i) => {
    // A message's constructor arguments are its fields again.
    if (typeof value !== "object" || value === null || keys[i] === "lc_kwargs") return true;
    return collect(value, held, depth + 1);
  });
}

function holdsTheSame({ object, keys, values }: Held): boolean {
  let i = 0;
  for (const key in object) {
    if (key !== keys[i] || !Object.is((object as Record<string, unknown>)[key], values[i])) return false;
    i++;
  }
  return i === keys.length;
}

type AnyMessage = BaseMessage & Record<string, unknown>;
type MessageFields = ReturnType<typeof fieldsOf>;

function fieldsOf(message: BaseMessage) {
  const m = message as AnyMessage;
  return {
    content: m.content,
    id: m.id,
    name: m.name,
    additional_kwargs: m.additional_kwargs,
    response_metadata: m.response_metadata,
    tool_calls: m.tool_calls,
    invalid_tool_calls: m.invalid_tool_calls,
    tool_call_id: m.tool_call_id,
    usage_metadata: m.usage_metadata,
    status: m.status,
    artifact: m.artifact,
  };
}

/** Written out: this runs for every message of a conversation at every step. */
function sameFields(message: BaseMessage, fields: MessageFields): boolean {
  const m = message as AnyMessage;
  return (
    m.content === fields.content &&
    m.id === fields.id &&
    m.name === fields.name &&
    m.additional_kwargs === fields.additional_kwargs &&
    m.response_metadata === fields.response_metadata &&
    m.tool_calls === fields.tool_calls &&
    m.invalid_tool_calls === fields.invalid_tool_calls &&
    m.tool_call_id === fields.tool_call_id &&
    m.usage_metadata === fields.usage_metadata &&
    m.status === fields.status &&
    m.artifact === fields.artifact
  );
}
