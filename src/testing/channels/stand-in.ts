// What stand-ins of channels share: a real server on loopback that counts what it is sent, and can be out of order in the ways that
// providers are.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** How all stand-ins are used, whatever they stand in for. */
export type StandIn<Trouble extends string = string> = Readonly<{
  /** As an account names it. */
  kind: string;
  url: string;
  /** What may go wrong with the next messages, by name. */
  troubles: readonly Trouble[];
  /** The next `times` messages (one unless given) go wrong so. */
  fails(trouble: Trouble, times?: number): void;
  /** All is well again. */
  mends(): void;
  /** What `POST /v1/channel-accounts` takes to make an account of it. */
  account(assistantId: string, settings?: Readonly<Record<string, unknown>>): AccountRequest;
  /** Where what people write goes from now on; a channel that only sends takes no notice. */
  connect(connection: Connection): Promise<void>;
  close(): Promise<void>;
}>;

export type AccountRequest = Readonly<{
  kind: string;
  name: string;
  credentials: Readonly<Record<string, string>>;
  settings: Readonly<Record<string, unknown>>;
}>;

export type Connection = Readonly<{
  /** As `POST /v1/channel-accounts` answered. */
  webhookUrl: string;
  /** For an engine without a port: what answers its requests. */
  fetch?: typeof globalThis.fetch;
  /** The time of those who count hours; this machine's unless given. */
  now?: () => Promise<Date>;
}>;

/**
 * How one request goes wrong. `cut_before`: the connection is cut and nothing was taken; `cut_after`: it is cut when the message was
 * taken; `hang`: taken, and never answered; an answer: that, and nothing was taken.
 */
export type Fault =
  | "cut_before"
  | "cut_after"
  | "hang"
  | Readonly<{ status: number; body: unknown; headers?: Readonly<Record<string, string>> }>;

/** Which requests go wrong, and how often; for ever, where that isn't said. */
export type FaultOf = Readonly<{ fault: Fault; times?: number; if?: (request: StandInRequest) => boolean }>;

/** What may happen to each: the line is cut, nobody answers, or a proxy does. */
export const ANY_TROUBLE = {
  cut_before: "cut_before",
  cut_after: "cut_after",
  hang: "hang",
  bad_gateway: { status: 502, body: "<html><body>502 Bad Gateway</body></html>" },
} as const satisfies Readonly<Record<string, Fault>>;

export type StandInRequest = Readonly<{
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  /** As it came. */
  text: string;
  /** As JSON, where it is. */
  body: Readonly<Record<string, unknown>>;
}>;

export type Answer = Readonly<{ status?: number; body: unknown; headers?: Readonly<Record<string, string>> }>;

export type StandInServer<Trouble extends string = string> = Pick<
  StandIn<Trouble>,
  "url" | "troubles" | "fails" | "mends" | "close"
> &
  Readonly<{
    /** What it was asked, in order, faults included. */
    requests: readonly StandInRequest[];
    /** For what has no name, and for some requests only. */
    breaks(fault: FaultOf): void;
    /** Each answer takes so long. */
    slow(ms: number): void;
  }>;

/** Starts one; `take` does what a request asks for, once no fault keeps it from that. `sends` says which requests are messages. */
export async function startStandIn<Trouble extends string = never>(
  take: (request: StandInRequest) => Answer | Promise<Answer>,
  {
    troubles,
    sends = () => true,
  }: Readonly<{ troubles?: Readonly<Record<Trouble, Fault>>; sends?: (request: StandInRequest) => boolean }> = {},
): Promise<StandInServer<Trouble>> {
  const requests: StandInRequest[] = [];
  let slowMs = 0;
  let faults: { fault: Fault; left: number; if: (request: StandInRequest) => boolean }[] = [];
  const faultFor = (request: StandInRequest): Fault | undefined => {
    const found = faults.find((each) => each.left > 0 && each.if(request));
    if (found !== undefined) found.left -= 1;
    return found?.fault;
  };
  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = await read(incoming);
    requests.push(request);
    const fault = faultFor(request);
    if (slowMs > 0) await new Promise((resolve) => setTimeout(resolve, slowMs));
    if (fault === "cut_before") return void incoming.socket.destroy();
    if (typeof fault === "object") return send(response, fault);
    const answer = await take(request);
    if (fault === "cut_after") return void incoming.socket.destroy();
    if (fault === "hang") return;
    send(response, answer);
  };
  const server = createServer((incoming, response) => {
    serve(incoming, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const breaks = ({ fault, times = Number.POSITIVE_INFINITY, if: when = () => true }: FaultOf): void =>
    void faults.push({ fault, left: times, if: when });
  return {
    url: `http://127.0.0.1:${port}`,
    troubles: Object.keys(troubles ?? {}) as Trouble[],
    requests,
    breaks,
    fails(trouble, times = 1) {
      const fault = troubles?.[trouble];
      if (fault === undefined) throw new Error(`no stand-in knows the trouble "${trouble}" here`);
      breaks({ fault, times, if: sends });
    },
    mends: () => void (faults = []),
    slow: (ms) => void (slowMs = ms),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** What it says to a webhook that doesn't take what it is brought; a real channel would try again, later. */
export async function refuseUnlessOk(response: Response): Promise<void> {
  if (!response.ok) throw new Error(`the webhook answered ${response.status} ${await response.text()}`);
}

async function read(incoming: IncomingMessage): Promise<StandInRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const { method = "GET", url = "/", headers } = incoming;
  const text = Buffer.concat(chunks).toString("utf8");
  return { method, path: url, headers, text, body: jsonOf(text) };
}

function jsonOf(text: string): StandInRequest["body"] {
  try {
    return JSON.parse(text) as StandInRequest["body"];
  } catch {
    return {};
  }
}

function send(response: ServerResponse, { status = 200, body, headers = {} }: Answer): void {
  const isText = typeof body === "string";
  response.writeHead(status, { "content-type": isText ? "text/html" : "application/json", ...headers });
  response.end(isText ? body : JSON.stringify(body));
}
