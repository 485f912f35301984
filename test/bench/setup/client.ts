// What a client of the Agent Server API asks, with no SDK between: the same for perdure, the dev server and the skeleton.
import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { json, text } from "node:stream/consumers";
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
  // Not fetch, which costs a millisecond a request on the processors that the servers are measured on.
  const agent = new Agent({ keepAlive: true });
  const ask = async (method: string, path: string, body?: object): Promise<IncomingMessage> => {
    const asked = request(url + path, { method, agent, headers: { "content-type": "application/json" } });
    asked.end(body && JSON.stringify(body));
    const [response] = (await once(asked, "response")) as [IncomingMessage];
    if ((response.statusCode ?? 0) >= 300)
      throw new Error(`${path} answered ${response.statusCode}: ${await text(response)}`);
    return response;
  };
  const post = async <T>(path: string, body: object) => (await json(await ask("POST", path, body))) as T;
  return {
    post,
    get: async <T>(path: string) => (await json(await ask("GET", path))) as T,
    async ten(path = "/runs/wait") {
      const result = await post<{ n?: number }>(path, { assistant_id: "ten", input: { n: 0 } });
      if (result.n !== 10) throw new Error(`a run ended with ${JSON.stringify(result)}`);
    },
    async stream(path, body) {
      const startedMs = nowMs();
      const response = await ask("POST", path, body);
      let firstMs = Number.NaN;
      let events = "";
      for await (const chunk of response) {
        events += String(chunk);
        if (Number.isNaN(firstMs) && /^event: /m.test(events)) firstMs = nowMs() - startedMs;
      }
      if (!events.includes('"n":10')) throw new Error(`the stream of ${path} lacks the result`);
      return { firstMs, endMs: nowMs() - startedMs };
    },
  };
}
