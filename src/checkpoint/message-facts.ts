// What a stored message says of itself without its content: for lists that people and programs read without this package.
import { createHash } from "node:crypto";
import { MARK, referencesIn, SHAPE } from "./codec/format.js";
import { itemOf, type Item, type ReadNodes } from "./array-items.js";
import type { BodyNode } from "./ops.js";

export type MessageFacts = Readonly<{
  type: string;
  id: string | null;
  name: string | null;
  tool_calls?: readonly Readonly<{ id: unknown; name: unknown }>[];
  tool_call_id?: unknown;
  status?: unknown;
  usage_metadata?: unknown;
  model?: string;
}>;

/** A message in the object store: its own body, and the bodies that its text names. */
export type StoredMessage = Readonly<{ facts: MessageFacts; key: string; names: readonly string[] }>;

type Json = Readonly<Record<string, unknown>>;

const MESSAGE = /^([A-Za-z]+)Message(?:Chunk)?$/;

/** The messages among the items. */
export async function storedMessages(read: ReadNodes, items: readonly Item[]): Promise<StoredMessage[]> {
  const jsons = await opened(read, items);
  const envelopes = items.flatMap(({ key }, i) => {
    const envelope = asJson(jsons[i]);
    const kind = MESSAGE.exec(String(envelope[MARK]))?.[1];
    return kind === undefined ? [] : [{ key, type: kind.toLowerCase(), envelope }];
  });
  // A long message has its fields in a node of their own.
  const fields = await opened(
    read,
    envelopes.map(({ envelope }) => itemOf(envelope["v"])),
  );
  return envelopes.map(({ key, type, envelope }, i) => ({
    facts: factsOf(type, asJson(fields[i])),
    key,
    names: [...new Set([...referencesIn(JSON.stringify(envelope)), ...referencesIn(JSON.stringify(fields[i]))])],
  }));
}

async function opened(read: ReadNodes, items: readonly Item[]): Promise<unknown[]> {
  const keys = items.filter(({ inNode }) => inNode).map(({ key }) => key);
  const nodes = keys.length === 0 ? new Map<string, never>() : await read(keys);
  return items.map(({ key, json, inNode }) =>
    inNode ? (JSON.parse(nodes.get(key)?.data.toString("utf8") ?? "null") as unknown) : json,
  );
}

function factsOf(type: string, fields: Json): MessageFacts {
  const { id, name, tool_calls: calls, response_metadata: response } = fields;
  const { model_name: model } = asJson(response);
  return {
    type,
    id: typeof id === "string" ? id : null,
    name: typeof name === "string" ? name : null,
    ...(Array.isArray(calls) && {
      tool_calls: calls.map(asJson).map((call) => ({ id: call["id"], name: call["name"] })),
    }),
    ...("tool_call_id" in fields && { tool_call_id: fields["tool_call_id"] }),
    ...("status" in fields && { status: fields["status"] }),
    ...("usage_metadata" in fields && { usage_metadata: fields["usage_metadata"] }),
    ...(typeof model === "string" && { model }),
  };
}

function asJson(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}

/** The messages that stand in a short array itself, as the nodes they would be in a longer one: so each has a body. */
export function inlineMessages(text: string): BodyNode[] {
  if (!text.startsWith(`[{"${MARK}":"`)) return [];
  return (JSON.parse(text) as unknown[]).flatMap((slot): BodyNode[] => {
    if (!MESSAGE.test(String(asJson(slot)[MARK]))) return [];
    const data = Buffer.from(JSON.stringify(slot));
    if (data.length <= SHAPE.inlineBytes) return [];
    const hash = createHash("sha256").update(data).digest();
    return [{ key: hash.toString("base64url"), hash, kind: 1, refs: referencesIn(data.toString("utf8")), data }];
  });
}
