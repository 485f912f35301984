// A URL of somebody's own, signed as Standard Webhooks 1.0 says (https://www.standardwebhooks.com): each try has the same `webhook-id`, so
// that the receiver knows what it has; that makes it once for who looks at it, and at least once for who doesn't.
import { z } from "zod";
import type { Address, Outgoing, Rendered, SendResult } from "../../core/channel.js";
import type { ChannelAdapter, SendContext } from "../channel.js";
import { publicPost } from "./public-request.js";
import { retryAfterMs, unanswered } from "./request.js";
import { hmacSha256 } from "./signature.js";

const SECRET = /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/;

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

export const webhook: ChannelAdapter = {
  kind: "webhook",
  credentials,
  settings,
  address,
  defaults: { onUnknown: "resend", timeoutMs: 20_000, perSecond: null },
  addressKey: ({ url }) => String(url),
  spacingMs: () => 0,
  render: (outgoing: Outgoing): Rendered[] => [{ kind: "event", payload: { type: "message", data: outgoing } }],
  send,
};

async function send({ payload }: Rendered, context: SendContext): Promise<SendResult> {
  const timestamp = Math.floor(Date.now() / 1_000);
  const body = JSON.stringify({ ...payload, timestamp: new Date(timestamp * 1_000).toISOString() });
  const answer = await publicPost(new URL(String(context.address["url"])), {
    headers: {
      "content-type": "application/json",
      "webhook-id": context.deliveryId,
      "webhook-timestamp": String(timestamp),
      "webhook-signature": signatures(context, timestamp, body),
    },
    body,
    signal: context.signal,
    allowPrivate: context.account.settings["allow_private_addresses"] === true,
  });
  if (answer.kind !== "answer") {
    const isForbidden = answer.code === "private_address";
    return isForbidden ? { kind: "refused", code: answer.code, unreachable: true } : unanswered(answer);
  }
  const { status, headers } = answer;
  if (status >= 200 && status < 300) return { kind: "sent", messageId: context.deliveryId };
  // Whoever says so wants no more of them.
  if (status === 410) return { kind: "refused", code: "gone", unreachable: true };
  const afterMs = retryAfterMs(headers, Date.now());
  return { kind: "not_sent", code: `http_${status}`, afterMs, spends: status !== 429 };
}

function signatures({ account, deliveryId }: SendContext, timestamp: number, body: string): string {
  const secrets = (account.credentials["signing_secret"] ?? "").split(" ");
  return secrets
    .map((secret) => Buffer.from(secret.slice("whsec_".length), "base64"))
    .map((key) => `v1,${hmacSha256(key, `${deliveryId}.${timestamp}.${body}`).toString("base64")}`)
    .join(" ");
}
