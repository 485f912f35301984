// The codec alone, on values that nobody thought of, and on bytes that changed.
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createDecoder } from "../../src/checkpoint/codec/decoder.js";
import { createEncoder, createSession } from "../../src/checkpoint/codec/encoder.js";
import { referencesIn, referencesOfNode, type Shape, SHAPE } from "../../src/checkpoint/codec/format.js";
import { bodyNodeOf } from "../../src/checkpoint/codec/node.js";
import { isEngineError } from "../../src/core/errors.js";
import { TINY } from "../helpers/savers.js";
import { size, SOAK_MS } from "../helpers/soak.js";
import { build, value } from "./specs.js";

function write(shape: Shape, given: unknown) {
  const encoder = createEncoder(createSession(shape));
  const { text, refs } = encoder.encode(given, "ch");
  const nodes = new Map([...encoder.nodes].map(([key, node]) => [key, bodyNodeOf(node)]));
  return { text, refs, nodes };
}

test.each([
  ["the stored shape", SHAPE],
  ["trees of two", TINY],
])(
  "any value comes back equal, and its text says which nodes it needs (%s)",
  (_, shape) => {
    const property = fc.property(value, (spec) => {
      const { text, refs, nodes } = write(shape, build(spec));
      expect(referencesIn(text).sort()).toEqual([...refs].sort());
      for (const node of nodes.values()) expect(referencesOfNode(node).sort()).toEqual([...node.refs].sort());
      const decoder = createDecoder((key) => nodes.get(key)!.data);
      return isDeepStrictEqual(decoder.decode(text), build(spec));
    });
    fc.assert(property, { numRuns: size(1_000, 50_000), seed: 1 });
  },
  SOAK_MS,
);

test(
  "a text whose bytes changed is refused as damaged or is another value: it never ends otherwise, or takes long",
  () => {
    const change = fc.record({ at: fc.nat(), to: fc.nat(255), how: fc.constantFrom("set", "cut", "insert") });
    const property = fc.property(value, fc.array(change, { minLength: 1, maxLength: 3 }), (spec, changes) => {
      const { text, nodes } = write(TINY, build(spec));
      const decoder = createDecoder((key) => nodes.get(key)?.data ?? Buffer.from("null"));
      let bytes = Buffer.from(text);
      for (const { at, to, how } of changes) {
        const place = bytes.length === 0 ? 0 : at % bytes.length;
        if (how === "cut") bytes = bytes.subarray(0, place);
        else if (how === "insert")
          bytes = Buffer.concat([bytes.subarray(0, place), Buffer.of(to), bytes.subarray(place)]);
        else bytes[place] = to;
      }
      // Its own work, not what else the machine does meanwhile.
      const before = process.cpuUsage();
      try {
        decoder.decode(bytes.toString("utf8"));
      } catch (error) {
        if (!isEngineError(error, "body_corrupt")) throw error;
      }
      const { user, system } = process.cpuUsage(before);
      expect(user + system).toBeLessThan(1_000_000);
    });
    fc.assert(property, { numRuns: size(2_000, 100_000), seed: 2 });
  },
  SOAK_MS,
);
