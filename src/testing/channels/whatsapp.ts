// A stand-in for WhatsApp's Cloud API: people with a window of 24 hours, receipts that come late, twice, in any order or never, and signed
// webhooks.
import { createHmac, randomUUID } from "node:crypto";
import {
  type Answer,
  ANY_TROUBLE,
  type Connection,
  refuseUnlessOk,
  type StandIn,
  startStandIn,
  type StandInServer,
} from "./stand-in.js";

export type WhatsAppMessage = Readonly<{
  id: string;
  to: string;
  type: "text" | "interactive" | "template";
  /** Of a text or a question; the template's name. */
  text: string;
  buttons: readonly Readonly<{ id: string; title: string }>[];
  /** Which try of which message it is, as it was said. */
  token: string | null;
}>;

export type Receipts = Readonly<{
  /** Which are told of; by default sent and delivered. */
  statuses?: readonly ("sent" | "delivered" | "read" | "failed")[];
  delayMs?: number;
  /** Each comes so often. */
  times?: number;
  /** Of a failure. */
  errorCode?: number;
}>;

const TROUBLES = {
  ...ANY_TROUBLE,
  rate_limited: refusal(130_429, "Rate limit hit", 429),
  pair_limited: refusal(131_056, "Too many messages to this person"),
  window_closed: refusal(131_047, "Re-engagement message"),
  unreachable: refusal(131_026, "Message undeliverable"),
  unauthorized: refusal(190, "Invalid OAuth access token", 401),
} as const;
export type WhatsAppTrouble = keyof typeof TROUBLES;

export type WhatsAppStandIn = StandIn<WhatsAppTrouble> &
  StandInServer<WhatsAppTrouble> &
  Readonly<{
    accessToken: string;
    appSecret: string;
    phoneNumberId: string;
    /** What arrived with a person, in order; with all without one. */
    messages(phone?: string): readonly WhatsAppMessage[];
    /** Where webhooks go; they are signed. */
    webhook(url: string): void;
    /** Somebody writes; one whose name has letters in it (`US.1349…`) has hidden their number, and is known by that id alone. */
    says(text: string, phone?: string, id?: string): Promise<number>;
    /** Presses the button with this title (a template's: its first) of the newest message that has one. */
    presses(title: string, phone?: string): Promise<number>;
    /** How it tells of what it was sent, from now on. */
    receipts(how: Receipts): void;
    /** Whether a person's window is open; it is as soon as they write, and for 24 hours by the time it was connected with. */
    window(phone: string, open: boolean): void;
  }>;

const ACCESS_TOKEN = "stand-in-access-token";
const APP_SECRET = "stand-in-app-secret";
const PHONE_NUMBER_ID = "100200300";
const VERIFY_TOKEN = "stand-in-verify-token";
const WINDOW_MS = 24 * 60 * 60_000;
const MAX_TEXT = 4_096;
const MAX_QUESTION = 1_024;
const MAX_BUTTONS = 3;
const MAX_TITLE = 20;
const MAX_ID = 256;

/** Starts one on loopback. Give its `url` as `settings.api_root`, and the rest as the account's credentials and settings. */
export async function startWhatsApp(): Promise<WhatsAppStandIn> {
  const messages: WhatsAppMessage[] = [];
  const closed = new Set<string>();
  const timers = new Set<NodeJS.Timeout>();
  const wroteAt = new Map<string, number>();
  let connection: Connection | null = null;
  let receipts: Receipts = {};

  const push = async (value: Readonly<Record<string, unknown>>): Promise<number> => {
    if (connection === null) return 0;
    const { fetch = globalThis.fetch, webhookUrl } = connection;
    const body = JSON.stringify({
      object: "whatsapp_business_account",
      entry: [{ id: "1", changes: [{ field: "messages", value }] }],
    });
    const signature = `sha256=${createHmac("sha256", APP_SECRET).update(body).digest("hex")}`;
    const headers = { "content-type": "application/json", "x-hub-signature-256": signature };
    return (await fetch(webhookUrl, { method: "POST", headers, body })).status;
  };
  const tell = ({ id, to, token }: WhatsAppMessage): void => {
    const { statuses = ["sent", "delivered"], delayMs = 0, times = 1, errorCode = 131_026 } = receipts;
    for (const status of Array.from({ length: times }, () => statuses).flat()) {
      const timer = setTimeout(() => {
        timers.delete(timer);
        const errors = status === "failed" ? { errors: [{ code: errorCode, title: "failed" }] } : {};
        const callback = token === null ? {} : { biz_opaque_callback_data: token };
        void push({ statuses: [{ id, status, timestamp: "0", recipient_id: to, ...callback, ...errors }] }).catch(
          () => undefined,
        );
      }, delayMs);
      timers.add(timer);
    }
  };
  const timeMs = async (): Promise<number> => (await connection?.now?.())?.getTime() ?? Date.now();
  const take = async (body: Readonly<Record<string, unknown>>): Promise<Answer> => {
    const { to, recipient, type, biz_opaque_callback_data: token } = body;
    const phone = String(to ?? recipient);
    const silentMs = (await timeMs()) - (wroteAt.get(phone) ?? Number.NEGATIVE_INFINITY);
    if (type !== "template" && (closed.has(phone) || (wroteAt.has(phone) && silentMs > WINDOW_MS)))
      return refusal(131_047, "Re-engagement message");
    const message = {
      id: `wamid.${randomUUID()}`,
      to: phone,
      token: (token as string | undefined) ?? null,
      ...contentOf(body),
    };
    const most = message.type === "interactive" ? MAX_QUESTION : MAX_TEXT;
    if (message.text.length > most) return refusal(100, `The text must be at most ${most} characters long`);
    if (type === "interactive" && !areShort(message.buttons)) return refusal(131_009, "Invalid buttons");
    messages.push(message);
    tell(message);
    return {
      body: {
        messaging_product: "whatsapp",
        contacts: [{ input: phone, wa_id: phone }],
        messages: [{ id: message.id }],
      },
    };
  };
  const server = await startStandIn(
    ({ path, headers, body }) => {
      if (headers.authorization !== `Bearer ${ACCESS_TOKEN}`) return refusal(190, "Invalid OAuth access token", 401);
      return path.endsWith(`/${PHONE_NUMBER_ID}/messages`) ? take(body) : refusal(100, "Unsupported request", 404);
    },
    { troubles: TROUBLES },
  );
  const writes = async (phone: string, message: Readonly<Record<string, unknown>>): Promise<number> => {
    closed.delete(phone);
    wroteAt.set(phone, await timeMs());
    const isHidden = /[a-z]/i.test(phone);
    const contact = isHidden ? { user_id: phone } : { wa_id: phone };
    const sender = isHidden ? { from_user_id: phone } : { from: phone };
    return push({
      contacts: [{ ...contact, profile: { name: "Ada" } }],
      messages: [{ ...sender, timestamp: "0", ...message }],
    });
  };
  return {
    ...server,
    ...{ accessToken: ACCESS_TOKEN, appSecret: APP_SECRET, phoneNumberId: PHONE_NUMBER_ID },
    messages: (phone) => messages.filter(({ to }) => phone === undefined || to === phone),
    kind: "whatsapp",
    account: (assistantId, settings = {}) => ({
      ...{ kind: "whatsapp", name: "whatsapp stand-in" },
      credentials: { access_token: ACCESS_TOKEN, app_secret: APP_SECRET, webhook_secret: VERIFY_TOKEN },
      settings: {
        ...{ api_root: server.url, phone_number_id: PHONE_NUMBER_ID, assistant_id: assistantId },
        ...settings,
      },
    }),
    async connect(to) {
      connection = to;
      const { fetch = globalThis.fetch, webhookUrl } = to;
      const url = new URL(webhookUrl);
      url.search = new URLSearchParams({
        ...{ "hub.mode": "subscribe", "hub.verify_token": VERIFY_TOKEN, "hub.challenge": "1158201444" },
      }).toString();
      await refuseUnlessOk(await fetch(url));
    },
    webhook: (url) => void (connection = { webhookUrl: url }),
    says: (text, phone = "15550001", id = `wamid.${randomUUID()}`) =>
      writes(phone, { id, type: "text", text: { body: text } }),
    presses(title, phone = "15550001") {
      const asked = messages.findLast(
        ({ to, buttons }) => to === phone && buttons.some((button) => button.title === title),
      );
      const button = asked?.buttons.find((each) => each.title === title);
      if (asked === undefined || button === undefined) throw new Error(`${phone} has no button "${title}"`);
      const id = `wamid.${randomUUID()}`;
      const pressed =
        asked.type === "template"
          ? { type: "button", button: { payload: button.id, text: title } }
          : { type: "interactive", interactive: { type: "button_reply", button_reply: button } };
      return writes(phone, { id, context: { id: asked.id }, ...pressed });
    },
    receipts: (how) => void (receipts = how),
    window: (phone, open) => void (open ? closed.delete(phone) : closed.add(phone)),
    close() {
      for (const timer of timers) clearTimeout(timer);
      return server.close();
    },
  };
}

function contentOf(body: Readonly<Record<string, unknown>>): Pick<WhatsAppMessage, "type" | "text" | "buttons"> {
  const { type, text, interactive, template } = body as Readonly<{
    type: string;
    text?: Readonly<{ body: string }>;
    interactive?: Readonly<{
      body: Readonly<{ text: string }>;
      action: Readonly<{ buttons: readonly Readonly<{ reply: Readonly<{ id: string; title: string }> }>[] }>;
    }>;
    template?: Readonly<{
      name: string;
      components?: readonly Readonly<{ type: string; parameters: readonly Readonly<{ payload?: string }>[] }>[];
    }>;
  }>;
  if (type === "interactive") {
    return {
      type,
      text: interactive?.body.text ?? "",
      buttons: (interactive?.action.buttons ?? []).map(({ reply }) => reply),
    };
  }
  if (type === "template") {
    const quick = (template?.components ?? []).filter((component) => component.type === "button");
    const buttons = quick.map(({ parameters }) => ({ id: parameters[0]?.payload ?? "", title: "Show me" }));
    return { type, text: template?.name ?? "", buttons };
  }
  return { type: "text", text: text?.body ?? "", buttons: [] };
}

const areShort = (buttons: WhatsAppMessage["buttons"]): boolean =>
  buttons.length <= MAX_BUTTONS && buttons.every(({ id, title }) => id.length <= MAX_ID && title.length <= MAX_TITLE);

function refusal(code: number, message: string, status = 400) {
  return { status, body: { error: { message, type: "OAuthException", code, fbtrace_id: "0" } } };
}
