// How a state value looks as JSON, for streams, states and results. The stored value stays exact; this is only its picture.
// What JSON can't hold: bigint -> decimal string; Date -> ISO 8601, an invalid one null; NaN and infinities -> "NaN",
// "Infinity", "-Infinity"; Map -> object when all keys are strings, else [[key, value] …]; Set -> array; bytes -> base64;
// other typed arrays -> array of numbers; RegExp -> its source text; Error -> {name, message}; a cycle -> "[Circular]";
// undefined, functions and symbols -> left out of objects, null in arrays. Messages are flat: {type, content, id, …}.

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** The value as plain JSON data; undefined when it is nothing JSON shows (undefined, a function, a symbol). */
export function renderJson(value: unknown): Json | undefined {
  return render(value, new Set());
}

/** The value as JSON text; "null" for what JSON doesn't show. */
export function renderText(value: unknown): string {
  return JSON.stringify(renderJson(value) ?? null);
}

function render(value: unknown, above: Set<object>): Json | undefined {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "bigint":
      return value.toString();
    case "object":
      return value === null ? null : renderObject(value, above);
    case "undefined":
    case "function":
    case "symbol":
      return undefined;
  }
}

function renderObject(value: object, above: Set<object>): Json | undefined {
  if (above.has(value)) return "[Circular]";
  above.add(value);
  try {
    if (Array.isArray(value)) return value.map((item) => render(item, above) ?? null);
    return renderBuiltIn(value, above) ?? renderRecord(value, above);
  } finally {
    above.delete(value);
  }
}

/** Undefined: none of them. */
function renderBuiltIn(value: object, above: Set<object>): Json | undefined {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof Map) return renderMap(value, above);
  if (value instanceof Set) return [...value].map((item) => render(item, above) ?? null);
  if (value instanceof RegExp) return String(value);
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (value instanceof URL) return value.href;
  if (value instanceof Uint8Array || value instanceof Uint8ClampedArray || value instanceof DataView) {
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
  }
  if (value instanceof ArrayBuffer) return Buffer.from(value).toString("base64");
  if (ArrayBuffer.isView(value)) {
    return Array.from(value as unknown as ArrayLike<number | bigint>, (item) => render(item, above) ?? null);
  }
  if (value instanceof Number || value instanceof String || value instanceof Boolean || value instanceof BigInt) {
    return render(value.valueOf(), above);
  }
  return undefined;
}

function renderMap(map: ReadonlyMap<unknown, unknown>, above: Set<object>): Json {
  const entries = [...map];
  if (entries.every(([key]) => typeof key === "string")) return record(entries as [string, unknown][], above);
  return entries.map(([key, item]) => [render(key, above) ?? null, render(item, above) ?? null]);
}

function renderRecord(value: object, above: Set<object>): Json | undefined {
  if (isMessage(value)) return record(messageEntries(value), above);
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return render(toJSON.call(value, ""), above);
  return record(Object.entries(value), above);
}

function record(entries: readonly (readonly [string, unknown])[], above: Set<object>): Json {
  const result: Record<string, Json> = {};
  for (const [key, item] of entries) {
    const rendered = render(item, above);
    if (rendered === undefined) continue;
    if (key === "__proto__") Object.defineProperty(result, key, { value: rendered, enumerable: true });
    else result[key] = rendered;
  }
  return result;
}

/** A LangChain message, of any copy of the library. */
type Message = { getType(): string; lc_kwargs: Readonly<Record<string, unknown>> } & Readonly<Record<string, unknown>>;

function isMessage(value: object): value is Message {
  const { getType, toDict, lc_kwargs } = value as { getType?: unknown; toDict?: unknown; lc_kwargs?: unknown };
  return (
    typeof getType === "function" && typeof toDict === "function" && typeof lc_kwargs === "object" && lc_kwargs !== null
  );
}

/** Not by `toDict`: that wraps user data which looks like a serialised LangChain object, and it must come back equal. */
function messageEntries(message: Message): [string, unknown][] {
  const assigned = ["id", "name"].filter((key) => message[key] !== undefined);
  const fields = new Set([...Object.keys(message.lc_kwargs), ...assigned]);
  fields.delete("type");
  const entries = [...fields].map((key): [string, unknown] => [
    key,
    key in message ? message[key] : message.lc_kwargs[key],
  ]);
  return [...entries, ["type", message.getType()]];
}
