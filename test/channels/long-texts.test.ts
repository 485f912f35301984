// Long texts and odd ones on the wire: what the provider is asked is within its limits as it counts them, nothing of the text is lost or
// cut inside of a character, and none is refused for its markup.
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { Address, Outgoing } from "../../src/core/channel.js";
import type { Account, ChannelAdapter } from "../../src/delivery/channel.js";
import { telegram } from "../../src/delivery/channels/telegram.js";
import { whatsapp } from "../../src/delivery/channels/whatsapp.js";
import { startTelegram } from "../../src/testing/channels/telegram.js";
import { startWhatsApp } from "../../src/testing/channels/whatsapp.js";

/** Of a message, by both; of a question with buttons by WhatsApp. In UTF-16 units, without markup. */
const MAX_TEXT = 4_096;
const MAX_QUESTION = 1_024;

const FAMILY = "👩‍👩‍👧‍👦";
const LINKS = Array.from({ length: 60 }, (_, n) => ({
  said: `link ${n}`,
  href: `https://example.org/${"p".repeat(60)}?a=${n}&b=2`,
}));
const CODE = "if (a < b && c) {}\n".repeat(400);
const STRAY = "a_b [c *d e_ < f > & ".repeat(250);

/** `read`: by a person, where that isn't what was written; `listed`: where markup is shown as the channel's own. */
type Text = Readonly<{ written: string; read?: string; listed?: string }>;
const TEXTS: Readonly<Record<string, Text>> = {
  "4,096 times &": { written: "&".repeat(4_096) },
  "a code fence over the boundary": {
    written: `before\n\n\`\`\`ts\n${CODE}\`\`\`\nafter`,
    read: `before ${CODE} after`,
    listed: `before \`\`\` ${CODE} \`\`\` after`,
  },
  "stray _, [ and unclosed *": { written: STRAY },
  "families on the boundary": { written: "a".repeat(4_090) + FAMILY.repeat(400) },
  "flags on the boundary": { written: `aaa${"🇮🇹".repeat(1_500)}` },
  "marks piled up on the boundary": { written: `${"a".repeat(4_050)}e${"\u0301".repeat(90)}${"b".repeat(100)}` },
  "60 links": {
    written: LINKS.map(({ said, href }) => `[${said}](${href})`).join("\n"),
    read: LINKS.map(({ said }) => said).join("\n"),
    listed: LINKS.map(({ said, href }) => `${said} (${href})`).join("\n"),
  },
  "a list that counts itself": {
    written: "1. a\n".repeat(800),
    read: "1. a\n".repeat(800),
    listed: Array.from({ length: 800 }, (_, n) => `${n + 1}. a`).join("\n"),
  },
  "marks nested thousands deep": { written: `${"> ".repeat(2_000)}x` },
};

/** Sends it as a deliverer would, to a server that refuses what the provider does. */
async function say(
  adapter: ChannelAdapter,
  account: Omit<Account, "channelAccountId">,
  to: Address,
  outgoing: Outgoing,
) {
  for (const message of adapter.render(outgoing, to)) {
    const context = {
      account: { channelAccountId: randomUUID(), ...account },
      ...{ address: to, token: randomUUID(), deliveryId: randomUUID(), refusals: 0, silentMs: 0 },
      signal: AbortSignal.timeout(20_000),
    };
    expect(await adapter.send(message, context)).toMatchObject({ kind: "sent" });
  }
}

/** But for white space, of which what stands at a cut isn't shown, and fences that were closed and opened again. */
function whole(parts: readonly string[]): string {
  const joined = parts.map((part) => part.replaceAll(/\s/g, "")).join("\0");
  return joined.replaceAll(/```\0```(?:ts)?/g, "").replaceAll("\0", "");
}

const bare = (text: string): string => text.replaceAll(/\s/g, "");

/** No part ends inside of a character; `source` is what was cut. */
function expectWholeCharacters(parts: readonly string[], source: string): void {
  const starts = new Set([...new Intl.Segmenter().segment(source)].map(({ index }) => index));
  let at = 0;
  for (const part of parts.slice(0, -1)) expect(starts).toContain((at += part.length));
}

const UNCUT = /families|flags|marks piled/;

describe.each(Object.entries(TEXTS))("%s", (name, { written, read = written, listed = read }) => {
  it.each([
    ["rich", { format: "rich" }, true],
    ["HTML", { format: "html" }, true],
    ["HTML, since the server doesn't know rich", {}, false],
  ] as const)("to Telegram as %s: in the limit, all of it, and refused for nothing", async (_, settings, knowsRich) => {
    const server = await startTelegram();
    server.knowsRich(knowsRich);
    const account = { credentials: { token: server.token }, settings: { api_root: server.url, ...settings } };
    await say(telegram, account, { chat_id: 1 }, { text: written });
    const parts = server.messages(1).map(({ text }) => text);
    for (const part of parts) expect(part.length).toBeLessThanOrEqual(MAX_TEXT);
    const isRich = "format" in settings && settings.format === "rich";
    expect(whole(parts)).toBe(bare(isRich ? written : read));
    if (UNCUT.test(name)) expectWholeCharacters(parts, written);
    const fences = /code fence/.test(name) && isRich ? parts.map((part) => part.match(/^```/gm)?.length) : [];
    expect(fences.every((count) => count === 2)).toBe(true);
    await server.close();
  });

  it.each([
    ["a message", MAX_TEXT, {}],
    ["a question", MAX_QUESTION, { buttons: [{ id: "ap:y", label: "Approve" }] }],
  ])("to WhatsApp as %s: in the limit, all of it, and refused for nothing", async (_, most, more) => {
    const server = await startWhatsApp();
    const account = {
      credentials: { access_token: server.accessToken, app_secret: server.appSecret },
      settings: { api_root: server.url, phone_number_id: server.phoneNumberId },
    };
    await say(whatsapp, account, { phone: "1" }, { text: written, ...more });
    const parts = server.messages("1").map(({ text }) => text);
    for (const part of parts) expect(part.length).toBeLessThanOrEqual(most);
    expect(whole(parts)).toBe(bare(listed));
    if (UNCUT.test(name)) expectWholeCharacters(parts, written);
    const fences = /code fence/.test(name) ? parts.map((part) => part.match(/^```/gm)?.length) : [];
    expect(fences.every((count) => count === 2)).toBe(true);
    await server.close();
  });
});
