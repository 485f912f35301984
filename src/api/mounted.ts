// The app behind a server of somebody else's: Express, Next or plain Node. A server of ours that never listens takes what it is handed.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Hono } from "hono";
import { serverOf } from "./server.js";

export type Mounted = Readonly<{
  /** Answers a request: for `app.use` of Express, or `createServer`. */
  listener(request: IncomingMessage, response: ServerResponse): void;
  /** Opens a WebSocket: for a server's event `upgrade`. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Cuts the WebSockets that are open. */
  close(): void;
}>;

/** A WebSocket outside of `basePath` is left to others. */
export function mounted(app: Pick<Hono, "fetch">, basePath: string): Mounted {
  const { server, sockets } = serverOf(app);
  return {
    listener(request, response) {
      restoreBody(request);
      server.emit("request", request, response);
    },
    upgrade(request, socket, head) {
      if (basePath === "" || request.url?.startsWith(`${basePath}/`) === true) {
        server.emit("upgrade", request, socket, head);
      }
    },
    close() {
      for (const socket of sockets.clients) socket.terminate();
    },
  };
}

/** What a parser in front has read (`express.json()`) is written out again, where the server looks for it. */
function restoreBody(request: IncomingMessage & { body?: unknown; rawBody?: unknown }): void {
  const { body } = request;
  if (!request.readableDidRead || body === undefined || Buffer.isBuffer(request.rawBody)) return;
  request.rawBody = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}
