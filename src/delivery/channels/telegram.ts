// Telegram's Bot API (10.3): https://core.telegram.org/bots/api. It knows no key that makes a message the same one again and can't be
// asked what it has: what may have arrived is left to a person, unless the account says otherwise.
import { z } from "zod";
import type { Address, Button, InboundEvent, Person, Rendered, SendResult } from "../../core/channel.js";
import type { Account, ChannelAdapter, SendContext, WebhookRequest } from "../channel.js";
import { formed, TELEGRAM_HTML } from "./formed.js";
import { asRecord, request, unanswered } from "./request.js";
import { isSame } from "./signature.js";
import { splitText } from "./split.js";

const API_ROOT = "https://api.telegram.org";
/** Of a message, in UTF-16 units after its markup was taken away. */
const MAX_TEXT = 4_096;
const MAX_BUTTON_ID_BYTES = 64;
const POLL_SECONDS = 30;
/** A refusal that passes, as has been seen. */
const CONFIRM_AFTER_MS = 10 * 60_000;
const SECOND_MS = 1_000;
const PLACEHOLDER = "…";
const UPDATES = ["message", "callback_query", "my_chat_member"];

const address = z.object({
  chat_id: z.union([z.number().int(), z.string().min(1)]),
  message_thread_id: z.number().int().optional(),
}) as z.ZodType<Address>;

const credentials = z.object({
  token: z.string().regex(/^\d+:[\w-]{10,}$/, "a bot's token, as @BotFather gives it"),
  webhook_secret: z.string().regex(/^[\w-]{1,256}$/, "1 to 256 of A-Z, a-z, 0-9, _ and -"),
});

const settings = z.looseObject({
  api_root: z.url({ protocol: /^https?$/ }).optional(),
  /** rich: as Markdown, where the server takes it; html: never. */
  format: z.enum(["rich", "html"]).optional(),
});

/** Private chats have positive ids; groups take 20 messages a minute. */
const isGroup = ({ chat_id: chatId }: Address): boolean => Number(chatId) < 0 || Number.isNaN(Number(chatId));

export const telegram: ChannelAdapter = {
  kind: "telegram",
  credentials,
  settings,
  address,
  defaults: { onUnknown: "hold", timeoutMs: 15_000, perSecond: 30 },
  addressKey: ({ chat_id: chatId, message_thread_id: thread }) =>
    thread === undefined ? String(chatId) : `${chatId}/${thread}`,
  spacingMs: (to) => (isGroup(to) ? 3 * SECOND_MS : SECOND_MS),
  render,
  send: (message, context) => sendAs(message, context, null),
  reserve,
  edit: (message, messageId, context) => sendAs(message, context, messageId),
  receive,
  poll,
  announce,
  acknowledge,
};

type Payload = Readonly<{ text: string; buttons?: readonly Button[] }>;

function render({ text, buttons = [] }: Payload): Rendered[] {
  for (const { id } of buttons) {
    if (Buffer.byteLength(id) > MAX_BUTTON_ID_BYTES)
      throw new Error(`a button's id has more than ${MAX_BUTTON_ID_BYTES} bytes`);
  }
  const parts = splitText(text, MAX_TEXT);
  return parts.map((part, index) =>
    buttons.length > 0 && index === parts.length - 1
      ? { kind: "buttons", payload: { text: part, buttons } }
      : { kind: "text", payload: { text: part } },
  );
}

/**
 * Rich, if the server takes that; else as HTML; else as it is. Each is tried only when the one before certainly wasn't sent.
 * `place`: the message that becomes this one, by its id as we keep it; null: it is a new one.
 */
async function sendAs({ payload }: Rendered, context: SendContext, place: string | null): Promise<SendResult> {
  const { text, buttons = [] } = payload as unknown as Payload;
  const [rich, plain] = place === null ? ["sendRichMessage", "sendMessage"] : ["editMessageText", "editMessageText"];
  const common = {
    ...(place === null ? placeOf(context) : editedOf(place)),
    ...(buttons.length > 0 && { reply_markup: { inline_keyboard: [buttons.map(buttonOf)] } }),
  };
  const forms: readonly (readonly [method: string, body: Record<string, unknown>])[] = [
    ...(context.account.settings["format"] === "html"
      ? []
      : [[rich, { ...common, rich_message: { markdown: text } }] as const]),
    [plain, { ...common, text: formed(text, TELEGRAM_HTML), parse_mode: "HTML" }],
    [plain, { ...common, text }],
  ];
  let result: SendResult | "unfit" = "unfit";
  for (const [method, body] of forms) {
    result = await sendOne(context, method, body);
    if (result !== "unfit") return result;
  }
  return { kind: "refused", code: "cant_parse", unreachable: false };
}

const placeOf = ({ address: { chat_id, message_thread_id } }: SendContext) => ({
  chat_id,
  ...(message_thread_id !== undefined && { message_thread_id }),
});

/** The ids that we keep are `<chat>/<message>`. */
function editedOf(place: string) {
  const [chatId = "", messageId] = place.split("/");
  return { chat_id: /^-?\d+$/.test(chatId) ? Number(chatId) : chatId, message_id: Number(messageId) };
}

/** People are notified by this one, and not by what it becomes. */
async function reserve(context: SendContext): Promise<SendResult> {
  const result = await sendOne(context, "sendMessage", { ...placeOf(context), text: PLACEHOLDER });
  return result === "unfit" ? { kind: "refused", code: "bad_request", unreachable: false } : result;
}

const buttonOf = ({ id, label, style }: Button) => ({
  text: label,
  callback_data: id,
  ...(style !== undefined && { style: style === "primary" ? "success" : "danger" }),
});

/** "unfit": the server doesn't know the method, or can't read the text in this form. */
async function sendOne(
  context: SendContext,
  method: string,
  body: Readonly<Record<string, unknown>>,
): Promise<SendResult | "unfit"> {
  const answer = await call(context.account, method, body, context.signal);
  if (answer.kind !== "answer") return unanswered(answer);
  const said = asRecord(answer.text);
  // A page of a proxy: what stands behind it may have taken the message all the same.
  if (said === undefined || typeof said["ok"] !== "boolean") return { kind: "unknown", code: `http_${answer.status}` };
  if (said["ok"]) {
    const { message_id: id = body["message_id"] } = (said["result"] ?? {}) as { message_id?: unknown };
    return { kind: "sent", messageId: typeof id === "number" ? `${String(body["chat_id"])}/${id}` : null };
  }
  return refusalOf(said, body, context);
}

const isRich = (body: Readonly<Record<string, unknown>>): boolean => "rich_message" in body;

type Refusal = Readonly<{
  error_code?: number;
  description?: string;
  parameters?: Readonly<{ retry_after?: number; migrate_to_chat_id?: number | string }>;
}>;

/** By code, then by description, and with the careful reading where neither is known: both may change, the documentation says. */
function refusalOf(
  { error_code: status = 0, description = "", parameters = {} }: Refusal,
  body: Readonly<Record<string, unknown>>,
  context: SendContext,
): SendResult | "unfit" {
  const says = (pattern: RegExp): boolean => pattern.test(description);
  const refused = (code: string, unreachable: boolean) => ({ kind: "refused", code, unreachable }) as const;
  if (status === 429) {
    const afterMs = (parameters.retry_after ?? 1) * SECOND_MS;
    return { kind: "not_sent", code: "rate_limited", afterMs, spends: false };
  }
  if (parameters.migrate_to_chat_id !== undefined) {
    return { kind: "moved", to: { ...context.address, chat_id: parameters.migrate_to_chat_id } };
  }
  if (status === 401) return { kind: "account_down", code: "unauthorized" };
  if (status === 404) {
    return isRich(body) ? "unfit" : { kind: "account_down", code: "not_found" };
  }
  if (status === 403) {
    if (says(/can't send messages to the user/i) && context.refusals === 0) {
      return { kind: "not_sent", code: "forbidden", afterMs: CONFIRM_AFTER_MS, spends: true };
    }
    return refused(says(/blocked/i) ? "blocked" : "forbidden", true);
  }
  if (status === 400) {
    if (says(/message is not modified/i))
      return { kind: "sent", messageId: `${String(body["chat_id"])}/${String(body["message_id"])}` };
    if (says(/message to edit not found|message can't be edited|message_id_invalid/i)) {
      return { kind: "not_sent", code: "place_gone", afterMs: 0, spends: true };
    }
    if (says(/can't parse|unsupported|method not found|can't find end|byte offset/i)) return "unfit";
    if (says(/message thread not found|topic_closed/i)) return refused("topic_closed", true);
    if (says(/chat not found|peer_id_invalid|deactivated|not enough rights|upgraded to a supergroup/i)) {
      return refused("chat_not_found", true);
    }
    // Forming it can make it longer: what a list counts itself. As it is written it fits.
    if (says(/too long/i)) return "parse_mode" in body ? "unfit" : refused("too_long", false);
    return isRich(body) ? "unfit" : refused("bad_request", false);
  }
  if (status >= 400 && status < 500) return refused(`http_${status}`, false);
  return { kind: "unknown", code: `http_${status}` };
}

function call(account: Account, method: string, body: Readonly<Record<string, unknown>>, signal: AbortSignal) {
  const root = (account.settings["api_root"] as string | undefined) ?? API_ROOT;
  return request(`${root.replace(/\/+$/, "")}/bot${account.credentials["token"]}/${method}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
}

function receive({ method, headers, body }: WebhookRequest, account: Account): readonly InboundEvent[] | null {
  const secret = account.credentials["webhook_secret"] ?? "";
  if (method !== "POST" || !isSame(headers.get("x-telegram-bot-api-secret-token") ?? "", secret)) return null;
  const update = asRecord(Buffer.from(body).toString("utf8"));
  return update === undefined ? [] : eventsOf(update as Update);
}

type User = Readonly<{
  id: number;
  first_name?: string;
  last_name?: string;
  username?: string;
  language_code?: string;
}>;
type Message = Readonly<{
  message_id: number;
  message_thread_id?: number;
  is_topic_message?: boolean;
  chat: Readonly<{ id: number | string }>;
  from?: User;
  text?: string;
  caption?: string;
  migrate_to_chat_id?: number;
}>;
type Update = Readonly<{
  update_id: number;
  message?: Message;
  callback_query?: Readonly<{ id: string; from: User; data?: string; message?: Message }>;
  my_chat_member?: Readonly<{
    chat: Readonly<{ id: number | string }>;
    new_chat_member?: Readonly<{ status?: string }>;
  }>;
}>;

function eventsOf({
  update_id: updateId,
  message,
  callback_query: press,
  my_chat_member: member,
}: Update): InboundEvent[] {
  if (!Number.isSafeInteger(updateId)) return [];
  const externalId = String(updateId);
  if (message !== undefined) return messageEvents(externalId, message);
  if (press?.message !== undefined && typeof press.data === "string") {
    const { message: of } = press;
    const reference = JSON.stringify({ callback: press.id, chat: of.chat.id, message: of.message_id });
    const place = { address: addressOf(of), person: personOf(press.from) };
    return [{ kind: "press", externalId, ...place, id: press.data, reference }];
  }
  if (member !== undefined) {
    const isGone = ["kicked", "left"].includes(member.new_chat_member?.status ?? "");
    return [{ kind: "reachable", externalId, address: { chat_id: member.chat.id }, code: isGone ? "blocked" : null }];
  }
  return [];
}

function messageEvents(externalId: string, message: Message): InboundEvent[] {
  const { migrate_to_chat_id: to, from } = message;
  if (to !== undefined) {
    return [{ kind: "moved", externalId, from: { chat_id: message.chat.id }, to: { chat_id: to } }];
  }
  const text = message.text ?? message.caption;
  if (from === undefined || text === undefined) return [];
  const messageId = String(message.message_id);
  const place = message.message_id;
  return [{ kind: "message", externalId, address: addressOf(message), person: personOf(from), text, messageId, place }];
}

/** In a forum a topic is a conversation of its own; elsewhere the number only says what is replied to. */
function addressOf({ chat, message_thread_id: thread, is_topic_message: isTopic }: Message): Address {
  return { chat_id: chat.id, ...(isTopic === true && thread !== undefined && { message_thread_id: thread }) };
}

function personOf({ id, first_name, last_name, username, language_code: locale }: User): Person {
  const name = [first_name, last_name].filter((part) => part !== undefined).join(" ") || username;
  return { id: String(id), ...(name !== undefined && { name }), ...(locale !== undefined && { locale }) };
}

async function poll(account: Account, cursor: string | null, signal: AbortSignal) {
  const offset = cursor === null ? {} : { offset: Number(cursor) };
  const body = { ...offset, timeout: POLL_SECONDS, limit: 100, allowed_updates: UPDATES };
  const updates = await ask<Update[]>(account, "getUpdates", body, signal);
  const last = updates.at(-1)?.update_id;
  return { events: updates.flatMap(eventsOf), cursor: last === undefined ? cursor : String(last + 1) };
}

async function announce(account: Account, webhookUrl: string, signal: AbortSignal): Promise<void> {
  const secret_token = account.credentials["webhook_secret"];
  await ask(account, "setWebhook", { url: webhookUrl, secret_token, allowed_updates: UPDATES }, signal);
}

async function acknowledge(
  { reference }: Extract<InboundEvent, { kind: "press" }>,
  told: Readonly<{ text: string; closed: boolean }>,
  account: Account,
  signal: AbortSignal,
): Promise<void> {
  const { callback, chat, message } = JSON.parse(reference ?? "{}") as Readonly<Record<string, string | number>>;
  await call(account, "answerCallbackQuery", { callback_query_id: callback, text: told.text.slice(0, 200) }, signal);
  if (!told.closed) return;
  await call(account, "editMessageReplyMarkup", { chat_id: chat, message_id: message }, signal);
}

/** For what is no message: fails with a code. */
async function ask<T>(
  account: Account,
  method: string,
  body: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): Promise<T> {
  const answer = await call(account, method, body, signal);
  const said = answer.kind === "answer" ? asRecord(answer.text) : undefined;
  if (said?.["ok"] === true) return said["result"] as T;
  const code =
    said === undefined ? (answer.kind === "answer" ? `http_${answer.status}` : answer.code) : said["error_code"];
  throw Object.assign(new Error(`Telegram's ${method} failed`), { code: `telegram_${String(code)}` });
}
