// A stand-in for Slack: channels that keep what they were sent with its metadata, people who write and press, and signed requests.
import { createHmac, randomUUID } from "node:crypto";
import {
  type Answer,
  ANY_TROUBLE,
  type Connection,
  refuseUnlessOk,
  type StandIn,
  startStandIn,
  type StandInRequest,
  type StandInServer,
} from "./stand-in.js";

export type SlackMessage = Readonly<{
  channel: string;
  ts: string;
  /** Of the message that its thread hangs on. */
  threadTs: string | null;
  text: string;
  buttons: readonly Readonly<{ label: string; value: string }>[];
  metadata: unknown;
}>;

export type SlackSender = Readonly<{ channel: string; threadTs: string; userId: string }>;

const TROUBLES = {
  ...ANY_TROUBLE,
  rate_limited: { status: 429, body: { ok: false, error: "ratelimited" }, headers: { "retry-after": "1" } },
  channel_gone: { status: 200, body: { ok: false, error: "channel_not_found" } },
  unauthorized: { status: 200, body: { ok: false, error: "token_revoked" } },
  fatal_error: { status: 200, body: { ok: false, error: "fatal_error" } },
} as const;
export type SlackTrouble = keyof typeof TROUBLES;

export type SlackStandIn = StandIn<SlackTrouble> &
  StandInServer<SlackTrouble> &
  Readonly<{
    botToken: string;
    signingSecret: string;
    /** What the bot posted in a channel, in order; in all without one. */
    messages(channel?: string): readonly SlackMessage[];
    /** Somebody writes. Returns the event's id. */
    says(text: string, from?: Partial<SlackSender>): Promise<string>;
    /** Somebody presses the button of the channel's last message that has one with this label. */
    presses(label: string, from?: Partial<SlackSender>): Promise<void>;
    /** Sends an event of one's own making, signed; answers with the status. The same `eventId` is the same event again. */
    push(event: Readonly<Record<string, unknown>>, eventId?: string): Promise<number>;
  }>;

const BOT_TOKEN = "xoxb-stand-in-for-slack";
const SIGNING_SECRET = "stand-in-signing-secret";
const BOT = "UBOT";
const MAX_TEXT = 40_000;

type Posted = SlackMessage & Readonly<{ user: string }>;

/**
 * Starts one on loopback. Give its `url` as `settings.api_root` of an account, or its `account()` to the API.
 *
 * @example const slack = await startSlack(); await slack.says("hello", { channel: "C1" }); slack.messages("C1");
 */
export async function startSlack(): Promise<SlackStandIn> {
  const posted: Posted[] = [];
  let connection: Connection | null = null;
  let lastTs = 0;

  const nextTs = (): string => `1700000000.${String((lastTs += 1)).padStart(6, "0")}`;
  const methods: Readonly<Record<string, (body: StandInRequest["body"]) => Answer>> = {
    "auth.test": () => ok({ user_id: BOT, team_id: "T1" }),
    "chat.postMessage": (body) => {
      const { channel, text, thread_ts: thread, metadata = null } = body;
      if (typeof channel !== "string" || channel === "") return refusal("channel_not_found");
      if (typeof text !== "string" || text === "") return refusal("no_text");
      if (text.length > MAX_TEXT) return refusal("msg_too_long");
      const threadTs = (thread as string | undefined) ?? null;
      const message = { channel, ts: nextTs(), threadTs, text, buttons: buttonsOf(body), metadata, user: BOT };
      posted.push(message);
      return ok({ channel, ts: message.ts, message: shown(message, true) });
    },
    "chat.update": (body) => {
      const at = posted.findIndex(({ channel, ts }) => channel === body["channel"] && ts === body["ts"]);
      const message = posted[at];
      if (message === undefined) return refusal("message_not_found");
      posted[at] = { ...message, text: String(body["text"] ?? message.text), buttons: buttonsOf(body) };
      return ok({ channel: message.channel, ts: message.ts });
    },
    "conversations.history": ({ channel, limit = 100, include_all_metadata: all }) => {
      const found = posted.filter((message) => message.channel === channel && message.threadTs === null);
      return ok({ messages: newest(found, limit).map((message) => shown(message, all === true)) });
    },
    "conversations.replies": ({ channel, ts, limit = 100, include_all_metadata: all }) => {
      const isIn = (message: Posted) =>
        message.channel === channel && [message.threadTs, message.ts].includes(String(ts));
      return ok({ messages: newest(posted.filter(isIn), limit).map((message) => shown(message, all === true)) });
    },
  };
  const server = await startStandIn(
    ({ path, headers, body }) => {
      if (headers.authorization !== `Bearer ${BOT_TOKEN}`) return refusal("invalid_auth");
      return methods[path.slice(1)]?.(body) ?? refusal("unknown_method");
    },
    { troubles: TROUBLES, sends: ({ path }) => path === "/chat.postMessage" },
  );

  const request = async (body: string, contentType: string): Promise<Response> => {
    if (connection === null) throw new Error("the stand-in for Slack is not connected to an account");
    const timestamp = String(Math.floor(Date.now() / 1_000));
    const proof = createHmac("sha256", SIGNING_SECRET).update(`v0:${timestamp}:${body}`).digest("hex");
    const headers = {
      "content-type": contentType,
      "x-slack-request-timestamp": timestamp,
      "x-slack-signature": `v0=${proof}`,
    };
    const { fetch = globalThis.fetch, webhookUrl } = connection;
    return fetch(webhookUrl, { method: "POST", headers, body });
  };
  const json = (value: unknown): Promise<Response> => request(JSON.stringify(value), "application/json");
  const event = (inner: object, eventId: string): Promise<Response> =>
    json({ type: "event_callback", team_id: "T1", event_id: eventId, event: inner });
  return {
    ...server,
    ...{ kind: "slack", botToken: BOT_TOKEN, signingSecret: SIGNING_SECRET },
    messages: (channel) =>
      posted.filter((each) => each.user === BOT && (channel === undefined || each.channel === channel)),
    account: (assistantId, settings = {}) => ({
      ...{ kind: "slack", name: "slack stand-in" },
      credentials: { bot_token: BOT_TOKEN, signing_secret: SIGNING_SECRET },
      settings: { api_root: server.url, assistant_id: assistantId, ...settings },
    }),
    async connect(to) {
      connection = to;
      const challenge = randomUUID();
      const response = await json({ type: "url_verification", challenge });
      const said = await response.text();
      if (!response.ok || said !== challenge)
        throw new Error(`the webhook failed Slack's handshake (${response.status})`);
    },
    push: async (inner, eventId = `Ev${randomUUID()}`) => (await event(inner, eventId)).status,
    async says(text, { channel = "C1", threadTs, userId = "U1" } = {}) {
      const eventId = `Ev${randomUUID()}`;
      const message = { channel, ts: nextTs(), text, user: userId };
      posted.push({ ...message, threadTs: threadTs ?? null, buttons: [], metadata: null });
      const inner = { type: "message", ...message, ...(threadTs !== undefined && { thread_ts: threadTs }) };
      await refuseUnlessOk(await event(inner, eventId));
      return eventId;
    },
    async presses(label, { channel = "C1", userId = "U1" } = {}) {
      const asked = posted.findLast(
        (each) => each.channel === channel && each.buttons.some((button) => button.label === label),
      );
      const button = asked?.buttons.find((each) => each.label === label);
      if (asked === undefined || button === undefined) throw new Error(`channel ${channel} has no button "${label}"`);
      const payload = {
        ...{ type: "block_actions", trigger_id: `Tr${randomUUID()}`, user: { id: userId, name: "ada" } },
        ...{ channel: { id: channel }, actions: [{ type: "button", value: button.value, action_id: button.value }] },
        message: { ts: asked.ts, ...(asked.threadTs !== null && { thread_ts: asked.threadTs }) },
      };
      const form = new URLSearchParams({ payload: JSON.stringify(payload) }).toString();
      await refuseUnlessOk(await request(form, "application/x-www-form-urlencoded"));
    },
  };
}

const ok = (result: object): Answer => ({ body: { ok: true, ...result } });
const refusal = (error: string): Answer => ({ body: { ok: false, error } });

/** Newest first, as Slack lists them. */
const newest = (messages: readonly Posted[], limit: unknown): readonly Posted[] =>
  messages.slice(-Number(limit)).reverse();

/** Metadata only for who asks for it. */
function shown({ ts, threadTs, text, user, metadata }: Posted, withMetadata: boolean) {
  return {
    ...{ type: "message", ts, text, user },
    ...(threadTs !== null && { thread_ts: threadTs }),
    ...(withMetadata && metadata !== null && { metadata }),
  };
}

type Block = Readonly<{
  type: string;
  elements?: readonly Readonly<{ type: string; value?: string; text?: Readonly<{ text?: string }> }>[];
}>;

function buttonsOf({ blocks }: StandInRequest["body"]): SlackMessage["buttons"] {
  const all = ((blocks ?? []) as readonly Block[]).flatMap(({ elements = [] }) => elements);
  return all
    .filter(({ type }) => type === "button")
    .map(({ value = "", text = {} }) => ({ label: text.text ?? "", value }));
}
