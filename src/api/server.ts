// The app on a port. Closing stops taking requests, lets the running ones end, and cuts what is still open after a grace time:
// streams that clients hold open take up again elsewhere.
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createAdaptorServer } from "@hono/node-server";
import type { Hono } from "hono";
import { WebSocketServer } from "ws";
import { EngineError } from "../core/errors.js";

type WebSocketServerLike = NonNullable<Parameters<typeof createAdaptorServer>[0]["websocket"]>["server"];

const GRACE_MS = 5_000;
/** How long another process may take to make way, and how often that is looked at. */
const WAY_MS = 10_000;
const TRY_MS = 5;
/** As much as a request's body may hold. */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

export type ApiServer = Readonly<{
  /** Where it listens: `http://127.0.0.1:2024`. */
  url: string;
  port: number;
  /** Resolves when the last request has ended. */
  close(options?: Readonly<{ graceMs?: number }>): Promise<void>;
}>;

/**
 * Listens; resolves when requests are taken. Port 0 takes any free one. With `waits` the port may still be another's, which makes way.
 * Throws `config_invalid` naming the host and port when they can't be had.
 */
export async function serveApi(
  app: Pick<Hono, "fetch">,
  address: Readonly<{ host?: string; port: number; waits?: boolean }>,
): Promise<ApiServer> {
  const host = address.host ?? "127.0.0.1";
  const { server, sockets } = serverOf(app);
  // Longer than load balancers keep an idle connection (60 s), so that they never send on one just closed.
  server.keepAliveTimeout = 65_000;
  const untilMs = performance.now() + (address.waits === true ? WAY_MS : 0);
  await listen(server, host, address.port, untilMs);
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
    port,
    close(options) {
      // They are never over by themselves; their clients take up again elsewhere.
      for (const socket of sockets.clients) socket.terminate();
      return closeServer(server, options?.graceMs ?? GRACE_MS);
    },
  };
}

/** Not listening yet. */
export function serverOf(app: Pick<Hono, "fetch">): Readonly<{ server: Server; sockets: WebSocketServer }> {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: MAX_MESSAGE_BYTES });
  // Its own type for it leaves out that properties may be absent, which is what ours says.
  const websocket = { server: sockets as unknown as WebSocketServerLike };
  // Graphs run in this process too: they keep Node's own Request and Response.
  const server = createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false, websocket }) as Server;
  return { server, sockets };
}

async function listen(server: Server, host: string, port: number, untilMs: number): Promise<void> {
  server.listen(port, host);
  try {
    await once(server, "listening");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "EADDRINUSE" && performance.now() < untilMs) {
      await sleep(TRY_MS);
      return listen(server, host, port, untilMs);
    }
    throw new EngineError("config_invalid", cannotListen(cause, host, port), { cause });
  }
}

function cannotListen(cause: unknown, host: string, port: number): string {
  const { code = "" } = cause as NodeJS.ErrnoException;
  switch (code) {
    case "EADDRINUSE":
      return `Port ${port} on ${host} is in use; stop what listens there or give another with --port`;
    case "EACCES":
      return `Port ${port} on ${host} can't be used without more rights; give one above 1023 with --port`;
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return `${host} is no address of this machine; give another with --host`;
    default:
      return `Can't listen on ${host} port ${port}: ${code === "" ? String(cause) : code}`;
  }
}

async function closeServer(server: Server, graceMs: number): Promise<void> {
  if (!server.listening) return;
  // A connection kept alive for a next request is idle only once its running request has ended.
  server.on("request", (_request, response) => response.setHeader("Connection", "close"));
  const idle = setInterval(() => server.closeIdleConnections(), 50);
  const cut = setTimeout(() => server.closeAllConnections(), graceMs);
  try {
    await new Promise<void>((resolve, reject) => {
      server.close((error) => (error ? reject(error) : resolve()));
    });
  } finally {
    clearInterval(idle);
    clearTimeout(cut);
  }
}
