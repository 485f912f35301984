// How a run's events are stored: what repeats the event of the same name before it keeps only what is new. Without this a
// run whose state grows by one message a step would store n states of n messages, and a streamed text each of its prefixes.
// A shortened event has the name `~<event>` and the data {key, base, keep: [first, last], add}: the text of event `base` with
// all but its first and last characters replaced by `add`. `key` is the nearest earlier event of that name stored whole.
import type { StreamLine } from "./stream-chunks.js";

/** Texts shorter than this are stored whole and are no base. */
const WORTH_CHARS = 512;
/** Namespaces of subgraphs make many names; the longest unused is forgotten. */
const MAX_NAMES = 32;
const MARK = "~";

type Last = Readonly<{ id: number; json: string; key: number }>;
type Delta = Readonly<{ key: number; base: number; keep: readonly [number, number]; add: string }>;

/** Shortens the events of one attempt, given in order. */
export function createDeltaEncoder(): (line: StreamLine) => StreamLine {
  const lasts = createLasts();
  /** Characters stored since the key, by event name: a chain may not get longer than what it saves reading. */
  const chained = new Map<string, number>();

  return (line) => {
    if (line.json.length < WORTH_CHARS) return line;
    const { id, event, json } = line;
    const last = lasts.get(event);
    const delta = last === undefined ? undefined : shorten(last, json);
    const text = delta === undefined ? undefined : JSON.stringify(delta);
    const chain = (chained.get(event) ?? 0) + (text?.length ?? 0);
    if (last === undefined || text === undefined || text.length > json.length / 2 || chain > json.length) {
      lasts.set(event, { id, json, key: id });
      chained.set(event, 0);
      return line;
    }
    lasts.set(event, { id, json, key: last.key });
    chained.set(event, chain);
    return { id, event: MARK + event, json: text };
  };
}

export type DeltaDecoder = Readonly<{
  /** The event as it was, or the id of the event to start reading from, when the one it builds on wasn't seen. */
  decode(line: StreamLine): StreamLine | Readonly<{ needsFrom: number }>;
}>;

/** Restores events, given in order. */
export function createDeltaDecoder(): DeltaDecoder {
  const lasts = createLasts();
  return {
    decode(line) {
      if (!line.event.startsWith(MARK)) {
        if (line.json.length >= WORTH_CHARS) lasts.set(line.event, { id: line.id, json: line.json, key: line.id });
        return line;
      }
      const event = line.event.slice(MARK.length);
      const { key, base, keep, add } = JSON.parse(line.json) as Delta;
      const last = lasts.get(event);
      if (last?.id !== base) return { needsFrom: key };
      const json = last.json.slice(0, keep[0]) + add + last.json.slice(last.json.length - keep[1]);
      lasts.set(event, { id: line.id, json, key });
      return { id: line.id, event, json };
    },
  };
}

function shorten({ id, json: before, key }: Last, json: string): Delta {
  const most = Math.min(before.length, json.length);
  let first = 0;
  while (first < most && before.charCodeAt(first) === json.charCodeAt(first)) first++;
  let last = 0;
  const rest = most - first;
  while (last < rest && before.charCodeAt(before.length - 1 - last) === json.charCodeAt(json.length - 1 - last)) last++;
  return { key, base: id, keep: [first, last], add: json.slice(first, json.length - last) };
}

function createLasts() {
  const byEvent = new Map<string, Last>();
  return {
    get: (event: string) => byEvent.get(event),
    set(event: string, last: Last): void {
      byEvent.delete(event);
      byEvent.set(event, last);
      const oldest = byEvent.keys().next().value;
      if (byEvent.size > MAX_NAMES && oldest !== undefined) byEvent.delete(oldest);
    },
  };
}
