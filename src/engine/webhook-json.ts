// `webhooks` of a langgraph.json: where completion webhooks may go, and what they bring.
// https://docs.langchain.com/langsmith/cli#configuration-file
import { z } from "zod";
import { ANY_WEBHOOK, type WebhookRules } from "../delivery/channels/run-webhook.js";

const PREFIX = "LG_WEBHOOK_";

export const webhooksShape = z.object({
  /** Only variables whose names begin with it may stand in `headers`. */
  env_prefix: z.string().min(1).nullish(),
  headers: z.record(z.string().regex(/^[\w-]+$/, "a header's name"), z.string()).nullish(),
  url: z
    .object({
      require_https: z.boolean().nullish(),
      allowed_domains: z.array(z.string().min(1)).nullish(),
      allowed_ports: z.array(z.int().min(1).max(65_535)).nullish(),
      max_url_length: z.int().min(1).max(65_536).nullish(),
      disable_loopback: z.boolean().nullish(),
    })
    .nullish(),
});

/** Headers are as they stand there: `${{ env.NAME }}` isn't filled in. */
export type ProjectWebhooks = Readonly<{ rules: WebhookRules; prefix: string }>;

export function webhooksOf(given: z.output<typeof webhooksShape> | null | undefined): ProjectWebhooks {
  const { url, headers, env_prefix: prefix } = given ?? {};
  return {
    prefix: prefix ?? PREFIX,
    rules: {
      headers: headers ?? {},
      requireHttps: url?.require_https ?? false,
      allowedDomains: url?.allowed_domains ?? null,
      allowedPorts: url?.allowed_ports ?? null,
      maxUrlLength: url?.max_url_length ?? ANY_WEBHOOK.maxUrlLength,
      loopback: !(url?.disable_loopback ?? false),
      off: false,
    },
  };
}
