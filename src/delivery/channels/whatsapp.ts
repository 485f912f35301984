// WhatsApp's Cloud API: https://developers.facebook.com/docs/whatsapp/cloud-api. Free text is taken within 24 hours of the person's last
// message; later only a template that Meta has approved, which here announces what waits: a press of its button opens the window. It knows
// no key that makes a message the same one again, but gives a word of ours back with every receipt: so a try can be found out about.
import { z } from "zod";
import type { Address, Button, InboundEvent, Outgoing, Person, Rendered, SendResult } from "../../core/channel.js";
import {
  type Account,
  type ChannelAdapter,
  DOORBELL,
  type SendContext,
  type WebhookAnswer,
  type WebhookRequest,
} from "../channel.js";
import { formed, WHATSAPP } from "./formed.js";
import { asRecord, request, retryAfterMs, unanswered } from "./request.js";
import { hmacSha256, isSame } from "./signature.js";
import { splitText } from "./split.js";

const API_ROOT = "https://graph.facebook.com";
const VERSION = "v25.0";
const MAX_TEXT = 4_096;
const MAX_BUTTON_TEXT = 1_024;
const MAX_BUTTONS = 3;
const MAX_TITLE = 20;
const DAY_MS = 24 * 60 * 60_000;
/** Messages are on their way for a while: what is sent at the last moment would come too late. */
const WINDOW_MS = DAY_MS - 5 * 60_000;
/** One person takes one message in so long. */
const PAIR_MS = 6_000;
const SECOND_MS = 1_000;

/** A number, an id of their own business's making (for who hides the number), or both. */
const address = z
  .object({ phone: z.string().min(1).optional(), user_id: z.string().min(1).optional() })
  .refine(
    ({ phone, user_id: user }) => phone !== undefined || user !== undefined,
    "needs a phone or a user_id",
  ) as z.ZodType<Address>;

const credentials = z.object({
  access_token: z.string().min(1),
  app_secret: z.string().min(1),
  webhook_secret: z.string().min(1),
});

const template = z.object({
  name: z.string().min(1),
  language: z.string().min(1),
  parameters: z.array(z.string()).optional(),
});

const settings = z.looseObject({
  api_root: z.url({ protocol: /^https?$/ }).optional(),
  api_version: z.string().optional(),
  phone_number_id: z.string().min(1),
  /** What announces a message that may not be sent yet; without it such a message waits until the person writes. */
  template: template.optional(),
});

export const whatsapp: ChannelAdapter = {
  kind: "whatsapp",
  credentials,
  settings,
  address,
  defaults: { onUnknown: "reconcile", timeoutMs: 15_000, perSecond: 80 },
  // Who has an id of their own keeps it when the number changes.
  addressKey: ({ phone, user_id: user }) => String(user ?? phone),
  spacingMs: () => PAIR_MS,
  render,
  send,
  doorbell,
  receive,
};

function render({ text, buttons = [] }: Outgoing): Rendered[] {
  const marked = formed(text, WHATSAPP);
  if (buttons.length === 0)
    return splitText(marked, MAX_TEXT).map((part) => ({ kind: "text", payload: { text: part } }));
  const last = splitText(marked, MAX_BUTTON_TEXT);
  const before = last.slice(0, -1).map((part): Rendered => ({ kind: "text", payload: { text: part } }));
  return [...before, { kind: "buttons", payload: { text: last.at(-1) ?? "", buttons: buttons.slice(0, MAX_BUTTONS) } }];
}

/** In the window as it is, outside of it as a template; where there is none it waits. The window is judged now, by the database's clock. */
async function send(message: Rendered, context: SendContext): Promise<SendResult> {
  const isOpen = context.silentMs !== null && context.silentMs < WINDOW_MS;
  if (message.kind === "template" || isOpen) return post(bodyOf(message), context);
  return { kind: "parked", code: "window_closed" };
}

/** Its first button asks for what waits. */
function doorbell({ settings: { template: chosen } }: Account): Rendered | null {
  if (chosen === undefined) return null;
  const { name, language, parameters = [] } = chosen as z.output<typeof template>;
  const body = { type: "body", parameters: parameters.map((text) => ({ type: "text", text })) };
  const button = {
    type: "button",
    sub_type: "quick_reply",
    index: "0",
    parameters: [{ type: "payload", payload: DOORBELL }],
  };
  const components = [...(parameters.length > 0 ? [body] : []), button];
  return { kind: "template", payload: { name, language: { code: language }, components } };
}

function bodyOf({ kind, payload }: Rendered): Readonly<Record<string, unknown>> {
  const { text, buttons = [] } = payload as Readonly<{ text?: string; buttons?: readonly Button[] }>;
  switch (kind) {
    case "template":
      return { type: "template", template: payload };
    case "buttons":
      return {
        type: "interactive",
        interactive: {
          type: "button",
          body: { text },
          action: {
            buttons: buttons.map(({ id, label }) => ({
              type: "reply",
              reply: { id, title: label.slice(0, MAX_TITLE) },
            })),
          },
        },
      };
    default:
      return { type: "text", text: { preview_url: false, body: text } };
  }
}

async function post(body: Readonly<Record<string, unknown>>, context: SendContext): Promise<SendResult> {
  const { account, address: to, token, signal } = context;
  const { phone, user_id: recipient } = to;
  const root = ((account.settings["api_root"] as string | undefined) ?? API_ROOT).replace(/\/+$/, "");
  const version = (account.settings["api_version"] as string | undefined) ?? VERSION;
  const answer = await request(`${root}/${version}/${String(account.settings["phone_number_id"])}/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${account.credentials["access_token"]}` },
    body: JSON.stringify({
      ...{ messaging_product: "whatsapp", recipient_type: "individual" },
      ...(phone !== undefined && { to: phone }),
      ...(recipient !== undefined && { recipient }),
      ...body,
      biz_opaque_callback_data: token,
    }),
    signal,
  });
  if (answer.kind !== "answer") return unanswered(answer);
  const said = asRecord(answer.text);
  const code = (said?.["error"] as MetaError | null | undefined)?.code;
  if (typeof code === "number") return refusalOf(code, answer);
  const [sent] = (said?.["messages"] ?? []) as readonly Readonly<{ id?: string }>[];
  if (answer.status >= 200 && answer.status < 300) return { kind: "sent", messageId: sent?.id ?? null };
  return { kind: "unknown", code: `http_${answer.status}` };
}

type MetaError = Readonly<{ code?: number }>;

const SLOW_DOWN = new Set([4, 80_007, 130_429, 131_056, 133_016, 429]);
const PERSON = new Set([131_026, 131_021, 130_472, 131_049, 131_050, 131_062]);
const PASSING = new Set([1, 2, 131_000, 131_016, 131_057, 133_004, 133_005]);
const ACCOUNT = new Set([0, 190, 3, 10, 131_042, 131_045, 133_010, 368, 131_031, 130_497, 131_048]);
const WINDOW = 131_047;
const OPTED_OUT = 131_050;
/** What the engine does something about has a word of its own. */
const wordOf = (code: number): string => (code === OPTED_OUT ? "opted_out" : `meta_${code}`);

/**
 * An error with Meta's envelope: nothing was taken. https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes
 * Of a code that isn't known the status says whether it passes.
 */
function refusalOf(code: number, { status, headers }: Readonly<{ status: number; headers: Headers }>): SendResult {
  const word = wordOf(code);
  if (SLOW_DOWN.has(code)) {
    const afterMs = retryAfterMs(headers, Date.now()) ?? (code === 131_056 ? PAIR_MS : 30 * SECOND_MS);
    return { kind: "not_sent", code: word, afterMs, spends: false };
  }
  if (code === WINDOW) return { kind: "parked", code: "window_closed" };
  if (PASSING.has(code)) return { kind: "not_sent", code: word, afterMs: null, spends: true };
  if (PERSON.has(code)) return { kind: "refused", code: word, unreachable: code === 131_026 || code === 131_021 };
  if (ACCOUNT.has(code) || (code >= 200 && code < 300)) return { kind: "account_down", code: word };
  if (status >= 500) return { kind: "not_sent", code: word, afterMs: null, spends: true };
  return { kind: "refused", code: word, unreachable: false };
}

type Status = Readonly<{
  id?: string;
  status?: string;
  biz_opaque_callback_data?: string;
  errors?: readonly MetaError[];
}>;
type InboundMessage = Readonly<{
  id?: string;
  from?: string;
  from_user_id?: string;
  /** Seconds, as text. */
  timestamp?: string;
  type?: string;
  text?: Readonly<{ body?: string }>;
  button?: Readonly<{ payload?: string; text?: string }>;
  interactive?: Readonly<{ button_reply?: Readonly<{ id?: string; title?: string }> }>;
}>;
type Contact = Readonly<{ wa_id?: string; user_id?: string; profile?: Readonly<{ name?: string }> }>;
type Change = Readonly<{
  value?: Readonly<{
    messages?: readonly InboundMessage[];
    statuses?: readonly Status[];
    contacts?: readonly Contact[];
    metadata?: Readonly<{ phone_number_id?: string }>;
  }>;
}>;

function receive(webhook: WebhookRequest, account: Account): readonly InboundEvent[] | WebhookAnswer | null {
  if (webhook.method === "GET") return handshake(webhook.url.searchParams, account);
  const proof = `sha256=${hmacSha256(account.credentials["app_secret"] ?? "", webhook.body).toString("hex")}`;
  if (!isSame(webhook.headers.get("x-hub-signature-256") ?? "", proof)) return null;
  const { entry = [] } = (asRecord(Buffer.from(webhook.body).toString("utf8")) ?? {}) as Readonly<{
    entry?: readonly Readonly<{ changes?: readonly Change[] }>[];
  }>;
  // An app's webhooks are for all of its numbers.
  const ours = account.settings["phone_number_id"];
  const values = entry.flatMap(({ changes = [] }) => changes).map(({ value = {} }) => value);
  return values
    .filter(({ metadata }) => [undefined, ours].includes(metadata?.phone_number_id))
    .flatMap(({ statuses = [], messages = [], contacts = [] }) => [
      ...statuses.flatMap(receiptOf),
      ...messages.flatMap((message) => inboundOf(message, contacts)),
    ]);
}

function handshake(query: URLSearchParams, account: Account): WebhookAnswer {
  const isOurs = isSame(query.get("hub.verify_token") ?? "", account.credentials["webhook_secret"] ?? "");
  if (query.get("hub.mode") !== "subscribe" || !isOurs) return { status: 403, text: "wrong verify token" };
  return { status: 200, text: query.get("hub.challenge") ?? "" };
}

const TOLD = ["sent", "delivered", "read", "failed"] as const;

function receiptOf({ id, status, biz_opaque_callback_data: token, errors = [] }: Status): InboundEvent[] {
  const said = TOLD.find((each) => each === status);
  if (id === undefined || said === undefined) return [];
  const [error] = errors;
  const code = error?.code === undefined ? null : error.code === WINDOW ? "window_closed" : wordOf(error.code);
  return [{ kind: "receipt", messageId: id, status: said, token: token ?? null, code }];
}

function inboundOf(message: InboundMessage, contacts: readonly Contact[]): InboundEvent[] {
  const { id: externalId, from: phone, from_user_id: userId } = message;
  if (externalId === undefined || (phone === undefined && userId === undefined)) return [];
  const at: Address = { ...(phone !== undefined && { phone }), ...(userId !== undefined && { user_id: userId }) };
  const contact = contacts.find(
    ({ wa_id: id, user_id: user }) => id === phone || (user !== undefined && user === userId),
  );
  const name = contact?.profile?.name;
  const person: Person = { id: String(userId ?? phone), ...(name !== undefined && { name }) };
  const press = message.interactive?.button_reply?.id ?? message.button?.payload;
  if (press !== undefined) {
    return [{ kind: "press", externalId, address: at, person, id: press, reference: externalId }];
  }
  const text = message.text?.body;
  if (text === undefined) return [];
  const place = Number(message.timestamp ?? Number.NaN);
  const order = Number.isSafeInteger(place) ? { place } : {};
  return [{ kind: "message", externalId, address: at, person, text, messageId: externalId, ...order }];
}
