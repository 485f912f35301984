// A URL of somebody's own, signed as Standard Webhooks 1.0 says (https://www.standardwebhooks.com): each try has the same `webhook-id`, so
// that the receiver knows what it has; that makes it once for who looks at it, and at least once for who doesn't.
import { z } from "zod";
import type { Address, Outgoing, Rendered, SendResult } from "../../core/channel.js";
import type { ChannelAdapter, SendContext } from "../channel.js";
import { publicPost } from "./public-request.js";
import { type ProviderAnswer, retryAfterMs, unanswered } from "./request.js";
import { hmacSha256 } from "./signature.js";

/** Of Standard Webhooks: 24 to 64 bytes in base64. */
export const SECRET = /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/;

const address = z.object({ url: z.url({ protocol: /^https?$/ }) }) as unknown as z.ZodType<Address>;
const credentials = z.object({
  /** `whsec_` and 24 to 64 bytes in base64; two, separated by a space, while one takes the other's place. */
  signing_secret: z
    .string()
    .refine((text) => text.split(" ").every((part) => SECRET.test(part)), "whsec_ and 24 to 64 bytes in base64"),
  webhook_secret: z.string(),
});
const settings = z.looseObject({
  /** For receivers in one's own network, and for tests. */
  allow_private_addresses: z.boolean().optional(),
});

const [SECOND_MS, MINUTE_MS, HOUR_MS] = [1_000, 60_000, 3_600_000];
/** As Standard Webhooks recommends: over three days. */
export const PAUSES_MS: readonly number[] = [
  ...[5 * SECOND_MS, 5 * MINUTE_MS, 30 * MINUTE_MS],
  ...[2, 5, 10, 14, 20, 24].map((hours) => hours * HOUR_MS),
];

export const webhook: ChannelAdapter = {
  kind: "webhook",
  credentials,
  settings,
  address,
  defaults: { onUnknown: "resend", timeoutMs: 20_000, perSecond: null, pausesMs: PAUSES_MS, manyProviders: true },
  addressKey: ({ url }) => String(url),
  spacingMs: () => 0,
  render: (outgoing: Outgoing): Rendered[] => [{ kind: "event", payload: { type: "message", data: outgoing } }],
  send,
};

function send({ payload }: Rendered, context: SendContext): Promise<SendResult> {
  const now = new Date();
  const { account, address: to } = context;
  const message = {
    body: { ...payload, timestamp: now.toISOString() },
    now,
    secrets: (account.credentials["signing_secret"] ?? "").split(" "),
    headers: {},
  };
  const allowPrivate = account.settings["allow_private_addresses"] === true;
  return sendSigned(context, message, (request) =>
    publicPost(new URL(String(to["url"])), { ...request, allowPrivate }),
  );
}

export type SignedRequest = Readonly<{ headers: Readonly<Record<string, string>>; body: string; signal: AbortSignal }>;

/** One try to tell a receiver; without secrets it isn't signed. */
export async function sendSigned(
  { deliveryId, signal }: Pick<SendContext, "deliveryId" | "signal">,
  told: Readonly<{
    body: Readonly<Record<string, unknown>>;
    now: Date;
    secrets: readonly string[];
    headers: Readonly<Record<string, string>>;
  }>,
  post: (request: SignedRequest) => Promise<ProviderAnswer>,
): Promise<SendResult> {
  const timestamp = Math.floor(told.now.getTime() / 1_000);
  const body = JSON.stringify(told.body);
  const signature = signatures(told.secrets, `${deliveryId}.${timestamp}.${body}`);
  const answer = await post({
    headers: {
      ...told.headers,
      "content-type": "application/json",
      "webhook-id": deliveryId,
      "webhook-timestamp": String(timestamp),
      ...(signature !== "" && { "webhook-signature": signature }),
    },
    body,
    signal,
  });
  if (answer.kind !== "answer") {
    const isForbidden = answer.code === "private_address";
    return isForbidden ? { kind: "refused", code: answer.code, unreachable: true } : unanswered(answer);
  }
  const { status, headers } = answer;
  if (status >= 200 && status < 300) return { kind: "sent", messageId: deliveryId };
  // Whoever says so wants no more of them.
  if (status === 410) return { kind: "refused", code: "gone", unreachable: true };
  const afterMs = retryAfterMs(headers, Date.now());
  return { kind: "not_sent", code: `http_${status}`, afterMs, spends: status !== 429 };
}

function signatures(secrets: readonly string[], signed: string): string {
  return secrets
    .map((secret) => Buffer.from(secret.slice("whsec_".length), "base64"))
    .map((key) => `v1,${hmacSha256(key, signed).toString("base64")}`)
    .join(" ");
}
