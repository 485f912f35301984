// Serves the development chat: one page and what it asks for, to this machine's browser and nobody else. Pages of other origins can neither
// read nor do anything here, also when their name is made to lead to this address (DNS rebinding): the name is looked at.
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { z } from "zod";
import type { Action, Chat } from "./chat.js";

const CHAT_PATH = "/dev/chat";
const MAX_BODY = 64 * 1024;
const FILES: Readonly<Record<string, readonly [file: string, type: string]>> = {
  [CHAT_PATH]: ["index.html", "text/html; charset=utf-8"],
  [`${CHAT_PATH}/chat.css`]: ["chat.css", "text/css; charset=utf-8"],
  [`${CHAT_PATH}/icon.svg`]: ["icon.svg", "image/svg+xml"],
  [`${CHAT_PATH}/chat.js`]: ["chat.js", "text/javascript; charset=utf-8"],
};
const PAGES = new URL("../../../pages/dev-chat/", import.meta.url);
const HEADERS = {
  "cache-control": "no-store",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/** Its own files, and the widget of the API. */
function policyOf(apiUrl: string): string {
  const { origin } = new URL(apiUrl);
  const from = ["default-src 'self'", `script-src 'self' ${origin}`, `connect-src 'self' ${origin}`];
  return [...from, "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"].join("; ");
}

const text = z.string().min(1).max(20_000);
const kind = z.string().max(32);
const action = z.discriminatedUnion("do", [
  z.object({ do: z.literal("say"), kind, text }),
  z.object({ do: z.literal("press"), kind, label: text }),
  z.object({ do: z.literal("trouble"), kind, trouble: z.string().max(64), times: z.int().min(1).max(1_000) }),
  z.object({ do: z.literal("mend"), kind }),
  z.object({ do: z.literal("resume"), kind }),
  z.object({ do: z.literal("advance"), by: z.enum(["1h", "1d", "6w"]) }),
  z.object({ do: z.literal("assistant"), assistant: z.uuid() }),
  z.object({ do: z.literal("cancel"), followup: z.uuid() }),
  z.object({ do: z.literal("resolve"), delivery: z.uuid(), as: z.enum(["again", "sent"]) }),
]) satisfies z.ZodType<Action>;

export type ChatServer = Readonly<{ url: string; close(): Promise<void> }>;

/** Listens on loopback, at `port` or a free one where that is taken. */
export async function serveChat(chat: Chat, port: number): Promise<ChatServer> {
  let hosts = new Set<string>();
  const server = createServer((request, response) => {
    answer(request, response, { chat, hosts }).catch((error: unknown) => {
      if (!response.headersSent) reply(response, 500, { error: (error as Error).message });
      else response.destroy();
    });
  });
  const listen = (at: number) =>
    new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(at, "127.0.0.1", () => resolve());
    });
  await listen(port).catch(() => listen(0));
  const { port: bound } = server.address() as AddressInfo;
  hosts = new Set(["127.0.0.1", "localhost"].map((name) => `${name}:${bound}`));
  return {
    url: `http://127.0.0.1:${bound}${CHAT_PATH}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

type Served = Readonly<{ chat: Chat; hosts: ReadonlySet<string> }>;

async function answer(request: IncomingMessage, response: ServerResponse, { chat, hosts }: Served): Promise<void> {
  const { host = "", origin } = request.headers;
  const isOurs = hosts.has(host) && (origin === undefined || hosts.has(origin.replace(/^http:\/\//, "")));
  if (!isOurs) return reply(response, 403, { error: "this page is for the browser of this machine" });
  const { pathname } = new URL(request.url ?? "/", "http://127.0.0.1");
  const file = FILES[pathname];
  if (request.method === "GET" && file !== undefined) {
    const body = await readFile(new URL(file[0], PAGES));
    const headers = { "content-security-policy": policyOf(chat.apiUrl), "content-type": file[1] };
    response.writeHead(200, { ...HEADERS, ...headers }).end(body);
    return;
  }
  if (request.method === "GET" && pathname === `${CHAT_PATH}/state`) {
    const origins = [...hosts].map((each) => `http://${each}`);
    return reply(response, 200, await chat.state(origins));
  }
  if (request.method === "POST" && pathname === `${CHAT_PATH}/act`) return act(request, response, chat);
  reply(response, 404, { error: `nothing is served at ${pathname}; the page is at ${CHAT_PATH}` });
}

/** JSON only: what other pages may send without being asked isn't. */
async function act(request: IncomingMessage, response: ServerResponse, chat: Chat): Promise<void> {
  if (request.headers["content-type"] !== "application/json") return reply(response, 415, { error: "JSON is wanted" });
  const body = await readBody(request);
  const parsed = action.safeParse(body);
  if (!parsed.success)
    return reply(response, 400, { error: parsed.error.issues.map(({ message }) => message).join("; ") });
  try {
    await chat.act(parsed.data);
  } catch (error) {
    return reply(response, 409, { error: (error as Error).message });
  }
  reply(response, 200, { ok: true });
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += (chunk as Buffer).length;
    if (size > MAX_BODY) return undefined;
    chunks.push(chunk as Buffer);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    return undefined;
  }
}

function reply(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { ...HEADERS, "content-type": "application/json" }).end(JSON.stringify(body));
}
