// Arrays as trees: every length comes back, equal arrays have equal roots, an append stores little, changes are seen.
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Send } from "@langchain/langgraph";
import { describe, expect, it } from "vitest";
import { createDecoder } from "../../../src/checkpoint/codec/decoder.js";
import { createEncoder, createSession } from "../../../src/checkpoint/codec/encoder.js";
import { bodyNodeOf } from "../../../src/checkpoint/codec/node.js";

function store() {
  const session = createSession();
  const stored = new Map<string, Buffer>();
  return {
    write(value: unknown, { fresh = false } = {}) {
      const encoder = createEncoder(fresh ? createSession() : session);
      const { text } = encoder.encode(value, "ch");
      const nodes = [...encoder.nodes.values()].map(bodyNodeOf);
      for (const { key, data } of nodes) {
        stored.set(key, data);
        session.known.add(key);
      }
      return { text, nodes: nodes.length, bytes: nodes.reduce((sum, { data }) => sum + data.length, 0) };
    },
    read: (text: string) => createDecoder((key) => stored.get(key) as Buffer).decode(text),
  };
}

const message = (i: number) =>
  i % 2 === 0
    ? new AIMessage({
        content: `answer ${i}`,
        id: `a${i}`,
        tool_calls: [{ name: "lookup", args: { q: i }, id: `c${i}`, type: "tool_call" }],
      })
    : new ToolMessage({ content: `result ${i} ${"y".repeat(2_000)}`, tool_call_id: `c${i - 1}`, id: `t${i}` });

describe("an array of any length comes back", () => {
  const LENGTHS = [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 66, 511, 512, 513, 4_097];
  const ITEMS: Record<string, (i: number) => unknown> = {
    numbers: (i) => i * 1.5,
    "short texts": (i) => `t${i}`,
    "texts around the inline limit": (i) => "x".repeat(i % 130),
    objects: (i) => ({ i, text: "x".repeat(100) }),
    "one object again and again": () => ({ same: "x".repeat(100) }),
    "mixed values": (i) => [undefined, null, -0, Number.NaN, new Date(i), { i }, [i, [i]], "y".repeat(1_100)][i % 8],
    arrays: (i) => Array.from({ length: i % 20 }, (_, j) => j),
    messages: message,
  };
  for (const [name, item] of Object.entries(ITEMS)) {
    it(name, () => {
      for (const length of LENGTHS) {
        const { write, read } = store();
        const value = Array.from({ length }, (_, i) => item(i));
        assert.deepStrictEqual(read(write(value).text), value);
      }
    });
  }
});

describe("a conversation that grows", () => {
  const { write, read } = store();
  let messages: unknown[] = [];
  const appends: { nodes: number; bytes: number }[] = [];
  let text = "";
  for (let i = 0; i < 700; i++) {
    messages = [...messages, message(i)];
    const written = write(messages);
    text = written.text;
    appends.push(written);
  }

  it("stores few nodes and a bounded number of bytes per append", () => {
    expect(Math.max(...appends.slice(8).map(({ nodes }) => nodes))).toBeLessThanOrEqual(6);
    expect(Math.max(...appends.slice(8).map(({ bytes }) => bytes))).toBeLessThan(4_500);
  });

  it("has the root that the same messages have when they are written at once", () => {
    const copy = Array.from({ length: 700 }, (_, i) => message(i));
    expect(write(copy, { fresh: true }).text).toBe(text);
  });

  it("is read back and written again to the same text, so that a new run stores nothing twice", () => {
    const again = read(text);
    assert.deepStrictEqual(again, messages);
    expect(write(again, { fresh: true }).text).toBe(text);
  });

  it("shares its nodes with the same messages inside a Send", () => {
    const { nodes } = write([new Send("tools", { messages: [...messages], call: 1 })]);
    expect(nodes).toBe(0);
  });

  it("shares its beginning with a branch that leaves it", () => {
    const branch = [...messages.slice(0, 350), new HumanMessage({ content: "other", id: "h" })];
    const written = write(branch);
    expect(written.bytes).toBeLessThan(6_500);
    assert.deepStrictEqual(read(written.text), branch);
  });
});

describe("a change in place is written", () => {
  const rewrite = (change: (messages: (AIMessage | ToolMessage)[]) => void, length = 200) => {
    const { write, read } = store();
    const messages = Array.from({ length }, (_, i) => message(i));
    write(messages);
    change(messages);
    const fields = ({ lc_kwargs: _, ...rest }: AIMessage | ToolMessage) => rest;
    const again = read(write(messages).text) as (AIMessage | ToolMessage)[];
    assert.deepStrictEqual(again.map(fields), messages.map(fields));
  };
  it("when a field of an old message is another", () => rewrite((m) => void (m[10]!.content = "changed")));
  it("when an old message has other tool calls", () => rewrite((m) => void ((m[20] as AIMessage).tool_calls = [])));
  it("when it is deep inside one of the newest messages", () =>
    rewrite((m) => void ((m[198] as AIMessage).tool_calls![0]!.args["q"] = "deep")));
  it("when an item is exchanged, removed or inserted", () => {
    rewrite((m) => void (m[5] = message(999) as ToolMessage));
    rewrite((m) => void m.splice(3, 1));
    rewrite((m) => void m.unshift(message(1_001)));
  });
  it("when it is anywhere inside a plain item, in a Date or in bytes", () => {
    const { write, read } = store();
    const items = Array.from({ length: 300 }, (_, i) => ({
      i,
      deep: { list: [1, { when: new Date(i) }], bytes: new Uint8Array(300) },
      map: new Map([["k", i]]),
      pad: "x".repeat(80),
    }));
    const changes = [
      () => void (items[7]!.deep.list[0] = 2),
      () => void (items[8]!.deep.list[1] as { when: Date }).when.setTime(5_000),
      () => void (items[9]!.deep.bytes[299] = 1),
      () => void items[10]!.map.set("k2", 1),
      () => void delete (items[11] as { pad?: string }).pad,
    ];
    write(items);
    for (const change of changes) {
      change();
      assert.deepStrictEqual(read(write(items).text), items);
    }
  });
  it("when 0 becomes -0 or a hole becomes undefined", () => {
    const { write, read } = store();
    const items: unknown[] = Array.from({ length: 20 }, () => 0);
    write(items);
    items[3] = -0;
    delete items[4];
    assert.deepStrictEqual(read(write(items).text), items);
    items[4] = undefined;
    assert.deepStrictEqual(read(write(items).text), items);
  });
});

describe("messages that are equal", () => {
  const equal = (id?: string) =>
    new HumanMessage({ content: `yes ${"x".repeat(80)}`, ...(id === undefined ? {} : { id }) });
  it("stay two objects while they have no id, so that each can get its own", () => {
    const { write, read } = store();
    const [first, second] = read(write(Array.from({ length: 9 }, () => equal())).text) as HumanMessage[];
    expect(first).not.toBe(second);
  });
  it("stay two members of a Set", () => {
    const { write, read } = store();
    expect((read(write(new Set(Array.from({ length: 9 }, () => equal("id")))).text) as Set<unknown>).size).toBe(9);
  });
});

describe("any value", () => {
  it("comes back, whatever is nested in what (400 random values in one session)", () => {
    const random = seeded(42);
    const { write, read } = store();
    let previous: unknown[] = [];
    for (let round = 0; round < 400; round++) {
      const value = arbitrary(random, 3);
      assert(isDeepStrictEqual(read(write(value).text), value), `round ${round}`);
      previous = random() < 0.05 ? [] : [...previous.slice(0, Math.ceil(previous.length * (0.5 + random()))), value];
      if (round % 20 === 0) assert(isDeepStrictEqual(read(write(previous).text), previous), `round ${round}`);
    }
  });
});

function arbitrary(random: () => number, depth: number): unknown {
  const pick = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)] as T;
  const size = () => pick([0, 1, 2, 3, 7, 8, 9, 20]);
  const text = () =>
    pick(["", "a", "$", "h", "\u0000", "\ud800", "é", "x".repeat(63), "x".repeat(1_024), "\udc00".repeat(1_100)]);
  const leaf = pick<() => unknown>([
    () => Math.floor(random() * 1e6),
    () => random(),
    () => pick([Number.NaN, -0, Infinity, undefined, null, true, 7n]),
    text,
    () => new Date(Math.floor(random() * 1e12)),
    () => Uint8Array.from({ length: pick([0, 3, 255, 256, 300]) }, () => Math.floor(random() * 256)),
  ]);
  if (depth === 0) return leaf();
  const inner = () => arbitrary(random, depth - 1);
  const list = () => Array.from({ length: size() }, inner);
  return pick<() => unknown>([
    leaf,
    list,
    list,
    () => Object.fromEntries(list().map((value) => [text() || pick(["v", "__proto__", "lc"]), value])),
    () => new Map(list().map((value) => [inner(), value])),
    () => new Set(list()),
    () => new AIMessage({ content: text(), additional_kwargs: { inner: inner() }, id: text() }),
  ])();
}

/** Mulberry32. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
