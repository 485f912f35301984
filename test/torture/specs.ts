// Random values as plain descriptions: a value can be made from one twice, once to be stored and once to compare with.
import { Document } from "@langchain/core/documents";
import {
  AIMessage,
  AIMessageChunk,
  type BaseMessage,
  HumanMessage,
  SystemMessage,
  ToolMessage,
} from "@langchain/core/messages";
import { Command, Overwrite, Send } from "@langchain/langgraph";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import fc from "fast-check";

export type Spec =
  | Readonly<{ is: "plain"; value: string | number | boolean | null }>
  | Readonly<{ is: "odd"; which: number }>
  | Readonly<{ is: "bigint"; digits: string }>
  | Readonly<{ is: "date"; ms: number }>
  | Readonly<{ is: "text"; unit: string; times: number }>
  | Readonly<{ is: "bytes"; kind: number; length: number; first: number }>
  | Readonly<{ is: "numbers"; length: number; first: number }>
  | Readonly<{ is: "list" | "sparse" | "named" | "set" | "repeated"; items: readonly Spec[] }>
  | Readonly<{ is: "object" | "bare" | "map"; entries: readonly (readonly [string, Spec])[] }>
  | Readonly<{ is: "error"; kind: number; message: string; cause: Spec }>
  | Readonly<{ is: "send" | "overwrite" | "snapshot" | "command"; inner: Spec }>
  | Readonly<{ is: "document"; text: string; inner: Spec }>
  | MessageSpec;

export type MessageSpec = Readonly<{
  is: "message";
  kind: number;
  id: string | null;
  content: Spec & Readonly<{ is: "text" }>;
  inner: Spec;
}>;

const ODD = [
  undefined,
  Number.NaN,
  -0,
  Infinity,
  -Infinity,
  /a+\/b/giu,
  new URL("https://example.org/a?b=c#d"),
  "a".match(/(?<letter>\w)/),
] as const;
const BYTES = [
  (bytes: Uint8Array) => bytes,
  (bytes: Uint8Array) => Buffer.from(bytes),
  (bytes: Uint8Array) => new Uint16Array(bytes),
  (bytes: Uint8Array) => new Float64Array(bytes),
  (bytes: Uint8Array) => new BigInt64Array(Array.from(bytes, BigInt)),
  (bytes: Uint8Array) => new DataView(Uint8Array.from(bytes).buffer),
  (bytes: Uint8Array) => Uint8Array.from(bytes).buffer,
];
const ERRORS = [Error, TypeError, RangeError] as const;

/** Makes the value; the same again and again, and never the same objects. */
export function build(spec: Spec): unknown {
  switch (spec.is) {
    case "plain":
      return spec.value;
    case "odd":
      return structuredCloneOf(ODD[spec.which % ODD.length]);
    case "bigint":
      return BigInt(spec.digits);
    case "date":
      return new Date(spec.ms);
    case "text":
      return spec.unit.repeat(spec.times);
    case "bytes": {
      const bytes = Uint8Array.from({ length: spec.length }, (_, i) => (spec.first + i * 7) % 256);
      return BYTES[spec.kind % BYTES.length]!(bytes);
    }
    case "numbers":
      return Array.from({ length: spec.length }, (_, i) => spec.first + i * 1.5);
    case "list":
      return spec.items.map(build);
    case "repeated": {
      const [one] = spec.items.map(build);
      return Array.from({ length: 9 }, () => one);
    }
    case "sparse": {
      const items = spec.items.map(build);
      for (let i = 0; i < items.length; i += 3) delete items[i];
      items.length += 1;
      return items;
    }
    case "named":
      return withProto(Object.assign(spec.items.map(build), { index: 3, $: "named" }));
    case "set":
      return new Set(spec.items.map(build));
    case "object":
      return Object.fromEntries(spec.entries.map(([key, value]) => [key, build(value)]));
    case "bare":
      return Object.assign(
        Object.create(null) as object,
        Object.fromEntries(spec.entries.map(([key, value]) => [key, build(value)])),
      );
    case "map":
      return new Map(spec.entries.map(([key, value]) => [key, build(value)]));
    case "error":
      return withProto(new ERRORS[spec.kind % ERRORS.length]!(spec.message, { cause: build(spec.cause) }));
    case "send":
      return sendOf(build(spec.inner));
    case "overwrite":
      return new Overwrite(build(spec.inner));
    case "snapshot":
      return new DeltaSnapshot(build(spec.inner));
    case "command":
      return new Command({ update: { inner: build(spec.inner) }, goto: ["node"] });
    case "document":
      return new Document({ pageContent: spec.text, metadata: { inner: build(spec.inner) } });
    case "message":
      return buildMessage(spec);
  }
}

/** Its constructor takes a key `__proto__` for the prototype. */
export function sendOf(args: unknown): Send {
  return Object.assign(new Send("node", {}), { args });
}

/** With a property of this name of its own, as JSON.parse makes it. */
function withProto<T extends object>(value: T): T {
  const own = { value: { polluted: true }, writable: true, configurable: true, enumerable: true };
  return Object.defineProperty(value, "__proto__", own);
}

export function buildMessage(spec: MessageSpec): BaseMessage {
  const message = newMessage(spec);
  // Constructors note arguments that nobody gave, some of them.
  for (const [key, given] of Object.entries(message.lc_kwargs)) if (given === undefined) delete message.lc_kwargs[key];
  return message;
}

function newMessage({ kind, id, content, inner }: MessageSpec): BaseMessage {
  const fields = {
    content: build(content) as string,
    additional_kwargs: { inner: build(inner) },
    ...(id === null ? {} : { id }),
  };
  switch (kind % 5) {
    case 0:
      return new HumanMessage(fields);
    case 1:
      return new AIMessage({
        ...fields,
        tool_calls: [{ name: "t", args: { inner: build(inner) }, id: "c", type: "tool_call" }],
      });
    case 2:
      return new ToolMessage({ ...fields, tool_call_id: "c", artifact: build(inner) });
    case 3:
      return new SystemMessage(fields);
    default:
      return new AIMessageChunk(fields);
  }
}

function structuredCloneOf(value: unknown): unknown {
  if (value instanceof RegExp) return new RegExp(value.source, value.flags);
  if (value instanceof URL) return new URL(value.href);
  return Array.isArray(value) ? "a".match(/(?<letter>\w)/) : value;
}

// Keys and texts that look like what the codec or LangChain writes.
const KEYS = [
  "a",
  "b",
  "__proto__",
  "$",
  "h",
  "v",
  "lc",
  "type",
  "id",
  "kwargs",
  "constructor",
  "c",
  "n",
  "t",
  "toJSON",
  "é",
];
const TEXTS = [
  "",
  "x",
  "\u0000",
  "\ud800",
  "\udc00é",
  "hole",
  "undefined",
  '{"$":"s","h":"',
  "constructor",
  "𝄞",
  "\u2028",
];

const short = fc.oneof(fc.constantFrom(...TEXTS), fc.string({ maxLength: 12 }));
const text = fc.record({
  is: fc.constant("text" as const),
  unit: fc.constantFrom("x", "é", "\ud83d", "𝄞", "\u0000", '"', "word "),
  times: fc.constantFrom(1, 63, 64, 65, 300, 1_023, 1_024, 1_025, 3_000),
});

export const { value, message } = fc.letrec<{ value: Spec; leaf: Spec; message: MessageSpec }>((tie) => ({
  leaf: fc.oneof(
    fc.record({
      is: fc.constant("plain" as const),
      value: fc.oneof(
        short,
        fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => n || 0),
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
      ),
    }),
    fc.record({ is: fc.constant("odd" as const), which: fc.nat(ODD.length - 1) }),
    fc.record({
      is: fc.constant("bigint" as const),
      digits: fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n }).map(String),
    }),
    fc.record({ is: fc.constant("date" as const), ms: fc.oneof(fc.integer(), fc.constant(-8.64e15)) }),
    text,
    fc.record({
      is: fc.constant("bytes" as const),
      kind: fc.nat(6),
      length: fc.constantFrom(0, 3, 255, 256, 300, 2_500),
      first: fc.nat(255),
    }),
    fc.record({ is: fc.constant("numbers" as const), length: fc.constantFrom(2, 7, 8, 9, 64, 130), first: fc.nat(9) }),
  ),
  value: fc.oneof(
    { maxDepth: 3, depthSize: "small", withCrossShrink: true },
    tie("leaf"),
    fc.record({
      is: fc.constantFrom("list", "sparse", "named", "set", "repeated"),
      items: fc.array(tie("value"), { maxLength: 10 }),
    }),
    fc.record({
      is: fc.constantFrom("object", "bare", "map"),
      entries: fc.array(fc.tuple(fc.oneof(fc.constantFrom(...KEYS), short), tie("value")), { maxLength: 5 }),
    }),
    fc.record({ is: fc.constant("error" as const), kind: fc.nat(2), message: short, cause: tie("value") }),
    fc.record({ is: fc.constantFrom("send", "overwrite", "snapshot", "command"), inner: tie("value") }),
    fc.record({ is: fc.constant("document" as const), text: short, inner: tie("value") }),
    tie("message"),
  ),
  message: fc.record({
    is: fc.constant("message" as const),
    kind: fc.nat(4),
    id: fc.option(fc.constantFrom("m1", "m2", "m3", "m4")),
    content: text,
    inner: tie("value"),
  }),
})) as { value: fc.Arbitrary<Spec>; message: fc.Arbitrary<MessageSpec> };
