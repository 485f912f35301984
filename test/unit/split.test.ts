// Long texts in parts: within the limit as the channel counts, nothing lost, nothing cut inside.
import { describe, expect, it } from "vitest";
import { splitText } from "../../src/delivery/channels/split.js";
import { formed, SLACK_MRKDWN, TELEGRAM_HTML, WHATSAPP } from "../../src/delivery/channels/formed.js";

const LIMIT = 4_096;
/** What fences that were closed and opened again add. */
const joined = (parts: readonly string[]): string =>
  parts
    .join("\0")
    .replaceAll(/\n(`{3,})\0\1[^\n]*\n/g, "")
    .replaceAll("\0", "");

describe("splitText", () => {
  it.each([
    ["one paragraph that fits", "hello"],
    ["nothing", ""],
    ["4,096 times &", "&".repeat(4_096)],
    ["10,000 characters without a break", "x".repeat(10_000)],
    ["paragraphs", Array.from({ length: 60 }, (_, i) => `paragraph ${i} ${"word ".repeat(40)}`).join("\n\n")],
    ["a code fence over the boundary", `before\n\n\`\`\`ts\n${"const a = 1;\n".repeat(700)}\`\`\`\nafter`],
    ["one long line in a fence", `\`\`\`\n${"y".repeat(9_000)}\n\`\`\``],
    ["unclosed marks", `_a [b *c ${"d ".repeat(4_000)}`],
    ["families on the boundary", `${"a".repeat(4_090)}${"👩‍👩‍👧‍👦".repeat(400)}`],
    ["flags and accents", "🇮🇹e\u0301".repeat(2_000)],
    ["a line of 5,000 characters that begins like a fence", `\`\`\`${"x".repeat(5_000)}\n${"code\n".repeat(2_000)}`],
    ["a fence of 5,000 marks", `${"`".repeat(5_000)}\n${"code\n".repeat(2_000)}`],
  ])("%s: in the limit, and all of it", (_, text) => {
    const parts = splitText(text, LIMIT);
    for (const part of parts) expect(part.length).toBeLessThanOrEqual(LIMIT);
    expect(joined(parts)).toBe(text);
  });

  it("never cuts inside a character", () => {
    const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
    const family = "👩‍👩‍👧‍👦";
    for (let before = 4_080; before <= 4_096; before += 1) {
      const [first = "", second = ""] = splitText("a".repeat(before) + family.repeat(3), LIMIT);
      const cut = [...graphemes.segment(first)].at(-1)?.segment ?? "";
      expect(["a", family]).toContain(cut);
      if (second !== "") expect([...graphemes.segment(second)][0]?.segment).toBe(family);
    }
  });

  it("closes a fence that it cuts, and opens it again", () => {
    const parts = splitText(`\`\`\`ts\n${"const a = 1;\n".repeat(700)}\`\`\``, LIMIT);
    expect(parts.length).toBeGreaterThan(2);
    for (const part of parts) {
      expect(part.startsWith("```ts\n")).toBe(true);
      expect(part.match(/^```/gm)).toHaveLength(2);
    }
  });
});

it("Markdown becomes Telegram's HTML, whatever is in it", () => {
  const text =
    "# A & B\n\n**bold** _it_ ~~no~~ `a<b` [x](https://a.b/?c=1&d=2) <script> [y](javascript:alert(1))\n\n- one\n- two";
  expect(formed(text, TELEGRAM_HTML)).toBe(
    '<b>A &amp; B</b>\n\n<b>bold</b> <i>it</i> <s>no</s> <code>a&lt;b</code> <a href="https://a.b/?c=1&amp;d=2">x</a> &lt;script&gt; [y](javascript:alert(1))\n\n• one\n• two',
  );
  expect(formed("```ts\nif (a < b) {}\n```", TELEGRAM_HTML)).toBe(
    '<pre><code class="language-ts">if (a &lt; b) {}</code></pre>',
  );
});

it("Markdown becomes WhatsApp's", () => {
  expect(formed("# Title\n\n**bold** and *it*, [x](https://a.b)\n\n1. one\n2. two", WHATSAPP)).toBe(
    "*Title*\n\n*bold* and _it_, x (https://a.b)\n\n1. one\n2. two",
  );
});

it("Markdown becomes Slack's", () => {
  expect(formed("**A & B** <x> [y](https://a.b/?c=1&d=2) [z](javascript:alert(1))", SLACK_MRKDWN)).toBe(
    "*A &amp; B* &lt;x&gt; <https://a.b/?c=1&amp;d=2|y> [z](javascript:alert(1))",
  );
});
