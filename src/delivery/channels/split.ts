// Long texts as several messages: cut at paragraphs if that fits, else at lines, words and at last between characters, never inside of
// one; a code fence that is cut goes on in the next part.

const FENCE = /^( {0,3})(`{3,}|~{3,})([^\n`]*)$/;
/** What is left of a part is better cut at a paragraph than filled. */
const LEAST_FILL = 0.5;
/** A longer line that begins like a fence is text like any other: said again in each part it would leave room for nothing else. */
const MOST_FENCE = 100;
const GRAPHEMES = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Cuts `text` into parts of at most `limit` UTF-16 units, in which nothing but the fences is added. At least one part. */
export function splitText(text: string, limit: number): string[] {
  const parts: string[] = [];
  let rest = text;
  let open = "";
  for (;;) {
    const opening = open === "" ? "" : `${open}\n`;
    if (opening.length + rest.length <= limit) return [...parts, opening + rest];
    const room = limit - opening.length;
    const { taken, fence } = takePart(rest, room, open);
    const closing = fence === "" ? "" : `\n${markOf(fence)}`;
    parts.push(opening + taken + closing);
    rest = rest.slice(taken.length);
    open = fence;
  }
}

/** The beginning of `text` that fits, and the fence it leaves open, for which there is room then. */
function takePart(text: string, room: number, open: string): Readonly<{ taken: string; fence: string }> {
  for (let limit = room; ; ) {
    const taken = text.slice(0, cutAt(text, limit));
    const fence = fenceAfter(taken, open);
    const closing = fence === "" ? 0 : markOf(fence).length + 1;
    if (taken.length + closing <= room) return { taken, fence };
    limit = Math.min(limit, taken.length) - closing;
  }
}

function cutAt(text: string, limit: number): number {
  for (const mark of ["\n\n", "\n", " "]) {
    const at = text.lastIndexOf(mark, limit - mark.length) + mark.length;
    if (at > limit * LEAST_FILL && characterAt(text, at) === at) return at;
  }
  const at = characterAt(text, limit);
  if (at > 0) return at;
  const isHigh = /[\uD800-\uDBFF]/.test(text[limit - 1] ?? "");
  return isHigh && limit > 1 ? limit - 1 : limit;
}

/** Where the character, as people see it, begins that `at` is in: by all that is before it, since flags are pairs, and marks pile up. */
function characterAt(text: string, at: number): number {
  return GRAPHEMES.segment(text.slice(0, at + 2)).containing(at)?.index ?? at;
}

/** The line of the fence that is open after `text`; empty: none is. */
function fenceAfter(text: string, open: string): string {
  let fence = open;
  for (const line of text.split("\n")) {
    const found = line.length > MOST_FENCE ? null : FENCE.exec(line);
    if (found === null) continue;
    const [, , mark = "", info = ""] = found;
    if (fence === "") fence = line;
    else if (info.trim() === "" && mark.startsWith(markOf(fence))) fence = "";
  }
  return fence;
}

const markOf = (fence: string): string => FENCE.exec(fence)?.[2] ?? "```";
