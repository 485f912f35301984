// A stand-in for somebody's receiver of signed webhooks: it proves each request as Standard Webhooks 1.0 says, and knows what it has.
import { createHmac, timingSafeEqual } from "node:crypto";
import {
  type Answer,
  ANY_TROUBLE,
  type StandIn,
  startStandIn,
  type StandInRequest,
  type StandInServer,
} from "./stand-in.js";

export type ReceivedWebhook = Readonly<{
  /** The same in each try. */
  id: string;
  path: string;
  type: string;
  data: unknown;
  /** How often it came, proven. */
  times: number;
}>;

const TROUBLES = {
  ...ANY_TROUBLE,
  rate_limited: { status: 429, body: "", headers: { "retry-after": "1" } },
  unavailable: { status: 503, body: "" },
  redirect: { status: 302, body: "", headers: { location: "http://127.0.0.1:1/" } },
  gone: { status: 410, body: "" },
} as const;
export type WebhookTrouble = keyof typeof TROUBLES;

export type WebhookStandIn = StandIn<WebhookTrouble> &
  StandInServer<WebhookTrouble> &
  Readonly<{
    /** `whsec_…`, what the account signs with. */
    signingSecret: string;
    /** What was taken at a path, in order, each once; everywhere without one. */
    messages(path?: string): readonly ReceivedWebhook[];
  }>;

const SIGNING_SECRET = `whsec_${Buffer.from("a stand-in's secret, of 32 bytes").toString("base64")}`;
const TOLERANCE_S = 300;

/**
 * Starts one on loopback; any path of its `url` is a receiver.
 *
 * @example const receiver = await startWebhookReceiver(); receiver.messages("/orders");
 */
export async function startWebhookReceiver(): Promise<WebhookStandIn> {
  const received = new Map<string, ReceivedWebhook>();
  const take = (request: StandInRequest): Answer => {
    const { path, headers, body } = request;
    if (!isProven(request)) return { status: 401, body: "" };
    const id = String(headers["webhook-id"]);
    const times = (received.get(id)?.times ?? 0) + 1;
    received.set(id, { id, path, type: String(body["type"]), data: body["data"], times });
    return { status: 200, body: "" };
  };
  const server = await startStandIn(take, { troubles: TROUBLES });
  return {
    ...server,
    ...{ kind: "webhook", signingSecret: SIGNING_SECRET },
    messages: (path) => [...received.values()].filter((each) => path === undefined || each.path === path),
    account: (assistantId, settings = {}) => ({
      ...{ kind: "webhook", name: "webhook stand-in", credentials: { signing_secret: SIGNING_SECRET } },
      settings: { assistant_id: assistantId, allow_private_addresses: true, ...settings },
    }),
    connect: () => Promise.resolve(),
  };
}

/** https://www.standardwebhooks.com */
function isProven({ headers, text }: StandInRequest): boolean {
  const [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) =>
    String(headers[name] ?? ""),
  );
  if (Math.abs(Date.now() / 1_000 - Number(timestamp)) > TOLERANCE_S) return false;
  const key = Buffer.from(SIGNING_SECRET.slice("whsec_".length), "base64");
  const proof = createHmac("sha256", key).update(`${id}.${timestamp}.${text}`).digest();
  return (signatures ?? "").split(" ").some((signature) => {
    const given = Buffer.from(signature.replace(/^v1,/, ""), "base64");
    return given.length === proof.length && timingSafeEqual(given, proof);
  });
}
