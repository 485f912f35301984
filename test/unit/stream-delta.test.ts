import { expect, it } from "vitest";
import { createDeltaDecoder, createDeltaEncoder } from "../../src/runs/stream-delta.js";
import type { StreamLine } from "../../src/runs/stream-chunks.js";

const size = (lines: readonly StreamLine[]) => lines.reduce((sum, { json }) => sum + json.length, 0);

function roundTrip(lines: readonly StreamLine[]): StreamLine[] {
  const encode = createDeltaEncoder();
  const stored = lines.map(encode);
  const decoder = createDeltaDecoder();
  expect(stored.map((line) => decoder.decode(line))).toEqual(lines);
  return stored;
}

const growing = (n: number, event = "values", firstId = 0): StreamLine[] =>
  Array.from({ length: n }, (_, step) => ({
    id: firstId + step,
    event,
    json: JSON.stringify({
      messages: Array.from({ length: step + 1 }, (__, i) => ({
        type: "ai",
        id: `m${i}`,
        content: `${i} `.repeat(200),
      })),
      count: step,
    }),
  }));

it("a state that grows by a message a step is stored in about the size of its messages", () => {
  const few = growing(50);
  const many = growing(200);
  const [a, b] = [size(roundTrip(few)), size(roundTrip(many))];
  // Four times the steps, four times the content; the states themselves are sixteen times as long.
  expect(b / a).toBeLessThan(8);
  expect(size(many) / b).toBeGreaterThan(20);
});

it("a text that is streamed with all that came before is stored in about its size", () => {
  const partials = Array.from({ length: 500 }, (_, n) => ({
    id: n,
    event: "messages/partial",
    json: JSON.stringify([{ type: "ai", id: "m1", content: "a word ".repeat(4 * n), tool_calls: [] }]),
  }));
  expect(size(roundTrip(partials))).toBeLessThan(size(partials) / 20);
});

it("what doesn't repeat, or is short, is stored as it is", () => {
  const lines = Array.from({ length: 20 }, (_, n) => ({
    id: n,
    event: "custom",
    json: JSON.stringify(n % 2 === 0 ? `${n}` : `${String.fromCharCode(97 + n)}`.repeat(2_000)),
  }));
  expect(roundTrip(lines)).toEqual(lines);
});

it("events of many names keep apart, also more than are remembered", () => {
  const lines = Array.from({ length: 6 }, (_, round) =>
    Array.from({ length: 40 }, (__, n) => ({
      id: round * 40 + n,
      event: `values|sub:${n}`,
      json: JSON.stringify({ n, text: "x".repeat(600 + round) }),
    })),
  ).flat();
  roundTrip(lines);
});

it("texts that differ inside a pair of surrogates come back whole", () => {
  const lines = ["😀", "😁", "😀😁", "\ud83d"].map((face, id) => ({
    id,
    event: "custom",
    json: JSON.stringify(`${"a".repeat(600)}${face}${"b".repeat(600)}`),
  }));
  const stored = roundTrip(lines);
  expect(JSON.parse(JSON.stringify(stored))).toEqual(stored);
  expect(stored.map(({ event }) => event)).toEqual(["custom", "~custom", "~custom", "~custom"]);
});

it("an event whose base wasn't seen says where to read from", () => {
  const stored = growing(40).map(createDeltaEncoder());
  const decoder = createDeltaDecoder();
  const late = stored.at(-1) as StreamLine;
  const answer = decoder.decode(late);
  expect(answer).toEqual({ needsFrom: expect.any(Number) });
  const { needsFrom } = answer as { needsFrom: number };
  expect(stored[needsFrom]?.event).toBe("values");
  for (const line of stored.slice(needsFrom, -1)) decoder.decode(line);
  expect(decoder.decode(late)).toEqual(growing(40).at(-1));
});
