// What LangGraph's stock serializer wrote, read by ours: equal where it is safe, data where it only looks like more.
import {
  AIMessage,
  AIMessageChunk,
  type AIMessageFields,
  type BaseMessage,
  HumanMessage,
  RemoveMessage,
  SystemMessage,
  ToolMessage,
} from "@langchain/core/messages";
import { Send } from "@langchain/langgraph";
import { DeltaSnapshot, JsonPlusSerializer } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import { decodeStock, type Foreign } from "../../../src/checkpoint/stock/decode.js";
import { inOrderOfMaking } from "../../../src/checkpoint/stock/order.js";
import { createVersionMap } from "../../../src/checkpoint/stock/versions.js";

const serde = new JsonPlusSerializer();

function decode(type: string, bytes: Uint8Array) {
  const foreign: Foreign[] = [];
  return { value: decodeStock(type, Buffer.from(bytes), "state", foreign), foreign };
}

const decodeJson = (json: unknown) => decode("json", Buffer.from(JSON.stringify(json)));

const nested = { a: [{ b: new Map([["k", new Set([1, "two"])]]) }, undefined], c: undefined, d: null, e: -0.5 };
const call = { name: "pay", args: { amount: 5, note: undefined }, id: "c1", type: "tool_call" as const };
const WRITTEN: Record<string, unknown> = {
  text: "a\u0000b\ud83d",
  nothing: undefined,
  nested,
  bytes: new Uint8Array([1, 2, 255]),
  bytesInside: { at: new Uint8Array([1, 2, 255]) },
  regexp: [/a+/giu, /[/]/],
  error: { failed: new TypeError("no") },
  delta: new DeltaSnapshot([new HumanMessage("hi")]),
  packets: [new Send("node", { messages: [new HumanMessage({ content: "hi", id: "1" })] })],
  human: new HumanMessage({ content: [{ type: "text", text: "hi" }], id: "h", name: "ann" }),
  system: new SystemMessage("be kind"),
  ai: new AIMessage({
    content: "",
    id: "a",
    tool_calls: [call],
    additional_kwargs: { "kebab-key": 1, lc: 7, nested: { lc: 1, type: "constructor", id: ["x"] }, gone: undefined },
    response_metadata: { tokens: [undefined, 1] },
    usage_metadata: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
    // Its types leave out usage beside plain tool calls.
  } as unknown as AIMessageFields),
  chunk: new AIMessageChunk({ content: "par", tool_call_chunks: [{ name: "pay", args: "{", id: "c", index: 0 }] }),
  tool: new ToolMessage({ content: "ok", tool_call_id: "c1", status: "error", artifact: { raw: [1] } }),
  remove: new RemoveMessage({ id: "h" }),
  dollar: { $: "s", h: "A".repeat(43) },
  kwargs: { kwargs: { kwargs: 1 }, id: [], method: "from" },
};

describe("a value that the stock serializer wrote", () => {
  it.each(Object.keys(WRITTEN))("is read as it reads it: %s", async (kind) => {
    const [type, bytes] = await serde.dumpsTyped(WRITTEN[kind]);
    const { value, foreign } = decode(type, bytes);
    const expected: unknown = await serde.loadsTyped(type, Buffer.from(bytes));
    expect(value).toStrictEqual(expected);
    expect(foreign).toEqual([]);
    if (value instanceof AIMessage) expect(Object.keys(value)).toEqual(Object.keys(expected as BaseMessage));
  });

  it("that names a class which is none of a message's stays data, wherever it stands", () => {
    const evil = (id: string[], kwargs: unknown = {}) => ({ lc: 1, type: "constructor", id, kwargs });
    const shapes = [
      evil(["langchain_core", "prompts", "PromptTemplate"], { template: "{x}", input_variables: ["x"] }),
      evil(["langchain_core", "messages", "constructor"]),
      evil(["langchain_core", "messages", "AIMessage"], [1]),
      evil(["langchain_core", "runnables", "RunnableLambda"]),
      evil(["langchain", "chat_models", "openai", "ChatOpenAI"], { apiKey: { lc: 1, type: "secret", id: ["HOME"] } }),
      evil([]),
    ];
    for (const shape of shapes) {
      const { value, foreign } = decodeJson({ deep: [structuredClone(shape)] });
      expect(value).toStrictEqual({ deep: [shape] });
      expect(foreign).toEqual([{ path: "state.deep[0]", className: shape.id.join(".") }]);
      const message = {
        ...evil(["langchain_core", "messages", "HumanMessage"]),
        kwargs: { content: "x", name: structuredClone(shape) },
      };
      const inMessage = decodeJson(message);
      expect((inMessage.value as HumanMessage).name).toStrictEqual(shape);
      expect(inMessage.foreign).toHaveLength(1);
    }
  });

  it("that only looks like a container stays data", () => {
    const record = (id: unknown, args: unknown, more: object = {}) => ({
      lc: 2,
      type: "constructor",
      id,
      args,
      ...more,
    });
    for (const shape of [
      record(["Set"], [1]),
      record(["Set"], [[1], 2]),
      record(["Set"], [[1]], { method: "from" }),
      record(["Map"], [[["k"]]]),
      record(["RegExp"], ["(", ""]),
      record(["Uint8Array"], [[256]], { method: "from" }),
      record(["Uint8Array"], [[1]], { method: "of" }),
      record(["Function"], ["return process"]),
      record(["Error", "captureStackTrace"], ["x"]),
      { lc: 2, type: "delta_snapshot" },
      { lc: 1, type: "secret", id: ["HOME"] },
    ]) {
      const { value, foreign } = decodeJson({ deep: structuredClone(shape) });
      expect(value).toStrictEqual({ deep: shape });
      expect(foreign).toEqual([]);
    }
  });

  it("can't reach a prototype", () => {
    const text =
      '{"__proto__":{"polluted":1},"m":{"lc":1,"type":"constructor","id":["langchain_core","messages","HumanMessage"],"kwargs":{"content":"x","__proto__":{"name":"evil"}}}}';
    const { value } = decode("json", Buffer.from(text));
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect((value as { m: HumanMessage }).m.name).toBeUndefined();
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });

  it("of another serializer, unreadable, or nested without end is refused by its place", () => {
    expect(() => decode("msgpack", Buffer.from([0x80]))).toThrow(/state is of type "msgpack"/);
    expect(() => decode("json", Buffer.from("{"))).toThrow(/state isn't readable JSON/);
    const endless = "[".repeat(5_000) + "]".repeat(5_000);
    expect(() => decode("json", Buffer.from(endless))).toThrow(/state\[0\].*nested more than 1000 deep/);
  });
});

describe("channel versions", () => {
  it("keep their order, and go on", () => {
    const versionOf = createVersionMap();
    expect([1, 9, 10, 123_456].map(versionOf)).toEqual(
      [1, 9, 10, 123_456].map((n) => `${String(n).padStart(10, "0")}.${"0".repeat(15)}`),
    );
    expect(versionOf(9)).toBe(versionOf("9"));
    expect([2, 10, 9].map(versionOf).sort()).toEqual([2, 9, 10].map(versionOf));
  });

  it("of savers that keep branches apart stay apart, or are refused", () => {
    const versionOf = createVersionMap();
    expect(versionOf("0000000003.123456789012345")).toBe("0000000003.123456789012345");
    expect(versionOf(`${"0".repeat(31)}4.0.608`)).toBe("0000000004.060800000000000");
    expect(() => versionOf("4.0608")).toThrow(/can't be told apart/);
    expect(() => versionOf("latest")).toThrow(/doesn't start with a counter/);
    expect(() => versionOf(1.5)).not.toThrow();
  });
});

describe("the order of checkpoints", () => {
  const link = (checkpointId: string, parentId: string | null = null, ns = "") => ({ ns, checkpointId, parentId });
  const order = (...links: ReturnType<typeof link>[]) => inOrderOfMaking(links).map(({ checkpointId }) => checkpointId);

  it("is that of their ids, over all namespaces", () => {
    expect(order(link("3", "1"), link("1"), link("2", null, "sub"), link("4", "2", "sub"))).toEqual([
      "1",
      "2",
      "3",
      "4",
    ]);
  });

  it("puts none before its parent, whatever the clocks said", () => {
    expect(order(link("1"), link("5", "1"), link("3", "5"), link("4", "3"), link("2", "1"))).toEqual([
      "1",
      "2",
      "5",
      "3",
      "4",
    ]);
    expect(order(link("2", "gone"), link("1"))).toEqual(["1", "2"]);
    expect(order(link("1", "2"), link("2", "1"), link("3", "2"))).toHaveLength(3);
  });
});
