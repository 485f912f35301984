// What stand-ins of channels share: a real server on loopback that counts what it is sent, and can be out of order in the ways that
// providers are.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

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

export type StandInRequest = Readonly<{
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  /** As JSON, where it is. */
  body: Readonly<Record<string, unknown>>;
}>;

export type Answer = Readonly<{ status?: number; body: unknown; headers?: Readonly<Record<string, string>> }>;

export type StandInServer = Readonly<{
  url: string;
  /** What it was asked, in order, faults included. */
  requests: readonly StandInRequest[];
  breaks(fault: FaultOf): void;
  /** All is well again. */
  mends(): void;
  /** Each answer takes so long. */
  slow(ms: number): void;
  close(): Promise<void>;
}>;

/** Starts one; `take` does what a request asks for, once no fault keeps it from that. */
export async function startStandIn(
  take: (request: StandInRequest) => Answer | Promise<Answer>,
): Promise<StandInServer> {
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
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    breaks: ({ fault, times = Number.POSITIVE_INFINITY, if: when = () => true }) =>
      void faults.push({ fault, left: times, if: when }),
    mends: () => void (faults = []),
    slow: (ms) => void (slowMs = ms),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function read(incoming: IncomingMessage): Promise<StandInRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const { method = "GET", url = "/", headers } = incoming;
  return { method, path: url, headers, body: jsonOf(Buffer.concat(chunks).toString("utf8")) };
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
