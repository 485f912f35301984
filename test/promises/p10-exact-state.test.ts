// P10: state comes back exactly as it went in, or the step fails with the path and type that can't be kept. Never a changed
// value with status success.
import { inspect, isDeepStrictEqual } from "node:util";
import { Document } from "@langchain/core/documents";
import { AIMessage, HumanMessage, RemoveMessage, ToolMessage } from "@langchain/core/messages";
import { Annotation, Command, interrupt, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
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
  invalidDate: () => [new Date(Number.NaN)],
  numbers: () => [Number.NaN, Infinity, -Infinity, -0],
  undefined: () => ({ a: undefined, b: [undefined] }),
  map: () => new Map([["a", new Set([1n])]]),
  regexp: () => /a+/giu,
  url: () => new URL("https://example.org/?q=1"),
  error: () => {
    const cause = Object.assign(new TypeError("inner"), { stack: "TypeError: inner\n    at there" });
    const error = new RangeError("out of range", { cause });
    return Object.assign(error, {
      name: "LimitError",
      code: "E_LIMIT",
      stack: "LimitError: out of range\n    at here",
    });
  },
  bytes: () => ({ small: Buffer.from("hi"), large: new Uint8Array(5_000).fill(7), view: new Uint16Array([1, 65_535]) }),
  everyBytes: () => [
    new Int8Array([-1]),
    new Uint8ClampedArray([300]),
    new Int16Array([-2]),
    new Int32Array([-3]),
    new Uint32Array([4_294_967_295]),
    new Float32Array([1.5, Number.NaN, -0]),
    new Float64Array(200).fill(-0),
    new BigInt64Array([-5n]),
    new BigUint64Array([6n]),
    new Uint8Array([1, 2, 3]).buffer,
    new DataView(new Uint8Array([0, 1, 2, 3]).buffer),
    Buffer.alloc(3_000, 9),
  ],
  nested: () =>
    new Map<unknown, unknown>([
      [{ key: [new Date(0)] }, new Set([new Map([[-0, [undefined, Number.NaN, { deep: 2n ** 70n }]]])])],
      [
        "list",
        Array.from({ length: 40 }, (_, i) => ({ i, at: new Date(i), bytes: new Uint8Array([i]), no: undefined })),
      ],
      ["error", new Error("outer", { cause: { when: new Date(1), of: new Set([/x/y]) } }).cause],
    ]),
  langgraph: () => [
    new Send("look", { messages: [new HumanMessage({ content: "hi", id: "h" })], at: new Date(3) }),
    new Command({ resume: { answer: 1n }, goto: ["look"] }),
    new RemoveMessage({ id: "gone" }),
    [{ id: "0123", value: { question: "ok?", at: new Date(4) } }],
  ],
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
  inSet: [() => new Set([1, () => 1]), "value[1]", "a function"],
  subclass: [() => ({ m: new (class Ledger extends Map {})() }), "value.m", "class Ledger"],
  promise: [() => [Promise.resolve(1)], "value[0]", "class Promise"],
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
    // The second sees what the first leaves out: stacks, prototypes deep inside.
    const same = inspect(value, { depth: 20 }) === inspect(expected, { depth: 20 });
    // To the first, two invalid dates differ.
    const equal = (isDeepStrictEqual(value, expected) || kind === "invalidDate") && same && keep === "me";
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

describe("a message", () => {
  const said = () =>
    new AIMessage({
      id: "ai-1",
      name: "Zoë",
      content: [
        { type: "reasoning", reasoning: "erst prüfen, dann zahlen 漢字 🙂" },
        { type: "text", text: "Ich prüfe beide Konten. ".repeat(100) },
        { type: "image_url", image_url: { url: `data:image/png;base64,${"iVBORw0KGgo".repeat(300)}` } },
      ],
      tool_calls: [
        { name: "balance", args: { account: "Käthe", at: "2026-01-02" }, id: "call-1", type: "tool_call" },
        { name: "balance", args: { account: "日本", limits: [1, 2.5, null] }, id: "call-2", type: "tool_call" },
      ],
      invalid_tool_calls: [{ name: "pay", args: '{"to":', id: "call-3", error: "no JSON", type: "invalid_tool_call" }],
      usage_metadata: { input_tokens: 10, output_tokens: 5, total_tokens: 15, input_token_details: { cache_read: 3 } },
      response_metadata: { model_name: "m-1", finish_reason: "tool_calls" },
      additional_kwargs: { refusal: null, signature: "s".repeat(1_500) },
    } as never);
  const fields = ({ lc_kwargs: _, ...rest }: AIMessage) => ({ ...rest });
  const sender = new StateGraph(MessagesAnnotation)
    .addNode("say", () => ({ messages: [said()] }))
    .addNode("look", ({ messages }) => {
      interrupt("look now?");
      const read = messages[0] as AIMessage;
      const same = read instanceof AIMessage && isDeepStrictEqual(fields(read), fields(said()));
      return { messages: [new HumanMessage({ content: same ? "equal" : inspect(read, { depth: 9 }), id: "seen" })] };
    })
    .addEdge(START, "say")
    .addConditionalEdges("say", ({ messages }) => [new Send("look", { messages })], ["look"])
    .compile();

  it("is equal field by field in a node that gets it in a Send after a wait, and over the API", async () => {
    await withEngine({ graphs: { sender }, workers: 2 }, async ({ client, move }) => {
      const { thread_id } = await client.threads.create();
      await client.runs.wait(thread_id, "sender", { input: { messages: [] } });
      await move();
      const values = await client.runs.wait(thread_id, "sender", { command: { resume: "yes" } });
      const { messages } = values as { messages: Record<string, unknown>[] };
      expect(messages.map(({ id }) => id)).toEqual(["ai-1", "seen"]);
      expect(messages[1]!.content).toBe("equal");
      const wire = JSON.parse(JSON.stringify(fields(said()))) as Record<string, unknown>;
      for (const name of ["lc_serializable", "lc_namespace"]) delete wire[name];
      expect(messages[0]).toMatchObject({ ...wire, type: "ai" });
      const state = await client.threads.getState<{ messages: object[] }>(thread_id);
      expect(state.values.messages[0]).toEqual(messages[0]);
    });
  });
});

describe("a deploy", () => {
  it("that takes a key out of the state lets a thread that waits go on, once", async () => {
    const entered: string[] = [];
    const Old = Annotation.Root({ log: Annotation<string>(), note: Annotation<string>() });
    const New = Annotation.Root({ log: Annotation<string>() });
    const old = new StateGraph(Old)
      .addNode("write", () => ({ log: "written", note: "to be forgotten" }))
      .addNode("finish", () => (entered.push("old"), { log: "finished by the old one" }))
      .addEdge(START, "write")
      .addEdge("write", "finish")
      .compile({ interruptBefore: ["finish"] });
    const next = new StateGraph(New)
      .addNode("write", () => ({ log: "written" }))
      .addNode("finish", ({ log }) => (entered.push("new"), { log: `${log}, finished` }))
      .addEdge(START, "write")
      .addEdge("write", "finish")
      .compile({ interruptBefore: ["finish"] });
    let deployed: unknown = old;
    await withEngine({ graphs: { changing: () => deployed } }, async ({ client, move }) => {
      for (const moved of [false, true]) {
        deployed = old;
        const { thread_id } = await client.threads.create();
        await client.runs.wait(thread_id, "changing", { input: { log: "" } });
        expect((await client.threads.getState(thread_id)).values).toEqual({ log: "written", note: "to be forgotten" });
        if (moved) await move();

        deployed = next;
        expect(await client.threads.getState(thread_id)).toMatchObject({
          values: { log: "written" },
          next: ["finish"],
        });
        const values = await client.runs.wait(thread_id, "changing", { input: null });
        expect(values).toEqual({ log: "written, finished" });
        expect(await client.threads.getState(thread_id)).toMatchObject({
          values: { log: "written, finished" },
          next: [],
        });
        expect((await client.threads.get(thread_id)).status).toBe("idle");
      }
      expect(entered).toEqual(["new", "new"]);
    });
  });
});

async function talk(client: TestEngine["client"], threadId: string) {
  const input = { messages: [{ role: "user", content: "hi" }] };
  return (await client.runs.wait(threadId, "chat", { input })) as { messages: { id: string; content: string }[] };
}
