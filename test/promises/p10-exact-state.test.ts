// P10: state comes back exactly as it went in, or the step fails with the path and type that can't be kept. Never a changed
// value with status success.
import { inspect, isDeepStrictEqual } from "node:util";
import { Document } from "@langchain/core/documents";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Annotation, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { describe, expect, it } from "vitest";
import { type TestEngine, withEngine } from "../helpers/engine.js";

class Account {
  balance = 1;
}
const circle: Record<string, unknown> = {};
circle["self"] = circle;

const KEPT: Record<string, () => unknown> = {
  bigint: () => 12345678901234567890n,
  date: () => new Date(86_400_000),
  numbers: () => [Number.NaN, Infinity, -Infinity, -0],
  undefined: () => ({ a: undefined, b: [undefined] }),
  map: () => new Map([["a", new Set([1n])]]),
  regexp: () => /a+/giu,
  url: () => new URL("https://example.org/?q=1"),
  error: () => new RangeError("out of range", { cause: new TypeError("inner") }),
  bytes: () => ({ small: Buffer.from("hi"), large: new Uint8Array(5_000).fill(7), view: new Uint16Array([1, 65_535]) }),
  document: () => new Document({ pageContent: "page", metadata: { when: new Date(1) } }),
  toolArguments: () =>
    new AIMessage({ content: "", tool_calls: [{ name: "pay", args: { when: new Date(2) as never }, id: "c" }] }),
  nul: () => `a\u0000b\ud83d${"x".repeat(2_000)}`,
  langchainShape: () => ({ lc: 1, type: "constructor", id: ["langchain", "x", "Y"], kwargs: {} }),
  messageShape: () => ({ lc: 1, type: "constructor", id: ["langchain_core", "messages", "HumanMessage"], kwargs: {} }),
  setShape: () => ({ lc: 2, type: "constructor", id: ["Set"], args: [[1]] }),
  undefinedShape: () => ({ deep: [{ lc: 2, type: "undefined" }] }),
  ourShape: () => ({ $: "s", h: "A".repeat(43) }),
};

const REFUSED: Record<string, readonly [make: () => unknown, path: string, type: string]> = {
  function: [() => ({ run: () => 1 }), "value.run", "a function"],
  instance: [() => [new Account()], "value[0]", "class Account"],
  cycle: [() => circle, "value.self", "cycle"],
};

/** One node makes the value beside another, the next looks at it after it was read again. */
const makerGraph = new StateGraph(
  Annotation.Root({
    kind: Annotation<string>(),
    value: Annotation<unknown>(),
    keep: Annotation<string>(),
    seen: Annotation<string>(),
  }),
)
  .addNode("make", ({ kind }) => ({ value: (KEPT[kind] ?? REFUSED[kind]![0])(), keep: "me" }))
  .addNode("wait", () => (interrupt("look now?"), {}))
  .addNode("look", ({ kind, value, keep }) => {
    const expected = KEPT[kind]!();
    const equal = isDeepStrictEqual(value, expected) && keep === "me";
    return { seen: equal ? "equal" : inspect({ value, expected, keep }, { depth: 5 }) };
  })
  .addEdge(START, "make")
  .addEdge("make", "wait")
  .addEdge("wait", "look")
  .compile();

describe("a value in the state", () => {
  it("is equal in a node that runs after a wait, on another worker, before and after a move", async () => {
    await withEngine({ graphs: { maker: makerGraph }, workers: 2 }, async ({ client, move }) => {
      for (const kind of Object.keys(KEPT)) {
        const { thread_id } = await client.threads.create();
        await client.runs.wait(thread_id, "maker", { input: { kind } });
        await move();
        const result = await client.runs.wait(thread_id, "maker", { command: { resume: "yes" } });
        expect([kind, (result as { seen: string }).seen]).toEqual([kind, "equal"]);
        expect(await client.threads.getHistory(thread_id)).not.toHaveLength(0);
      }
    });
  });

  it("that can't be kept fails its step, by path and type, and nothing that was there is lost", async () => {
    await withEngine({ graphs: { maker: makerGraph } }, async ({ client }) => {
      for (const [kind, [, path, type]] of Object.entries(REFUSED)) {
        const { thread_id } = await client.threads.create();
        const result = client.runs.wait(thread_id, "maker", { input: { kind } });
        const message = await result.then((value) => JSON.stringify(value)).catch(String);
        expect(message).toContain(path);
        expect(message).toContain(type);
        const [run] = await client.runs.list(thread_id);
        expect(run?.status).toBe("error");
        const state = await client.threads.getState(thread_id);
        expect(state.values).toMatchObject({ kind });
        expect(state.next).toEqual(["make"]);
      }
    });
  });
});

describe("data that looks like a serialized object", () => {
  const chat = new StateGraph(MessagesAnnotation)
    .addNode("tool", () => ({
      messages: [new ToolMessage({ content: "x", tool_call_id: "1", artifact: KEPT["messageShape"]!() })],
    }))
    .addNode("look", ({ messages }) => {
      const real = messages.every((message) => message instanceof HumanMessage || message instanceof ToolMessage);
      return { messages: [new HumanMessage({ content: real ? "all messages" : "not all", id: "seen" })] };
    })
    .addEdge(START, "tool")
    .addEdge("tool", "look")
    .compile();
  const echo = new StateGraph(Annotation.Root({ obj: Annotation<unknown>() }))
    .addNode("echo", () => ({}))
    .addEdge(START, "echo")
    .compile();

  it("comes back over HTTP as the JSON it was, and real messages beside it are messages", async () => {
    await withEngine({ graphs: { chat, echo } }, async ({ client, move }) => {
      for (const kind of ["langchainShape", "messageShape", "setShape", "undefinedShape", "ourShape"]) {
        const obj = KEPT[kind]!();
        const { thread_id } = await client.threads.create();
        const result = await client.runs.wait(thread_id, "echo", { input: { obj } });
        expect(result).toEqual({ obj });
        await move();
        expect((await client.threads.getState(thread_id)).values).toEqual({ obj });
        expect((await client.threads.getHistory(thread_id))[0]?.values).toEqual({ obj });
      }
      const { thread_id } = await client.threads.create();
      for (let turn = 0; turn < 2; turn++) {
        const { messages } = await talk(client, thread_id);
        expect(messages.find(({ id }) => id === "seen")?.content).toBe("all messages");
      }
    });
  });
});

async function talk(client: TestEngine["client"], threadId: string) {
  const input = { messages: [{ role: "user", content: "hi" }] };
  return (await client.runs.wait(threadId, "chat", { input })) as { messages: { id: string; content: string }[] };
}
