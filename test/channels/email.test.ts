// Mail: what a reply says decides, and without one it is unknown as soon as the text was on its way.
import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { SendContext } from "../../src/delivery/channel.js";
import { email } from "../../src/delivery/channels/email.js";
import { type SmtpFault, type SmtpStandIn, startSmtp } from "../../src/testing/channels/smtp.js";

let smtp: SmtpStandIn;
beforeEach(async () => void (smtp = await startSmtp()));
afterEach(() => smtp.close());

const context = (more: Partial<SendContext> = {}): SendContext => ({
  account: {
    channelAccountId: randomUUID(),
    credentials: { smtp_url: smtp.url, webhook_secret: "" },
    settings: { from: "Bot <bot@example.org>", subject: "Your order" },
  },
  address: { to: "ada@example.com", in_reply_to: "<first@example.com>" },
  ...{ token: randomUUID(), deliveryId: randomUUID(), refusals: 0, silentMs: null, signal: AbortSignal.timeout(1_500) },
  ...more,
});
const send = (said: SendContext) =>
  email.send({ kind: "text", payload: { text: "Grüße 👋\n\nIt is on its way." } }, said);

it("is sent with an id that is the message's, in its thread, and says that no person wrote it", async () => {
  const said = context();
  const messageId = `<${said.deliveryId}@example.org>`;
  expect(await send(said)).toEqual({ kind: "sent", messageId });
  const [mail] = smtp.mails("ada@example.com");
  expect(mail?.text).toBe("Grüße 👋\n\nIt is on its way.");
  expect(mail?.headers).toMatchObject({
    ...{ "message-id": messageId, "in-reply-to": "<first@example.com>", "auto-submitted": "auto-generated" },
    subject: "Your order",
  });
});

it.each([
  [
    "an address that isn't there",
    { at: "RCPT", reply: 550 },
    { kind: "refused", code: "smtp_550", unreachable: true },
    0,
  ],
  ["a full mailbox", { at: "RCPT", reply: 452 }, { kind: "not_sent", code: "smtp_452" }, 0],
  ["refused after the text", { at: "END", reply: 554 }, { kind: "refused", code: "smtp_554", unreachable: false }, 0],
  ["put off after the text", { at: "END", reply: 451 }, { kind: "not_sent", code: "smtp_451" }, 0],
  ["taken, and cut before that is said", { at: "END", reply: "cut_after" }, { kind: "unknown" }, 1],
  ["taken, and never answered", { at: "END", reply: "hang" }, { kind: "unknown" }, 1],
  ["cut before the text", { at: "RCPT", reply: "cut_before" }, { kind: "not_sent" }, 0],
] satisfies [string, SmtpFault, object, number][])("%s", async (_, fault, expected, arrived) => {
  smtp.breaks(fault);
  expect(await send(context())).toMatchObject(expected);
  expect(smtp.mails()).toHaveLength(arrived);
});

it("a server that isn't there has certainly not got it", async () => {
  const said = context();
  await smtp.close();
  expect(await send(said)).toMatchObject({ kind: "not_sent" });
});
