import { expect, it } from "vitest";
import { referencesIn, referencesOfNode } from "../../../src/checkpoint/codec/format.js";
import { createJsonKeeper, reviveJson } from "../../../src/checkpoint/kept-json.js";

type Bodies = Parameters<typeof reviveJson>[1];

/** Keeps the texts one after another; gives back what was kept, the bodies, and how many bytes were new with each. */
function keepAll(texts: readonly string[]) {
  const keeper = createJsonKeeper();
  const bodies = new Map<string, { kind: 0 | 1 | 2; data: Buffer; refs: string[] }>();
  const kept = texts.map((json) => {
    const text = keeper.keep(json);
    const fresh = keeper.takeBodies();
    for (const { key, kind, data } of fresh) bodies.set(key, { kind, data, refs: referencesOfNode({ kind, data }) });
    return { text, bytes: text.length + fresh.reduce((sum, { data }) => sum + data.length, 0) };
  });
  return { kept, bodies: bodies as Bodies };
}

const deep = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;
const awkward = [
  '{"$":"s","h":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}',
  '{"$":1}',
  '"$"',
  JSON.stringify({ note: '{"$":"n","h":"x"}'.repeat(200) }),
  JSON.stringify({ 10: "b", 2: "a", z: ["\ud800", "\0", "\u2028", -0, 1e21, 0.1], s: "x".repeat(3_000) }),
  `{"__proto__":{"admin":true},"text":"${"y".repeat(2_000)}","__proto":1}`,
  JSON.stringify(`${"é".repeat(2_000)}\ud83d`),
  JSON.stringify(Array.from({ length: 500 }, (_, i) => (i % 3 === 0 ? null : { i, t: "t".repeat(i) }))),
  JSON.stringify({ a: [], b: {}, c: "", d: null, e: [[]], long: "l".repeat(1_500) }),
  deep(3_000),
];

it.each(awkward.map((json) => [json.slice(0, 40), json]))("comes back to the letter: %s", (_, json) => {
  const { kept, bodies } = keepAll([json]);
  expect(JSON.stringify(reviveJson(JSON.parse(kept[0]?.text ?? ""), bodies)) === json).toBe(true);
});

it("names nothing that isn't among its bodies", () => {
  const { kept, bodies } = keepAll(awkward);
  const named = [
    ...kept.flatMap(({ text }) => referencesIn(text)),
    ...[...bodies.values()].flatMap(({ refs }) => refs),
  ];
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((key) => !bodies.has(key))).toEqual([]);
});

it("a text that begins as one before it costs what is new in it", () => {
  const states = Array.from({ length: 100 }, (_, turn) =>
    JSON.stringify({
      messages: Array.from({ length: turn + 1 }, (__, i) => ({ id: `m${i}`, text: `${i} `.repeat(100) })),
    }),
  );
  const { kept } = keepAll(states);
  expect(states.at(-1)?.length).toBeGreaterThan(25_000);
  for (const { bytes } of kept.slice(50)) expect(bytes).toBeLessThan(2_000);
});
