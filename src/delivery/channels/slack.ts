// Slack's Web API and Events API: https://api.slack.com/methods/chat.postMessage. It knows no key that makes a message the same one again,
// but keeps what we put into a message's metadata: so a try can be looked for in the conversation's history.
import { z } from "zod";
import type { Address, Button, InboundEvent, Outgoing, Rendered, SendResult } from "../../core/channel.js";
import type { Account, ChannelAdapter, SendContext, WebhookAnswer, WebhookRequest } from "../channel.js";
import { formed, SLACK_MRKDWN } from "./formed.js";
import { asRecord, request, retryAfterMs, unanswered } from "./request.js";
import { hmacSha256, isSame } from "./signature.js";
import { splitText } from "./split.js";

const API_ROOT = "https://slack.com/api";
/** Of a section, in characters after its markup. */
const MAX_TEXT = 3_000;
const SECOND_MS = 1_000;
/** A request that is older is somebody's who has kept it. */
const MAX_AGE_S = 300;
const EVENT_TYPE = "perdure_delivery";

const address = z.object({ channel: z.string().min(1), thread_ts: z.string().min(1).optional() }) as z.ZodType<Address>;
const credentials = z.object({
  bot_token: z.string().min(1),
  signing_secret: z.string().min(1),
  webhook_secret: z.string(),
});
const settings = z.looseObject({ api_root: z.url({ protocol: /^https?$/ }).optional() });

export const slack: ChannelAdapter = {
  kind: "slack",
  credentials,
  settings,
  address,
  defaults: { onUnknown: "reconcile", timeoutMs: 15_000, perSecond: null },
  addressKey: ({ channel, thread_ts: thread }) => (thread === undefined ? String(channel) : `${channel}/${thread}`),
  spacingMs: () => SECOND_MS,
  render,
  send: (message, context) => post(message, context, null),
  reserve: (context) => post(PLACEHOLDER, context, null),
  edit: (message, messageId, context) => post(message, context, messageId),
  findSent,
  receive,
};

function render({ text, buttons = [] }: Outgoing): Rendered[] {
  const parts = splitText(formed(text, SLACK_MRKDWN), MAX_TEXT);
  return parts.map((part, index) =>
    buttons.length > 0 && index === parts.length - 1
      ? { kind: "buttons", payload: { text: part, buttons } }
      : { kind: "text", payload: { text: part } },
  );
}

const PLACEHOLDER: Rendered = { kind: "text", payload: { text: "…" } };

/** `place`: the message that becomes this one, `<channel>/<ts>`; null: it is a new one. */
async function post({ payload }: Rendered, context: SendContext, place: string | null): Promise<SendResult> {
  const { text, buttons = [] } = payload as Readonly<{ text: string; buttons?: readonly Button[] }>;
  const { channel, thread_ts } = context.address;
  const actions = { type: "actions", elements: buttons.map(buttonOf) };
  const body = {
    ...(place === null ? { channel, ...(thread_ts !== undefined && { thread_ts }) } : editedOf(place)),
    text,
    ...(buttons.length > 0 && { blocks: [{ type: "section", text: { type: "mrkdwn", text } }, actions] }),
    metadata: { event_type: EVENT_TYPE, event_payload: { delivery_id: context.deliveryId, token: context.token } },
    ...{ unfurl_links: false, unfurl_media: false },
  };
  const answer = await call(context.account, place === null ? "chat.postMessage" : "chat.update", body, context.signal);
  if (answer.kind !== "answer") return unanswered(answer);
  if (answer.status === 429) {
    const afterMs = retryAfterMs(answer.headers, Date.now()) ?? SECOND_MS;
    return { kind: "not_sent", code: "rate_limited", afterMs, spends: false };
  }
  const said = asRecord(answer.text);
  if (said === undefined || typeof said["ok"] !== "boolean") return { kind: "unknown", code: `http_${answer.status}` };
  if (!said["ok"]) return refusalOf(String(said["error"]));
  return {
    kind: "sent",
    messageId: typeof said["ts"] === "string" ? `${String(said["channel"] ?? channel)}/${said["ts"]}` : null,
  };
}

/** An edit names the channel by the id that it was answered with. */
function editedOf(place: string) {
  const [channel = "", ts = ""] = place.split("/");
  return { channel, ts };
}

const buttonOf = ({ id, label, style }: Button) => ({
  ...{ type: "button", text: { type: "plain_text", text: label }, value: id, action_id: id },
  ...(style !== undefined && { style }),
});

const ACCOUNT =
  /^(invalid_auth|not_authed|account_inactive|token_revoked|token_expired|missing_scope|team_access_not_granted)$/;
const GONE =
  /^(channel_not_found|not_in_channel|is_archived|user_not_found|user_disabled|cannot_dm_bot|restricted_action)$/;
const PASSING = /^(ratelimited|service_unavailable|request_timeout|team_added_to_org)$/;
/** Of an edit: what stood there can't become something else any more. */
const PLACE_GONE = /^(message_not_found|cant_update_message|edit_window_closed)$/;
const UNSURE = /^(fatal_error|internal_error)$/;

function refusalOf(error: string): SendResult {
  if (ACCOUNT.test(error)) return { kind: "account_down", code: error };
  if (GONE.test(error)) return { kind: "refused", code: error, unreachable: true };
  if (PASSING.test(error)) return { kind: "not_sent", code: error, afterMs: null, spends: error !== "ratelimited" };
  // Slack says of these that the message may have been posted.
  if (PLACE_GONE.test(error)) return { kind: "not_sent", code: "place_gone", afterMs: 0, spends: true };
  if (UNSURE.test(error)) return { kind: "unknown", code: error };
  return { kind: "refused", code: /^\w{1,60}$/.test(error) ? error : "refused", unreachable: false };
}

/** Among the newest of the conversation. Without the right to read it nobody can say. */
async function findSent(context: Omit<SendContext, "silentMs">): ReturnType<NonNullable<ChannelAdapter["findSent"]>> {
  const { channel, thread_ts: ts } = context.address;
  const [method, body] =
    ts === undefined
      ? (["conversations.history", { channel, limit: 100, include_all_metadata: true }] as const)
      : (["conversations.replies", { channel, ts, limit: 100, include_all_metadata: true }] as const);
  const answer = await call(context.account, method, body, context.signal);
  const said = answer.kind === "answer" ? asRecord(answer.text) : undefined;
  if (said?.["ok"] !== true) return null;
  const messages = (said["messages"] ?? []) as readonly Readonly<{
    ts?: string;
    metadata?: Readonly<{ event_payload?: Readonly<{ delivery_id?: string }> }>;
  }>[];
  const found = messages.find(({ metadata }) => metadata?.event_payload?.delivery_id === context.deliveryId);
  return found === undefined ? "absent" : { messageId: `${String(channel)}/${found.ts ?? ""}` };
}

function call(account: Account, method: string, body: Readonly<Record<string, unknown>>, signal: AbortSignal) {
  const root = ((account.settings["api_root"] as string | undefined) ?? API_ROOT).replace(/\/+$/, "");
  return request(`${root}/${method}`, {
    method: "POST",
    headers: {
      "content-type": "application/json; charset=utf-8",
      authorization: `Bearer ${account.credentials["bot_token"]}`,
    },
    body: JSON.stringify(body),
    signal,
  });
}

type SlackEvent = Readonly<{
  type?: string;
  subtype?: string;
  bot_id?: string;
  channel?: string;
  user?: string;
  text?: string;
  ts?: string;
  thread_ts?: string;
}>;

/** https://api.slack.com/authentication/verifying-requests-from-slack */
function receive(
  { method, headers, body }: WebhookRequest,
  account: Account,
): readonly InboundEvent[] | WebhookAnswer | null {
  const timestamp = headers.get("x-slack-request-timestamp") ?? "";
  const secret = account.credentials["signing_secret"] ?? "";
  const proof = `v0=${hmacSha256(secret, `v0:${timestamp}:`, body).toString("hex")}`;
  const isFresh = Math.abs(Date.now() / 1_000 - Number(timestamp)) < MAX_AGE_S;
  if (method !== "POST" || !isFresh || !isSame(headers.get("x-slack-signature") ?? "", proof)) return null;
  const text = Buffer.from(body).toString("utf8");
  const pressed = new URLSearchParams(text).get("payload");
  if (pressed !== null) return pressesOf(asRecord(pressed) ?? {});
  const said = asRecord(text) ?? {};
  if (said["type"] === "url_verification") return { status: 200, text: String(said["challenge"] ?? "") };
  return messagesOf(String(said["event_id"] ?? ""), said["event"] ?? {});
}

/** What people write; not what bots do, edits and joins. */
function messagesOf(externalId: string, event: SlackEvent): InboundEvent[] {
  const { type, subtype, bot_id: bot, channel, user, text, ts, thread_ts: thread } = event;
  const isWritten = (type === "message" || type === "app_mention") && subtype === undefined && bot === undefined;
  if (!isWritten || externalId === "" || channel === undefined || user === undefined || text === undefined) return [];
  const at: Address = { channel, ...(thread !== undefined && { thread_ts: thread }) };
  // Seconds, with microseconds after the point.
  const place = Number((ts ?? "").replace(".", "") || Number.NaN);
  const order = Number.isSafeInteger(place) ? { place } : {};
  return [
    { kind: "message", externalId, address: at, person: { id: user }, text, messageId: ts ?? externalId, ...order },
  ];
}

function pressesOf(said: Readonly<Record<string, unknown>>): InboundEvent[] {
  const { type, user, channel, actions, message, trigger_id } = said as Readonly<{
    type?: string;
    user?: Readonly<{ id?: string; name?: string }>;
    channel?: Readonly<{ id?: string }>;
    actions?: readonly Readonly<{ value?: string; action_ts?: string }>[];
    message?: Readonly<{ ts?: string; thread_ts?: string }>;
    trigger_id?: string;
  }>;
  const [action] = actions ?? [];
  if (type !== "block_actions" || !user?.id || !channel?.id || action?.value === undefined) return [];
  const thread = message?.thread_ts;
  const at: Address = { channel: channel.id, ...(thread !== undefined && { thread_ts: thread }) };
  const externalId = trigger_id ?? `${channel.id}/${message?.ts ?? ""}/${action.action_ts ?? ""}`;
  return [
    {
      kind: "press",
      externalId,
      address: at,
      person: { id: user.id },
      id: action.value,
      reference: message?.ts ?? null,
    },
  ];
}
