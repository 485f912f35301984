// Tells who asked for it that a run is over: the channel of completion webhooks. It has no account of anybody's: what it signs with, and
// where it may go, is the installation's.
import { z } from "zod";
import type { Rendered, SendResult } from "../../core/channel.js";
import { EngineError } from "../../core/errors.js";
import type { ChannelAdapter, SendContext } from "../channel.js";
import { isPrivateAddress } from "./public-request.js";
import { PAUSES_MS, SECRET, sendSigned } from "./webhook.js";

export const RUN_WEBHOOK = "run_webhook";
const MAX_URL_LENGTH = 4_096;

/** Where webhooks may go, and what they bring; as `webhooks` of a langgraph.json says it. */
export type WebhookRules = Readonly<{
  /** Added to each. */
  headers: Readonly<Record<string, string>>;
  requireHttps: boolean;
  /** Names, or `*.name` for all below one; null: any. */
  allowedDomains: readonly string[] | null;
  allowedPorts: readonly number[] | null;
  maxUrlLength: number;
}>;

export const ANY_WEBHOOK: WebhookRules = {
  ...{ headers: {}, requireHttps: false, allowedDomains: null, allowedPorts: null, maxUrlLength: MAX_URL_LENGTH },
};

export type RunWebhookOptions = Readonly<{
  rules: WebhookRules;
  /** `whsec_…`, or several while one takes another's place; without one they are not signed. */
  secrets: readonly string[];
  /** For receivers in one's own network. */
  allowPrivate: boolean;
}>;

/** Throws `config_invalid` for a secret that none could verify with. */
export function createRunWebhook({ rules, secrets, allowPrivate }: RunWebhookOptions): ChannelAdapter {
  if (secrets.some((secret) => !SECRET.test(secret))) {
    throw new EngineError("config_invalid", "PERDURE_WEBHOOK_SECRET: must be whsec_ and 24 to 64 bytes in base64");
  }
  return {
    kind: RUN_WEBHOOK,
    credentials: z.object({}),
    settings: z.object({}),
    address: z.object({ url: z.string() }),
    defaults: { onUnknown: "resend", timeoutMs: 20_000, perSecond: null, pausesMs: PAUSES_MS, manyProviders: true },
    addressKey: ({ url }) => String(url),
    spacingMs: () => 0,
    render: (outgoing): Rendered[] => [{ kind: "event", payload: { ...outgoing } }],
    send: ({ payload }: Rendered, context: SendContext): Promise<SendResult> => {
      const now = new Date();
      // The rules may have become others since it was asked for.
      const why = whyNot(String(context.address["url"]), rules, allowPrivate);
      if (why !== undefined) return Promise.resolve({ kind: "refused", code: "url_not_allowed", unreachable: false });
      const body = { ...payload, webhook_sent_at: now.toISOString() };
      return sendSigned(context, { body, now, secrets, headers: rules.headers, allowPrivate });
    },
  };
}

/** What is wrong with a URL for webhooks, as far as it can be seen without asking for its address; undefined: nothing. */
export function whyNot(text: string, rules: WebhookRules, allowPrivate: boolean): string | undefined {
  if (text.length > rules.maxUrlLength) return `must not be longer than ${rules.maxUrlLength} characters`;
  if (text.startsWith("/")) return "must be a whole URL: this server has no routes of your own";
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol)) return "must be a URL like https://host/path";
  if (rules.requireHttps && url.protocol !== "https:") return "must be https";
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (!allowPrivate && (host === "localhost" || host.endsWith(".localhost") || isPrivateLiteral(host))) {
    return "must not lead into a private network (PERDURE_WEBHOOK_PRIVATE allows it)";
  }
  if (rules.allowedDomains?.some((domain) => isWithin(host, domain)) === false) return `must not go to ${host}`;
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  return rules.allowedPorts?.includes(port) === false ? `must not go to port ${port}` : undefined;
}

/** A name may lead anywhere; what it leads to is judged when it is asked for. */
const isPrivateLiteral = (host: string): boolean => /^[\d.]+$|:/.test(host) && isPrivateAddress(host);

function isWithin(host: string, domain: string): boolean {
  return domain.startsWith("*.") ? host.endsWith(domain.slice(1)) : host === domain.toLowerCase();
}
