import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Send } from "@langchain/langgraph";
import { describe, expect, it } from "vitest";
import { renderJson, renderText } from "../../src/engine/render.js";

describe("values JSON can't hold are rendered by the documented rule", () => {
  it.each([
    ["bigint", 12345678901234567890n, "12345678901234567890"],
    ["date", new Date("2026-01-02T03:04:05.678Z"), "2026-01-02T03:04:05.678Z"],
    ["invalid date", new Date(Number.NaN), null],
    ["not a number", Number.NaN, "NaN"],
    ["infinity", Number.POSITIVE_INFINITY, "Infinity"],
    ["negative infinity", Number.NEGATIVE_INFINITY, "-Infinity"],
    ["map with string keys", new Map([["a", 1n]]), { a: "1" }],
    ["map with other keys", new Map([[1, new Set(["x"])]]), [[1, ["x"]]]],
    ["set", new Set([1, undefined]), [1, null]],
    ["bytes", new Uint8Array([1, 2, 255]), "AQL/"],
    ["buffer", Buffer.from("hi"), "aGk="],
    ["numbers", new Uint16Array([1, 65535]), [1, 65535]],
    ["big numbers", new BigInt64Array([1n]), ["1"]],
    ["expression", /a\/b/gi, "/a\\/b/gi"],
    ["error", new RangeError("too far"), { name: "RangeError", message: "too far" }],
    ["url", new URL("https://example.org/a"), "https://example.org/a"],
    ["undefined in an object", { a: undefined, b: () => 1, c: Symbol("s"), d: null }, { d: null }],
    ["undefined in an array", [undefined, () => 1], [null, null]],
  ])("%s", (_name, value, shown) => {
    expect(renderJson({ value })).toEqual({ value: shown });
  });

  it("shows a cycle instead of failing", () => {
    const loop: Record<string, unknown> = { name: "loop" };
    loop.self = loop;
    expect(renderJson({ loop, again: loop })).toEqual({
      loop: { name: "loop", self: "[Circular]" },
      again: { name: "loop", self: "[Circular]" },
    });
  });

  it("keeps a key called __proto__ as data", () => {
    expect(renderText(JSON.parse('{"__proto__":{"a":1}}'))).toBe('{"__proto__":{"a":1}}');
  });

  it("escapes NUL and lone surrogates", () => {
    expect(renderText("a\u0000b\ud800")).toBe('"a\\u0000b\\ud800"');
  });
});

describe("messages are flat", () => {
  it("shows type, content, id and what belongs to the kind", () => {
    expect(renderJson(new HumanMessage({ content: "hi", id: "m1" }))).toEqual({
      type: "human",
      content: "hi",
      id: "m1",
      additional_kwargs: {},
      response_metadata: {},
    });
    expect(
      renderJson([new ToolMessage({ content: "ok", tool_call_id: "c1", name: "t", artifact: { n: 1n } })]),
    ).toMatchObject([{ type: "tool", tool_call_id: "c1", name: "t", artifact: { n: "1" } }]);
  });

  it("shows an id that was set later", () => {
    const message = new AIMessage("x");
    message.id = "later";
    expect(renderJson(message)).toMatchObject({ type: "ai", id: "later" });
  });

  it("gives user data that looks like a serialised object back as it is", () => {
    const looksLike = { lc: 1, type: "constructor", id: ["langchain_core", "messages", "HumanMessage"], kwargs: {} };
    const message = new AIMessage({ content: "", tool_calls: [{ name: "t", id: "1", args: { looksLike } }] });
    expect(renderJson(message)).toMatchObject({ tool_calls: [{ args: { looksLike } }] });
    expect(renderJson({ looksLike })).toEqual({ looksLike });
  });

  it("shows messages inside what renders itself", () => {
    expect(renderJson(new Send("node", { messages: [new HumanMessage("hi")] }))).toMatchObject({
      node: "node",
      args: { messages: [{ type: "human", content: "hi" }] },
    });
  });
});
