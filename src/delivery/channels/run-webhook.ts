// Tells who asked for it that a run is over: the channel of completion webhooks. It has no account of anybody's: what it signs with, and
// where it may go, is the installation's.
import { z } from "zod";
import type { Rendered, SendResult } from "../../core/channel.js";
import { EngineError } from "../../core/errors.js";
import type { ChannelAdapter, SendContext } from "../channel.js";
import { isPrivateAddress, publicPost } from "./public-request.js";
import type { ProviderAnswer } from "./request.js";
import { PAUSES_MS, SECRET, sendSigned, type SignedRequest } from "./webhook.js";

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
  /** Whether a path, like `/done`, is a route of the project's own. */
  loopback: boolean;
  /** Whether none is told at all. */
  off: boolean;
}>;

/** The project's own routes, for webhooks that are told there. */
export type OwnRoutes = Readonly<{
  /** Whether one of them takes a POST at this path. */
  takes(path: string): boolean;
  post(path: string, request: SignedRequest): Promise<ProviderAnswer>;
}>;

export const ANY_WEBHOOK: WebhookRules = {
  ...{ headers: {}, requireHttps: false, allowedDomains: null, allowedPorts: null, maxUrlLength: MAX_URL_LENGTH },
  ...{ loopback: true, off: false },
};

export type RunWebhookOptions = Readonly<{
  rules: WebhookRules;
  /** `whsec_…`, or several while one takes another's place; without one they are not signed. */
  secrets: readonly string[];
  /** For receivers in one's own network. */
  allowPrivate: boolean;
  /** Null: there are none. */
  ownRoutes: OwnRoutes | null;
}>;

/** Throws `config_invalid` for a secret that none could verify with. */
export function createRunWebhook(options: RunWebhookOptions): ChannelAdapter {
  const { rules, secrets, ownRoutes } = options;
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
      const url = String(context.address["url"]);
      const why = whyNot(url, options);
      if (why !== undefined) return Promise.resolve({ kind: "refused", code: "url_not_allowed", unreachable: false });
      const body = { ...payload, webhook_sent_at: now.toISOString() };
      const message = { body, now, secrets, headers: rules.headers };
      return sendSigned(context, message, (request) =>
        url.startsWith("/") && ownRoutes !== null
          ? ownRoutes.post(url, request)
          : publicPost(new URL(url), { ...request, allowPrivate: options.allowPrivate }),
      );
    },
  };
}

/** What is wrong with a URL for webhooks, as far as it can be seen without asking for its address; undefined: nothing. */
export function whyNot(
  text: string,
  { rules, allowPrivate, ownRoutes }: Pick<RunWebhookOptions, "rules" | "allowPrivate" | "ownRoutes">,
): string | undefined {
  if (rules.off) return "is turned off here (http.disable_webhooks)";
  if (text.length > rules.maxUrlLength) return `must not be longer than ${rules.maxUrlLength} characters`;
  if (text.startsWith("/")) return whyNotOwn(text, rules, ownRoutes);
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

function whyNotOwn(path: string, rules: WebhookRules, ownRoutes: OwnRoutes | null): string | undefined {
  if (ownRoutes === null) return "must be a whole URL: this server has no routes of your own";
  if (!rules.loopback) return "must be a whole URL: webhooks.url.disable_loopback says so";
  return ownRoutes.takes(path)
    ? undefined
    : `must be a route of your own: nothing takes a POST at ${path.slice(0, 200)}`;
}

/** A name may lead anywhere; what it leads to is judged when it is asked for. */
const isPrivateLiteral = (host: string): boolean => /^[\d.]+$|:/.test(host) && isPrivateAddress(host);

function isWithin(host: string, domain: string): boolean {
  return domain.startsWith("*.") ? host.endsWith(domain.slice(1)) : host === domain.toLowerCase();
}
