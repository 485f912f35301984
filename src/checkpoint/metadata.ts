// A checkpoint's metadata: what is stored with it exactly, and the plain copy that filters and people see.
import { EXCLUDED_METADATA_KEYS } from "@langchain/langgraph-checkpoint";
import { encodeInline, isPlainJson } from "./codec/encoder.js";

type Fields = Readonly<Record<string, unknown>>;
type Config = Readonly<{ configurable?: Fields; metadata?: Fields }>;

/** In the plain copy, which stays in Postgres, a longer string from the configuration might be content. */
const MAX_CONFIGURABLE_CHARS = 64;

/** Before version 4 of its checkpoints LangGraph kept here what the nodes of a step had returned: content. */
const NODES_RETURNED = "writes";

/** `exact` as the head keeps it, `plain` as jsonb takes it: without NUL, lone surrogates and long configured strings. */
export type MetadataTexts = Readonly<{ fields: Fields; exact: string; plain: string }>;

/**
 * LangGraph's metadata with the run's own and what the run was configured with, as the Agent Server's history filters
 * expect it. Only for what LangGraph itself puts, which comes with a metadata config; a value that isn't JSON is left out.
 */
export function metadataTexts(config: Config, metadata: Fields, runId: string | null): MetadataTexts {
  const fields = mergedMetadata(config, metadata, runId);
  const isPlain = isPlainJson(fields);
  const exact = isPlain ? JSON.stringify(fields) : encodeInline(fields, "metadata");
  const hidden = hiddenKeys(config, fields);
  if (isPlain && hidden.size === 0 && !UNSTORABLE.test(exact)) return { fields, exact, plain: exact };
  return { fields, exact, plain: jsonbText(without(fields, hidden)) };
}

function mergedMetadata(config: Config, metadata: Fields, runId: string | null): Fields {
  if (config.metadata === undefined) return metadata;
  const merged: Record<string, unknown> = {};
  if (runId !== null) merged.run_id = runId;
  addUserFields(merged, config.configurable);
  addUserFields(merged, config.metadata);
  return { ...merged, ...metadata };
}

/** What the plain copy must not have. */
function hiddenKeys({ configurable = {}, metadata }: Config, fields: Fields): ReadonlySet<string> {
  const hidden = new Set<string>();
  if (Object.hasOwn(fields, NODES_RETURNED)) hidden.add(NODES_RETURNED);
  if (metadata === undefined) return hidden;
  for (const key of Object.keys(configurable)) {
    if (Object.hasOwn(fields, key) && !isShort(configurable[key])) hidden.add(key);
  }
  return hidden;
}

function without(fields: Fields, hidden: ReadonlySet<string>): Fields {
  return hidden.size === 0 ? fields : Object.fromEntries(Object.entries(fields).filter(([key]) => !hidden.has(key)));
}

/** JSON text that jsonb takes. */
export function jsonbText(value: unknown): string {
  const text = plainText(value);
  return text === undefined || UNSTORABLE.test(text) ? JSON.stringify(storable(value) ?? null) : text;
}

/** NUL and surrogates, as JSON.stringify writes them; or such a text itself, which is looked at more closely then. */
const UNSTORABLE = /\\u(0000|d[89a-f])/;

/** Undefined for what needs a closer look. */
function plainText(value: unknown): string | undefined {
  return isJson(value) ? JSON.stringify(value) : undefined;
}

function addUserFields(to: Record<string, unknown>, fields: Fields = {}): void {
  for (const key of Object.keys(fields)) {
    const value = fields[key];
    if (isUserKey(key) && isJson(value)) to[key] = value;
  }
}

function isUserKey(key: string): boolean {
  if (key.startsWith("__") || key.startsWith("langgraph_")) return false;
  return key === "run_id" || !EXCLUDED_METADATA_KEYS.has(key);
}

function isShort(value: unknown): boolean {
  return typeof value === "string" ? value.length <= MAX_CONFIGURABLE_CHARS : typeof value !== "object";
}

function isJson(value: unknown, depth = 0): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || depth > 20) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== Array.prototype) return false;
  return Object.values(value).every((inner) => isJson(inner, depth + 1));
}

function storable(value: unknown): unknown {
  if (typeof value === "string") return storableText(value);
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (Array.isArray(value)) return value.map((item) => storable(item) ?? null);
  if (typeof value !== "object" || value === null) return typeof value === "boolean" ? value : null;
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined && typeof inner !== "function");
  return Object.fromEntries(entries.map(([key, inner]) => [storableText(key), storable(inner)]));
}

/** In Node 20 strings have toWellFormed, not yet in the library types of ES2023. */
function storableText(text: string): string {
  return (text as string & { toWellFormed(): string }).toWellFormed().replaceAll("\0", "\ufffd");
}
