// The conversation's part of the server's API. A session that the server doesn't take any more is renewed once.
import { Refused, type Sessions } from "./session.js";

const TIMEOUT_MS = 20_000;

export type Server = ReturnType<typeof createServer>;

export function createServer(api: string, sessions: Sessions) {
  async function ask(path: string, init: RequestInit = {}): Promise<Response> {
    for (let tries = 1; ; tries += 1) {
      const { token, conversationId } = await sessions.get();
      const response = await fetch(`${api}/v1/widget/conversations/${conversationId}${path}`, {
        ...init,
        credentials: "omit",
        cache: "no-store",
        headers: { accept: "application/json", ...init.headers, authorization: `Bearer ${token}` },
      });
      if (response.ok) return response;
      if (response.status !== 401 || tries > 1) throw new Refused(response.status);
      sessions.forget();
    }
  }
  return {
    ask,
    async get<T>(path: string): Promise<T> {
      return (await (await ask(path, { signal: AbortSignal.timeout(TIMEOUT_MS) })).json()) as T;
    },
    async post<T>(path: string, body: object): Promise<T> {
      const init = { method: "POST", body: JSON.stringify(body), signal: AbortSignal.timeout(TIMEOUT_MS) };
      return (await (await ask(path, { ...init, headers: { "content-type": "application/json" } })).json()) as T;
    },
  };
}
