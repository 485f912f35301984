// A stand-in for Telegram's Bot API: chats that hold what they were sent, people who write and press, and the API's own refusals.
import {
  type Answer,
  ANY_TROUBLE,
  type Connection,
  type StandIn,
  startStandIn,
  type StandInRequest,
  type StandInServer,
} from "./stand-in.js";

export type TelegramMessage = Readonly<{
  messageId: number;
  chatId: number | string;
  threadId: number | null;
  /** As the person reads it: without markup. */
  text: string;
  buttons: readonly Readonly<{ text: string; data: string }>[];
}>;

const TROUBLES = {
  ...ANY_TROUBLE,
  rate_limited: { status: 429, body: refused(429, "Too Many Requests: retry after 1", { retry_after: 1 }) },
  blocked: { status: 403, body: refused(403, "Forbidden: bot was blocked by the user") },
  chat_gone: { status: 400, body: refused(400, "Bad Request: chat not found") },
  unparsable: { status: 400, body: refused(400, "Bad Request: can't parse entities: Unclosed start tag") },
  migrated: {
    status: 400,
    body: refused(400, "Bad Request: group chat was upgraded to a supergroup chat", { migrate_to_chat_id: -1009 }),
  },
  unauthorized: { status: 401, body: refused(401, "Unauthorized") },
} as const;
export type TelegramTrouble = keyof typeof TROUBLES;

export type TelegramStandIn = StandIn<TelegramTrouble> &
  StandInServer<TelegramTrouble> &
  Readonly<{
    /** A bot's token that it knows. */
    token: string;
    /** What arrived in a chat, in order; all chats without one. */
    messages(chatId?: number | string): readonly TelegramMessage[];
    /** Somebody writes: pushed to the bot's webhook, or kept for its poll. Returns the update's id. */
    says(text: string, from?: Partial<Sender>): Promise<number>;
    /** Somebody presses the button of the chat's last message that has one with this label. */
    presses(label: string, from?: Partial<Sender>): Promise<number>;
    /** Sends an update of one's own making; answers with the status of the webhook, null when there is none. */
    push(update: Readonly<Record<string, unknown>>): Promise<number | null>;
    /** Old servers don't know rich messages. */
    knowsRich(knows: boolean): void;
  }>;

export type Sender = Readonly<{ chatId: number; threadId: number; userId: number; name: string; locale: string }>;

const MAX_TEXT = 4_096;
const MAX_RICH = 32_768;
const TOKEN = "1000:stand-in-for-telegram";
const WEBHOOK_SECRET = "stand-in-webhook-secret";

/**
 * Starts one on loopback. Give its `url` as `settings.api_root` of an account, and its `token` as the account's.
 *
 * @example const telegram = await startTelegram(); await telegram.says("hello"); telegram.messages();
 */
export async function startTelegram(): Promise<TelegramStandIn> {
  const messages: TelegramMessage[] = [];
  const updates: Readonly<{ update_id: number }>[] = [];
  let webhook: Readonly<{ url: string; secret: string }> | null = null;
  let knowsRich = true;
  let said = "";
  let reach: NonNullable<Connection["fetch"]> = globalThis.fetch;
  // Higher than with a stand-in that the same account had before: it would take them for repetitions.
  let [lastUpdate, lastMessage] = [Date.now(), 0];

  const deliver = (body: StandInRequest["body"], text: string): Answer => {
    const { chat_id: chatId, message_thread_id: threadId, reply_markup: markup } = body;
    if (text === "") return refusal(400, "Bad Request: message text is empty");
    lastMessage += 1;
    const keyboard =
      (markup as { inline_keyboard?: readonly (readonly RawButton[])[] } | undefined)?.inline_keyboard ?? [];
    messages.push({
      messageId: lastMessage,
      chatId: chatId as number | string,
      threadId: (threadId as number | undefined) ?? null,
      text,
      buttons: keyboard.flat().map((button) => ({ text: button.text, data: button.callback_data })),
    });
    return ok({ message_id: lastMessage, chat: { id: chatId }, date: 0, text });
  };
  const methods: Readonly<Record<string, (body: StandInRequest["body"]) => Answer | Promise<Answer>>> = {
    getMe: () => ok({ id: 1000, is_bot: true, first_name: "Stand-in" }),
    sendMessage: (body) => {
      const text = readable(String(body["text"] ?? ""), body["parse_mode"]);
      if (text === undefined) return refusal(400, "Bad Request: can't parse entities: Unclosed start tag");
      return text.length > MAX_TEXT ? refusal(400, "Bad Request: message is too long") : deliver(body, text);
    },
    sendRichMessage: (body) => {
      if (!knowsRich) return refusal(404, "Not Found: method not found");
      const { markdown = "" } = (body["rich_message"] ?? {}) as { markdown?: string };
      return markdown.length > MAX_RICH ? refusal(400, "Bad Request: message is too long") : deliver(body, markdown);
    },
    editMessageText: (body) => {
      const at = messages.findIndex(({ messageId }) => messageId === body["message_id"]);
      const message = messages[at];
      if (message === undefined) return refusal(400, "Bad Request: message to edit not found");
      const rich = (body["rich_message"] as { markdown?: string } | undefined)?.markdown;
      const text = rich ?? readable(String(body["text"] ?? ""), body["parse_mode"]) ?? "";
      if (text === message.text) return refusal(400, "Bad Request: message is not modified");
      messages[at] = { ...message, text };
      return ok({ message_id: message.messageId });
    },
    editMessageReplyMarkup: (body) => {
      const at = messages.findIndex(({ messageId }) => messageId === body["message_id"]);
      if (messages[at] !== undefined) messages[at] = { ...messages[at], buttons: [] };
      return ok(true);
    },
    answerCallbackQuery: () => ok(true),
    setWebhook: ({ url, secret_token: secret }) => {
      webhook = { url: String(url), secret: String(secret ?? "") };
      return ok(true);
    },
    deleteWebhook: () => {
      webhook = null;
      return ok(true);
    },
    getUpdates: async ({ offset = 0, timeout = 0 }) => {
      for (let waited = 0; ; waited += 20) {
        const found = updates.filter(({ update_id: id }) => id >= Number(offset));
        if (found.length > 0 || waited >= Number(timeout) * 1_000) return ok(found.slice(0, 100));
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
  };
  const server = await startStandIn(
    (request) => {
      const [, token, method = ""] = /^\/bot([^/]+)\/(\w+)$/.exec(request.path) ?? [];
      if (token !== TOKEN) return refusal(401, "Unauthorized");
      return methods[method]?.(request.body) ?? refusal(404, "Not Found: method not found");
    },
    { troubles: TROUBLES, sends: ({ path }) => /\/send\w+$/.test(path) },
  );
  const push = async (update: Readonly<Record<string, unknown>>): Promise<number | null> => {
    if (webhook === null) {
      updates.push(update as Readonly<{ update_id: number }>);
      return null;
    }
    const response = await reach(webhook.url, {
      method: "POST",
      headers: { "content-type": "application/json", "x-telegram-bot-api-secret-token": webhook.secret },
      body: JSON.stringify(update),
    });
    said = response.ok ? "" : `${response.status} ${await response.text()}`;
    return response.status;
  };
  /** Telegram would try again, later. */
  const pushOrThrow = async (update: Readonly<Record<string, unknown>>): Promise<void> => {
    await push(update);
    if (said !== "") throw new Error(`the webhook of the bot answered ${said}`);
  };
  const userOf = ({ userId = 1, name = "Ada", locale = "en" }: Partial<Sender>) => ({
    id: userId,
    is_bot: false,
    first_name: name,
    language_code: locale,
  });
  const placeOf = ({ chatId = 1, threadId }: Partial<Sender>) => ({
    chat: { id: chatId, type: chatId > 0 ? "private" : "supergroup" },
    ...(threadId !== undefined && { message_thread_id: threadId, is_topic_message: true }),
  });
  return {
    ...server,
    ...{ kind: "telegram", token: TOKEN },
    account: (assistantId, settings = {}) => ({
      ...{ kind: "telegram", name: "telegram stand-in" },
      credentials: { token: TOKEN, webhook_secret: WEBHOOK_SECRET },
      settings: { api_root: server.url, assistant_id: assistantId, ...settings },
    }),
    connect({ webhookUrl, fetch = globalThis.fetch }) {
      webhook = { url: webhookUrl, secret: WEBHOOK_SECRET };
      reach = fetch;
      return Promise.resolve();
    },
    messages: (chatId) => messages.filter((message) => chatId === undefined || message.chatId === chatId),
    push,
    async says(text, from = {}) {
      lastUpdate += 1;
      lastMessage += 1;
      const message = { message_id: lastMessage, date: 0, from: userOf(from), ...placeOf(from), text };
      await pushOrThrow({ update_id: lastUpdate, message });
      return lastUpdate;
    },
    async presses(label, from = {}) {
      const { chatId = 1 } = from;
      const asked = messages.findLast(
        (each) => each.chatId === chatId && each.buttons.some(({ text }) => text === label),
      );
      const data = asked?.buttons.find(({ text }) => text === label)?.data;
      if (asked === undefined || data === undefined) throw new Error(`chat ${chatId} has no button "${label}"`);
      lastUpdate += 1;
      const message = { message_id: asked.messageId, date: 0, ...placeOf(from) };
      await pushOrThrow({
        update_id: lastUpdate,
        callback_query: { id: `q${lastUpdate}`, from: userOf(from), data, message },
      });
      return lastUpdate;
    },
    knowsRich: (knows) => void (knowsRich = knows),
  };
}

type RawButton = Readonly<{ text: string; callback_data: string }>;

const ok = (result: unknown): Answer => ({ body: { ok: true, result } });
const refusal = (status: number, description: string): Answer => ({ status, body: refused(status, description) });

function refused(code: number, description: string, parameters?: Readonly<Record<string, number>>) {
  return { ok: false, error_code: code, description, ...(parameters !== undefined && { parameters }) };
}

const TAG = /<\/?([a-z]+)(?:\s[^<>]*)?>/g;
const KNOWN = new Set(["b", "i", "s", "u", "code", "pre", "a", "blockquote"]);

/** The text without its markup; undefined when it can't be parsed. */
function readable(text: string, mode: unknown): string | undefined {
  if (mode !== "HTML") return text;
  const open: string[] = [];
  for (const [tag, name = ""] of text.matchAll(TAG)) {
    if (!KNOWN.has(name)) return undefined;
    if (!tag.startsWith("</")) open.push(name);
    else if (open.pop() !== name) return undefined;
  }
  const bare = text.replaceAll(TAG, "");
  if (open.length > 0 || /[<>]/.test(bare) || /&(?!(?:amp|lt|gt|quot);)/.test(bare)) return undefined;
  return bare.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&amp;", "&");
}
