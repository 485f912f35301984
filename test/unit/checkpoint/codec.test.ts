// The codec keeps values and types, or refuses them by path; its trees have one shape, its cache sees changes.
import assert from "node:assert/strict";
import { Document } from "@langchain/core/documents";
import {
  AIMessage,
  AIMessageChunk,
  type AIMessageFields,
  type BaseMessage,
  ChatMessage,
  FunctionMessage,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  ToolMessage,
  ToolMessageChunk,
} from "@langchain/core/messages";
import { Command, Overwrite, Send } from "@langchain/langgraph";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import { createDecoder } from "../../../src/checkpoint/codec/decoder.js";
import {
  createEncoder,
  createSession,
  encodeInline,
  type EncodeSession,
} from "../../../src/checkpoint/codec/encoder.js";
import { referencesIn, referencesOfNode } from "../../../src/checkpoint/codec/format.js";
import { bodyNodeOf } from "../../../src/checkpoint/codec/node.js";
import { isEngineError } from "../../../src/core/errors.js";

/** A session with everything it ever wrote. */
function codec(session: EncodeSession = createSession()) {
  const stored = new Map<string, Buffer>();
  return {
    session,
    stored,
    write(value: unknown) {
      const encoder = createEncoder(session);
      const { text, refs } = encoder.encode(value, "ch");
      const added = [...encoder.nodes.values()].map(bodyNodeOf);
      for (const node of added) {
        stored.set(node.key, node.data);
        session.known.add(node.key);
        expect(referencesOfNode(node).sort()).toEqual([...node.refs].sort());
      }
      expect(referencesIn(text).sort()).toEqual([...refs].sort());
      return { text, added };
    },
    read(text: string): unknown {
      return createDecoder((key) => stored.get(key) ?? assert.fail(`no node ${key}`)).decode(text);
    },
    roundTrip(value: unknown): unknown {
      return this.read(this.write(value).text);
    },
  };
}

const long = "long text ".repeat(300);
const manyBytes = Uint8Array.from({ length: 1000 }, (_, i) => i);
const withProps = Object.assign([1, 2], { index: 3, note: "x" });
const nullProto: object = Object.assign(Object.create(null), { a: 1, $: "s" });
const sparse: unknown[] = [1, undefined, 3];
sparse.length = 12;

const KEPT: Record<string, unknown> = {
  null: null,
  numbers: [0, -0, 1.5, -1e-7, 1e21, Number.MAX_SAFE_INTEGER, Number.NaN, Infinity, -Infinity],
  bigints: [0n, -12345678901234567890n],
  booleans: [true, false],
  texts: ["", "ä €𝄞", long, "\u0000", `\u0000${long}`, "\ud83d", `\ud83d${long}`, "\u2028"],
  undefineds: { a: undefined, b: [undefined, null, { c: undefined }] },
  dates: [new Date(0), new Date(-8.64e15), new Date("2026-02-03T04:05:06.789Z")],
  map: new Map<unknown, unknown>([
    [{ k: 1 }, new Map([["x", new Date(1)]])],
    [Number.NaN, undefined],
    ["big", long],
  ]),
  largeMap: new Map(Array.from({ length: 100 }, (_, i) => [i, { i }])),
  set: new Set([1, "1", new Date(5), [1n]]),
  regexps: [/a+/giu, Object.assign(/x/g, { lastIndex: 7 })],
  match: "a-1".match(/(?<letter>\w)-(\d)/),
  url: new URL("https://example.org/a?b=c#d"),
  bytes: { small: new Uint8Array([1, 2, 255]), large: manyBytes, buffer: Buffer.from("hi"), empty: new Uint8Array() },
  typedArrays: [
    new Int8Array([-1]),
    new Uint8ClampedArray([300]),
    new Int16Array([-2]),
    new Uint16Array([65535]),
    new Int32Array([-3]),
    new Uint32Array([4]),
    new Float32Array([1.5, Number.NaN]),
    new Float64Array(200).fill(-0),
    new BigInt64Array([-5n]),
    new BigUint64Array([6n]),
    manyBytes.subarray(3, 9),
  ],
  arrayBuffer: new Uint8Array([1, 2, 3]).buffer,
  dataView: new DataView(new Uint8Array([0, 1, 2, 3, 4]).buffer, 1, 3),
  withProps,
  nullProto,
  sparse,
  protoKey: JSON.parse('{"__proto__":{"x":1},"constructor":2,"y":{"__proto__":3}}'),
  document: new Document({ pageContent: long, metadata: { when: new Date(2) }, id: "d" }),
  documentWithoutId: new Document({ pageContent: "x" }),
  overwrite: new Overwrite([1]),
  snapshot: new DeltaSnapshot([new HumanMessage("x")]),
  interrupts: [{ id: "0123", value: { question: "ok?", when: new Date(3) } }],
  errorWrite: { message: "boom", name: "TypeError" },
};

describe("the codec keeps", () => {
  for (const [name, value] of Object.entries(KEPT)) {
    it(name, () => {
      const { write, read } = codec();
      const { text } = write(value);
      assert.deepStrictEqual(read(text), value);
      assert.deepStrictEqual(createDecoder(() => assert.fail()).decode(encodeInline(value, "ch")), value);
    });
  }

  it("an invalid date", () => {
    const [date] = codec().roundTrip([new Date(Number.NaN)]) as [Date];
    expect(date).toBeInstanceOf(Date);
    expect(date.getTime()).toBeNaN();
  });

  it("errors with name, message, stack, cause and fields", () => {
    class PaymentError extends Error {
      override name = "PaymentError";
      code = "card_declined";
    }
    const cause = new RangeError("inner");
    const original = [
      new TypeError("outer", { cause }),
      Object.assign(new Error("e"), { code: "E1", details: [1n] }),
      new AggregateError([cause], "many"),
      new PaymentError("no"),
      new DOMException("stopped", "AbortError"),
    ];
    const { roundTrip } = codec();
    const read = roundTrip.call(codec(), original) as Error[];
    expect(read.map((e) => Object.getPrototypeOf(e).constructor.name)).toEqual([
      "TypeError",
      "Error",
      "AggregateError",
      "Error",
      "Error",
    ]);
    for (const [i, error] of original.entries()) {
      const again = read[i] as Error & { code?: string; details?: unknown };
      expect([again.name, again.message, again.stack]).toEqual([error.name, error.message, error.stack]);
    }
    assert.deepStrictEqual(read[0]?.cause, cause);
    assert.deepStrictEqual(read[1], original[1]);
    assert.deepStrictEqual((read[2] as AggregateError).errors, [cause]);
    expect(read[3]).toMatchObject({ code: "card_declined" });
    expect(Object.keys(read[0])).toEqual([]);
  });

  it("Send and Command as instances, and plain data inside them as it is", () => {
    const lookalike = { node: "x", args: { lg_name: "Send" } };
    const send = new Send("tools", { messages: [new HumanMessage("hi")] }, { timeout: 5 });
    Object.assign(send.args, { lookalike });
    const command = new Command({ update: { a: 1n }, goto: [new Send("n", {})], graph: Command.PARENT, resume: "yes" });
    const read = codec().roundTrip([send, command]) as [Send, Command];
    assert.deepStrictEqual(read[0], send);
    expect(read[1]).toBeInstanceOf(Command);
    assert.deepStrictEqual(
      { ...read[1] },
      { ...command, [Symbol.for("langgraph.command")]: { ...read[1] }[Symbol.for("langgraph.command") as never] },
    );
    expect(read[1].toJSON()).toEqual(command.toJSON());
  });
});

// The types want JSON in a tool call's arguments; programs put other things there.
const args = { when: new Date(7), amount: 12n } as unknown as Record<string, string>;
const toolCalls = [{ name: "pay", args, id: "c1", type: "tool_call" as const }];
const MESSAGES: Record<string, BaseMessage> = {
  human: new HumanMessage("hi"),
  humanBlocks: new HumanMessage({
    content: [
      { type: "text", text: long },
      { type: "image_url", image_url: { url: "data:," } },
    ],
    id: "h",
    name: "Ann",
  }),
  ai: new AIMessage({
    content: "ok",
    tool_calls: toolCalls,
    usage_metadata: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
    response_metadata: { model: "m" },
    additional_kwargs: { reasoning: ["a"] },
  } as unknown as AIMessageFields),
  aiBlocks: new AIMessage({ contentBlocks: [{ type: "text", text: "v1" }] }),
  aiChunk: new AIMessageChunk({
    content: "par",
    tool_call_chunks: [{ name: "pay", args: '{"a":1}', id: "c", index: 0 }],
  }),
  tool: new ToolMessage({ content: long, tool_call_id: "c1", status: "error", artifact: { bytes: manyBytes } }),
  toolChunk: new ToolMessageChunk({ content: "x", tool_call_id: "c1" }),
  system: new SystemMessage("be brief"),
  humanChunk: new HumanMessageChunk("x"),
  chat: new ChatMessage("x", "critic"),
  function: new FunctionMessage({ content: "x", name: "f" }),
  remove: new RemoveMessage({ id: "gone" }),
};

describe("a message comes back", () => {
  for (const [name, message] of Object.entries(MESSAGES)) {
    it(`field by field, as an instance of its class: ${name}`, () => {
      const read = codec().roundTrip(message) as BaseMessage;
      expect(Object.getPrototypeOf(read)).toBe(Object.getPrototypeOf(message));
      const fields = ({ lc_kwargs: _, ...rest }: BaseMessage) => ({ ...rest });
      assert.deepStrictEqual(fields(read), fields(message));
      const json = (value: unknown): object =>
        JSON.parse(
          JSON.stringify(value, (_, inner: unknown) => (typeof inner === "bigint" ? String(inner) : inner)),
        ) as object;
      expect(json(read)).toMatchObject(json(message));
      expect(json(read.toDict())).toMatchObject(json(message.toDict()));
    });
  }

  it("with fields that were set after it was made", () => {
    const message = new AIMessage("x");
    Object.assign(message, {
      name: "late",
      usage_metadata: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
      mine: 1n,
    });
    const read = codec().roundTrip(message) as AIMessage;
    expect(read).toMatchObject({ name: "late", usage_metadata: { total_tokens: 2 }, mine: 1n });
  });

  it("to a text that is the same when it is written again", () => {
    const { write, read } = codec();
    for (const message of Object.values(MESSAGES)) {
      const { text } = write([message]);
      expect(codec().write(read(text)).text).toBe(text);
    }
  });
});

describe("the codec refuses, by path and type,", () => {
  class Account {
    balance = 1;
  }
  class MyMessage extends AIMessage {}
  class MyMap extends Map {}
  const cycle: Record<string, unknown> = { a: {} };
  (cycle["a"] as Record<string, unknown>)["back"] = [cycle];
  let deep: unknown = 1;
  for (let i = 0; i < 5_000; i++) deep = { deep };
  const REFUSED: [string, unknown, string, string][] = [
    ["a function", { keep: 1, list: [{ run: () => 1 }] }, "ch.list[0].run", "a function"],
    ["a symbol", { s: Symbol("x") }, "ch.s", "a symbol"],
    ["a symbol key", { a: { [Symbol("hidden")]: 1 } }, "ch.a", "an object with the key Symbol(hidden)"],
    ["a class instance", { "odd key": new Account() }, 'ch["odd key"]', "an instance of class Account"],
    ["a subclass of a message", [new MyMessage("x")], "ch[0]", "an instance of class MyMessage"],
    ["a subclass of Map", { m: new MyMap() }, "ch.m", "an instance of class MyMap"],
    ["a promise", { p: Promise.resolve() }, "ch.p", "an instance of class Promise"],
    ["a cycle", cycle, "ch.a.back[0]", "part of a cycle"],
    ["a Map with a property", { m: Object.assign(new Map(), { note: 1 }) }, "ch.m", 'a Map with the key "note"'],
    ["a Date with a property", [Object.assign(new Date(), { zone: "x" })], "ch[0]", 'a Date with the key "zone"'],
    [
      "an array with a symbol key",
      [Object.assign([1], { [Symbol("x")]: 1 })],
      "ch[0]",
      "an object with the key Symbol(x)",
    ],
    ["a boxed number", { n: Object(1) as object }, "ch.n", "an instance of class Number"],
    [
      "an instance in a message's tool arguments",
      new AIMessage({ content: "", tool_calls: [{ name: "x", args: { a: new Account() }, id: "1" }] }),
      "ch.tool_calls[0].args.a",
      "an instance of class Account",
    ],
    [
      "an instance in a long array",
      Array.from({ length: 50 }, (_, i) => (i === 40 ? new Account() : i)),
      "ch[40]",
      "an instance of class Account",
    ],
  ];
  for (const [name, value, path, type] of REFUSED) {
    it(name, () => {
      const error = caught(() => codec().write(value));
      assert(isEngineError(error, "value_unsupported"));
      expect(error.details).toEqual({ path, type });
      expect(error.message).toContain(path);
    });
  }

  it("what is nested without end", () => {
    expect(
      isEngineError(
        caught(() => codec().write(deep)),
        "value_unsupported",
      ),
    ).toBe(true);
  });

  it("nothing of what is nested 900 deep", () => {
    let value: unknown = new Date(1);
    for (let i = 0; i < 450; i++) value = { value: [value] };
    assert.deepStrictEqual(codec().roundTrip(value), value);
  });
});

describe("user data that looks like ours or LangChain's", () => {
  const key = "A".repeat(43);
  const LOOKALIKES: unknown[] = [
    { $: "undefined" },
    { $: "s", h: key },
    { $: "a", h: key },
    { $: "n", h: key },
    { $: "root", n: 1, c: [[key]], t: [] },
    { $: "HumanMessage", v: { content: "x" } },
    { $: "esc", v: [["$", "s"]] },
    { $: { $: { $: "date", v: null } }, other: undefined },
    { lc: 1, type: "constructor", id: ["langchain_core", "messages", "HumanMessage"], kwargs: { content: "x" } },
    { lc: 1, type: "constructor", id: ["unknown", "X"], kwargs: {} },
    { lc: 1, type: "secret", id: ["OPENAI_API_KEY"] },
    { lc: 2, type: "constructor", id: ["Set"], args: [[1]] },
    { lc: 2, type: "undefined" },
    { __lc_escaped__: { a: 1 } },
    { lg_name: "Send", node: "x", args: {} },
    { __overwrite__: [1] },
    `{"$":"s","h":"${key}"}`,
    { [`{"$":"s","h":"${key}"}`]: `"},{"$":"a","h":"${key}"}` },
  ];
  it("comes back as the plain data it is, wherever it stands", () => {
    const shapes = [
      ...LOOKALIKES,
      LOOKALIKES,
      { nested: { inside: LOOKALIKES } },
      new Map([["m", LOOKALIKES]]),
      new ToolMessage({ content: "x", tool_call_id: "1", artifact: LOOKALIKES }),
      new Send("n", { LOOKALIKES: [...LOOKALIKES, ...LOOKALIKES] }),
    ];
    for (const value of shapes) {
      const { write, read } = codec();
      assert.deepStrictEqual(read(write(value).text), value);
    }
    expect(referencesIn(codec().write(LOOKALIKES[1]).text)).toEqual([]);
  });
});

function caught(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  return undefined;
}
