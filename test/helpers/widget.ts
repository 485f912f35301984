// Browsers of the web widget without a browser: sessions, and what they read and write, over HTTP on a port.
import { listenApi } from "../../src/compose-api.js";
import { composeLoops } from "../../src/compose-loops.js";
import type { TestEngine } from "./engine.js";
import { type EngineOptions, withEngine } from "./engine.js";

export const ORIGIN = "https://shop.example";

export type Item = Readonly<{
  id: string;
  seq: number;
  author: "agent" | "person";
  text: string;
  approval: null | Readonly<{ approval_id: string; status: string; decision: string | null }>;
}>;
export type Asked = Readonly<{ status: number; json: Record<string, unknown>; headers: Headers }>;

export type Page = Readonly<{
  token: string;
  refreshToken: string;
  conversationId: string;
  ask(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Asked>;
  says(text: string, id?: string): Promise<Asked>;
  items(query?: string): Promise<Item[]>;
}>;

export type Widget = TestEngine &
  Readonly<{
    accountId: string;
    url: string;
    call(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Asked>;
    /** A visitor's page. Throws unless a session is made. */
    visit(more?: Readonly<Record<string, unknown>>, url?: string): Promise<Page>;
    addAccount(name: string, settings?: Readonly<Record<string, unknown>>): Promise<string>;
    /** Another process of the API, as far as a test can have one. */
    startApi(): Promise<string>;
  }>;

export const IDENTITY_SECRET = "what the shop's own server signs its customers with";

export async function withWidget<T>(options: EngineOptions, work: (widget: Widget) => Promise<T>): Promise<T> {
  return withEngine(options, async (engine) => {
    const apis: Awaited<ReturnType<typeof listenApi>>[] = [];
    const startApi = async (): Promise<string> => {
      const api = await listenApi(engine.engine, { host: "127.0.0.1", port: 0 });
      apis.push(api);
      return api.url;
    };
    const [scheduler] = composeLoops(engine.engine, ["scheduler"], { concurrency: 1 });
    scheduler?.start();
    try {
      const url = await startApi();
      const call = (method: string, path: string, body?: unknown, headers = {}) =>
        request(`${path.startsWith("http") ? "" : url}${path}`, method, body, { origin: ORIGIN, ...headers });
      const addAccount = async (name: string, settings: Readonly<Record<string, unknown>> = {}): Promise<string> => {
        const account = {
          kind: "web",
          name,
          credentials: { identity_secret: IDENTITY_SECRET },
          settings: { assistant_id: "agent", allowed_origins: [ORIGIN], ...settings },
        };
        const made = await call("POST", "/v1/channel-accounts", account);
        if (made.status !== 201) throw new Error(JSON.stringify(made.json));
        return String(made.json["channel_account_id"]);
      };
      const accountId = await addAccount("shop");
      const visit: Widget["visit"] = async (more = {}, at = url) => {
        const session = await call("POST", `${at}/v1/widget/sessions`, { account: accountId, ...more });
        if (session.status !== 200) throw new Error(JSON.stringify(session.json));
        return pageOf(at, session.json, call);
      };
      return await work({ ...engine, accountId, url, call, visit, addAccount, startApi });
    } finally {
      await scheduler?.stop();
      for (const api of apis) await api.close({ graceMs: 100 });
    }
  });
}

function pageOf(url: string, session: Record<string, unknown>, call: Widget["call"]): Page {
  const conversationId = String(session["conversation_id"]);
  const token = String(session["token"]);
  const ask: Page["ask"] = (method, path, body, headers = {}) =>
    call(method, `${url}/v1/widget/conversations/${conversationId}${path}`, body, {
      authorization: `Bearer ${token}`,
      ...headers,
    });
  let said = 0;
  return {
    ...{ token, conversationId, ask, refreshToken: String(session["refresh_token"]) },
    says: (text, id = `m${(said += 1)}`) => ask("POST", "/messages", { client_message_id: id, text }),
    items: async (query = "") => (await ask("GET", `/items${query}`)).json["items"] as Item[],
  };
}

async function request(
  url: string,
  method: string,
  body: unknown,
  headers: Readonly<Record<string, string>>,
): Promise<Asked> {
  const given = Object.entries(headers).filter(([, value]) => value !== "");
  const response = await fetch(url, {
    method,
    headers: { "content-type": "application/json", accept: "application/json", ...Object.fromEntries(given) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    json: (/^[{[]/.test(text) ? JSON.parse(text) : { text }) as Record<string, unknown>,
  };
}

export type Frame = Readonly<{ id: number | null; event: string; data: Record<string, unknown> }>;

/** What comes over a page's event stream until `enough` says so, or the connection is cut. */
export async function readEvents(
  url: string,
  page: Page,
  from: Readonly<{ after?: number; lastEventId?: number }>,
  enough: (frames: readonly Frame[]) => boolean,
): Promise<Frame[]> {
  const over = new AbortController();
  const query = from.after === undefined ? "" : `?after=${from.after}`;
  const response = await fetch(`${url}/v1/widget/conversations/${page.conversationId}/events${query}`, {
    signal: over.signal,
    headers: {
      authorization: `Bearer ${page.token}`,
      origin: ORIGIN,
      ...(from.lastEventId !== undefined && { "last-event-id": String(from.lastEventId) }),
    },
  });
  if (response.status !== 200 || response.body === null) throw new Error(`events: ${response.status}`);
  const frames: Frame[] = [];
  let rest = "";
  try {
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream() as never) as AsyncIterable<string>) {
      rest += chunk;
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        const frame = frameOf(rest.slice(0, end));
        rest = rest.slice(end + 2);
        if (frame !== undefined) frames.push(frame);
        if (enough(frames)) return frames;
      }
    }
    return frames;
  } finally {
    over.abort();
  }
}

function frameOf(text: string): Frame | undefined {
  const fields = new Map(text.split("\n").map((line) => [line.split(": ", 1)[0], line.slice(line.indexOf(": ") + 2)]));
  const event = fields.get("event");
  if (event === undefined) return undefined;
  const id = fields.get("id");
  return { id: id === undefined ? null : Number(id), event, data: JSON.parse(fields.get("data") ?? "{}") };
}
