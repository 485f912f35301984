// JSON texts that are no state, kept as state values are: long strings, long arrays and long objects in them are bodies of
// their thread, under the names they have in its states. So a conversation that each of its runs was given and streamed
// again is in the object store once, and what is new costs what is new.
import type { LoadedBody } from "./body-reader.js";
import { createDecoder } from "./codec/decoder.js";
import { createEncoder, createSession } from "./codec/encoder.js";
import { jsonEnvelopeText, MARK, SHAPE } from "./codec/format.js";
import { bodyNodeOf } from "./codec/node.js";
import type { BodyNode } from "./ops.js";

export type JsonKeeper = Readonly<{
  /** The text to keep instead of a JSON text, which `reviveJson` gives back to the letter. */
  keep(json: string): string;
  /** The bodies that texts kept since the last call name and that were not among those before. */
  takeBodies(): readonly BodyNode[];
}>;

/** For the texts of one thread, written as JSON.stringify writes. */
export function createJsonKeeper(): JsonKeeper {
  const session = createSession();
  let encoder = createEncoder(session);
  return {
    keep(json) {
      // Nothing in it is long enough to be a body, or looks like an envelope.
      if (json.length < SHAPE.leafChars && !json.includes(`"${MARK}"`)) return json;
      try {
        return encoder.encode(JSON.parse(json), "content").text;
      } catch {
        // Nested deeper than states may be.
        return jsonEnvelopeText(json);
      }
    },
    takeBodies() {
      const bodies = [...encoder.nodes.values()].map(bodyNodeOf);
      for (const { key } of bodies) session.known.add(key);
      encoder = createEncoder(session);
      return bodies;
    },
  };
}

/** What a kept text stands for, from its parsed JSON, which is used up. Every body it names must be among `bodies`. */
export function reviveJson(kept: unknown, bodies: ReadonlyMap<string, LoadedBody>): unknown {
  const decoder = createDecoder((key) => (bodies.get(key) as LoadedBody).data);
  return decoder.revive(kept);
}
