// Mail over SMTP. It knows no key that makes a message the same one again and can't be asked what it has; a fixed Message-ID lets many
// mailboxes fold a second copy, and none promises to. What comes in is not read.
import { createTransport } from "nodemailer";
import { z } from "zod";
import type { Address, Outgoing, Rendered, SendResult } from "../../core/channel.js";
import type { ChannelAdapter, SendContext } from "../channel.js";

const address = z.object({
  to: z.email(),
  subject: z.string().min(1).max(200).optional(),
  in_reply_to: z.string().min(1).optional(),
}) as unknown as z.ZodType<Address>;
const credentials = z.object({
  smtp_url: z.string().regex(/^smtps?:\/\/\S+$/, "smtp://user:password@host:587 or smtps://…"),
  webhook_secret: z.string(),
});
const settings = z.looseObject({
  from: z.string().min(3),
  subject: z.string().min(1).max(200).optional(),
  /** Of a page or an address where one can say that one wants no more: for outreach. */
  unsubscribe: z.string().optional(),
});

const SUBJECT = "A message for you";

export const email: ChannelAdapter = {
  kind: "email",
  credentials,
  settings,
  address,
  defaults: { onUnknown: "hold", timeoutMs: 30_000, perSecond: 10 },
  addressKey: ({ to }) => String(to).toLowerCase(),
  spacingMs: () => 0,
  render: ({ text, buttons = [] }: Outgoing): Rendered[] => [
    { kind: "text", payload: { text: [text, ...buttons.map(({ label }) => `[ ${label} ]`)].join("\n\n") } },
  ],
  send,
};

async function send({ payload }: Rendered, context: SendContext): Promise<SendResult> {
  const { account, address: at, deliveryId, signal } = context;
  const { from, subject, unsubscribe } = account.settings as z.output<typeof settings>;
  const messageId = `<${deliveryId}@${domainOf(from)}>`;
  const timeoutMs = email.defaults.timeoutMs / 2;
  // From the command that announces the text on it may have left.
  let begun = false;
  const note = (entry: Readonly<{ tnx?: string }>, said: unknown): void => {
    if (entry.tnx === "client" && said === "DATA") begun = true;
  };
  const logger = Object.fromEntries(["trace", "debug", "info", "warn", "error", "fatal"].map((level) => [level, note]));
  const timeouts = { connectionTimeout: timeoutMs, greetingTimeout: timeoutMs, socketTimeout: timeoutMs };
  const transport = createTransport({
    ...{ url: String(account.credentials["smtp_url"]), ...timeouts },
    ...{ logger: { ...logger, level: () => undefined }, transactionLog: true },
  } as object);
  const text = String(payload["text"]);
  const cut = (): void => transport.close();
  signal.addEventListener("abort", cut, { once: true });
  try {
    const sent = transport.sendMail({
      ...{ from, to: String(at["to"]), subject: String(at["subject"] ?? subject ?? SUBJECT), messageId, text },
      ...(at["in_reply_to"] !== undefined && {
        inReplyTo: String(at["in_reply_to"]),
        references: String(at["in_reply_to"]),
      }),
      headers: {
        "Auto-Submitted": "auto-generated",
        ...(unsubscribe !== undefined && { "List-Unsubscribe": `<${unsubscribe}>` }),
      },
    });
    await Promise.race([sent, aborted(signal)]);
    return { kind: "sent", messageId };
  } catch (error) {
    return refusalOf(error as MailError, begun);
  } finally {
    signal.removeEventListener("abort", cut);
    transport.close();
  }
}

type MailError = Readonly<{ code?: string; responseCode?: number; syscall?: string }>;

/** A reply decides; without one it is unknown as soon as the text was being sent. */
function refusalOf({ code = "failed", responseCode: reply }: MailError, begun: boolean): SendResult {
  if (code === "EAUTH") return { kind: "account_down", code: "smtp_auth" };
  if (reply !== undefined && reply >= 500) {
    const isPerson = code === "EENVELOPE";
    return { kind: "refused", code: `smtp_${reply}`, unreachable: isPerson };
  }
  if (reply !== undefined && reply >= 400)
    return { kind: "not_sent", code: `smtp_${reply}`, afterMs: null, spends: true };
  return begun ? { kind: "unknown", code } : { kind: "not_sent", code, afterMs: null, spends: true };
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(Object.assign(new Error("took too long"), { code: "timeout" })), {
      once: true,
    });
  });
}

const domainOf = (from: string): string => /@([\w.-]+)/.exec(from)?.[1] ?? "perdure.invalid";
