// What a client of the Agent Server API asks, with no SDK between: the same for perdure, the dev server and the skeleton.
import { nowMs } from "../measure/numbers.js";

export type Client = Readonly<{
  post<T>(path: string, body: object): Promise<T>;
  get<T>(path: string): Promise<T>;
  /** One run of the 10-node graph, looked at. */
  ten(path?: string): Promise<void>;
  /** Opens a stream and reads to its end; when its first event came and when it ended, in ms from the request. */
  stream(path: string, body: object): Promise<Readonly<{ firstMs: number; endMs: number }>>;
}>;

export function createClient(url: string): Client {
  const ask = async (path: string, init: RequestInit): Promise<Response> => {
    const response = await fetch(url + path, init);
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
    return response;
  };
  const posted = (body: object): RequestInit => ({
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const post = async <T>(path: string, body: object) => (await (await ask(path, posted(body))).json()) as T;
  return {
    post,
    get: async <T>(path: string) => (await (await ask(path, {})).json()) as T,
    async ten(path = "/runs/wait") {
      const result = await post<{ n?: number }>(path, { assistant_id: "ten", input: { n: 0 } });
      if (result.n !== 10) throw new Error(`a run ended with ${JSON.stringify(result)}`);
    },
    async stream(path, body) {
      const startedMs = nowMs();
      const response = await ask(path, posted(body));
      let firstMs = Number.NaN;
      let text = "";
      for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
        text += Buffer.from(chunk).toString();
        if (Number.isNaN(firstMs) && /^event: /m.test(text)) firstMs = nowMs() - startedMs;
      }
      if (!text.includes('"n":10')) throw new Error(`the stream of ${path} lacks the result`);
      return { firstMs, endMs: nowMs() - startedMs };
    },
  };
}
