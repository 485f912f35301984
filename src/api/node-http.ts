// What Node's own HTTP server puts beside a request. Bodies go through it without the detour over web streams, which costs more
// than all else of a short request. Where something else serves the app there is nothing here, and the detour is taken.
import type { IncomingMessage, ServerResponse } from "node:http";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context } from "hono";
import { type ApiEnv, beside } from "./env.js";
import { ENTRY_OVER, watchEntry } from "./entry.js";
import { takenInTime } from "./slow-clients.js";

/** Undefined when another server serves the app. */
function nodeHttp(c: Context<ApiEnv>): Readonly<{ incoming: IncomingMessage; outgoing: ServerResponse }> | undefined {
  const { incoming, outgoing } = beside(c);
  return incoming === undefined || outgoing === undefined ? undefined : { incoming, outgoing };
}

/** The chunks of a request's body. Leaving early leaves the connection as it is. */
export function bodyChunks(c: Context<ApiEnv>): AsyncIterable<Uint8Array> | Iterable<Uint8Array> {
  // Middleware of the project's own has read it.
  if (Object.keys(c.req.bodyCache).length > 0) return whole(c);
  const incoming = nodeHttp(c)?.incoming;
  const isReplaced = isWrapped(c) && c.get("asItCame") !== c.req.raw;
  if (incoming?.readableDidRead === false && !isReplaced) return incoming.iterator({ destroyOnReturn: false });
  return c.req.raw.body?.values({ preventCancel: true }) ?? [];
}

async function* whole(c: Context<ApiEnv>): AsyncIterable<Uint8Array> {
  yield new Uint8Array(await c.req.arrayBuffer());
}

/** Middleware around us may have changed the request, and may want to change the answer. */
function isWrapped(c: Context<ApiEnv>): boolean {
  return c.get("asItCame") !== undefined;
}

export type OpenBody = Readonly<{
  /** Resolves when there is room for more, or nobody to write for: who takes nothing for long is cut off. */
  write(text: string): Promise<void>;
  /** Aborted when the client is gone; because of `ENTRY_OVER` when it is sent away. */
  gone: AbortSignal;
  /** Breaks the connection off, as a crash would: to the client the answer is not over. */
  cut(): void;
}>;

/**
 * An answer that is written bit by bit, with the headers that were set. It ends with `write`, which must not reject; or with `farewell`,
 * when what let its client in is over.
 */
export function streamBody(c: Context<ApiEnv>, farewell: string, write: (body: OpenBody) => Promise<void>): Response {
  const gone = new AbortController();
  const leave = (): void => gone.abort();
  const outgoing = isWrapped(c) ? undefined : nodeHttp(c)?.outgoing;
  if (outgoing === undefined) return c.body(webBody(c, write, gone, farewell));
  outgoing.on("error", leave).on("close", () => {
    if (!outgoing.writableFinished) leave();
  });
  outgoing.writeHead(200, Object.fromEntries(c.body(null).headers));
  outgoing.flushHeaders();
  const cut = (): void => void outgoing.destroy();
  const body: OpenBody = { write: (text) => room(outgoing, text, cut), gone: gone.signal, cut };
  const end = async (): Promise<void> => {
    const taken = new Promise<void>((resolve) => outgoing.once("close", resolve));
    outgoing.end(farewell);
    await takenInTime(taken, cut);
  };
  void whileLetIn(c, { body, gone, end }, write).finally(() => outgoing.end());
  return RESPONSE_ALREADY_SENT;
}

/** What comes after the end is not written, and nothing cuts it short. */
async function whileLetIn(
  c: Context<ApiEnv>,
  { body, gone, end }: Readonly<{ body: OpenBody; gone: AbortController; end(): Promise<void> }>,
  write: (body: OpenBody) => Promise<void>,
): Promise<void> {
  let ended: Promise<void> | undefined;
  const unwatch = watchEntry(c, () => {
    ended = end();
    gone.abort(ENTRY_OVER);
  });
  const open: OpenBody = {
    gone: body.gone,
    write: (text) => (ended === undefined ? body.write(text) : Promise.resolve()),
    cut: () => (ended === undefined ? body.cut() : undefined),
  };
  await write(open).finally(unwatch);
  await ended;
}

/** For servers of web requests, and for middleware around us: it breaks when it is cut, so that who serves it breaks the connection off. */
function webBody(
  c: Context<ApiEnv>,
  write: (body: OpenBody) => Promise<void>,
  gone: AbortController,
  farewell: string,
): ReadableStream {
  const leave = (): void => gone.abort();
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const encoder = new TextEncoder();
  const { signal } = c.req.raw;
  writer.closed.catch(leave);
  signal.addEventListener("abort", leave, { once: true });
  if (signal.aborted) leave();
  const cut = (): void => {
    const server = nodeHttp(c);
    // Where our own server is behind the middleware, it need not hear of it from a stream's error.
    if (server !== undefined) server.outgoing.destroy();
    else writer.abort(new Error("the answer broke off")).catch(() => undefined);
  };
  // What is written for nobody is dropped.
  const put = (text: string) => writer.write(encoder.encode(text)).catch(() => undefined);
  const body: OpenBody = { write: (text) => takenInTime(put(text), cut), gone: gone.signal, cut };
  void whileLetIn(c, { body, gone, end: () => body.write(farewell) }, write).finally(() => {
    signal.removeEventListener("abort", leave);
    writer.close().catch(() => undefined);
  });
  return readable;
}

/** What is said to who isn't let in any more. */
const OVER = `${ENTRY_OVER.status}: ${ENTRY_OVER.message}`;

/** The same for server-sent events. */
export function streamEvents(
  c: Context<ApiEnv>,
  write: (body: OpenBody) => Promise<void>,
  farewell: (message: string) => string = (message) => errorFrame(ENTRY_OVER.code, message),
): Response {
  c.header("Content-Type", "text/event-stream");
  // A proxy that collects or compresses answers would turn the stream into one lump.
  c.header("Cache-Control", "no-cache, no-store, no-transform");
  c.header("X-Accel-Buffering", "no");
  return streamBody(c, farewell(OVER), write);
}

/** As stock clients read why there is nothing more. */
export function errorFrame(error: string, message: string): string {
  return `event: error\ndata: ${JSON.stringify({ error, message })}\n\n`;
}

async function room(outgoing: ServerResponse, text: string, cut: () => void): Promise<void> {
  if (outgoing.destroyed || outgoing.write(text)) return;
  const drained = new Promise<void>((resolve) => {
    const go = (): void => {
      outgoing.off("drain", go).off("close", go);
      resolve();
    };
    outgoing.on("drain", go).on("close", go);
  });
  await takenInTime(drained, cut);
}

/** A server that stops cuts its connections: that says nothing about what its clients want. */
export function isShuttingDown(c: Context<ApiEnv>): boolean {
  const socket = nodeHttp(c)?.incoming.socket as { server?: { listening?: boolean } } | undefined;
  return socket?.server?.listening === false;
}
