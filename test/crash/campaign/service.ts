// The world outside: a service that does what agents' tools ask, honours keys, and counts. It outlives every crash.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** All that was asked for one intent (a tool call of a conversation). */
export type Intent = {
  /** Requests that came, whatever became of them. */
  asked: number;
  /** Times it was done: with a key at most once for each key, without one each time. */
  done: number;
  keys: Set<string>;
};

export type Service = Readonly<{
  url: string;
  intents: ReadonlyMap<string, Intent>;
  /** Answers that were cut off after the act: the caller can't know. */
  cutOff(): number;
  close(): Promise<void>;
}>;

/** How often an answer is lost after the act. */
const CUT_OFF = 0.02;
/** How long an answer may take after the act, in which a caller may die. */
const SLOWEST_MS = 200;

/** On a free port of loopback; what it does by chance follows `random`. */
export async function startService(random: () => number): Promise<Service> {
  const intents = new Map<string, Intent>();
  const byKey = new Map<string, string>();
  let cut = 0;

  const act = (query: URLSearchParams, response: ServerResponse): void => {
    const name = query.get("intent") ?? "";
    const key = query.get("key") ?? "";
    const honours = query.get("honours") === "key";
    const intent = intents.get(name) ?? { asked: 0, done: 0, keys: new Set() };
    intents.set(name, intent);
    intent.asked += 1;
    intent.keys.add(key);
    if (!honours || !byKey.has(key)) intent.done += 1;
    byKey.set(key, name);
    const isCut = random() < CUT_OFF;
    cut += isCut ? 1 : 0;
    const reply = (): unknown => (isCut ? response.destroy() : response.end(JSON.stringify({ done: name })));
    setTimeout(reply, random() * SLOWEST_MS);
  };
  const server = createServer((request: IncomingMessage, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://service");
    request.resume();
    if (pathname === "/act") return act(searchParams, response);
    const intent = intents.get(searchParams.get("intent") ?? "");
    response.end(JSON.stringify({ done: (intent?.done ?? 0) > 0 }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    intents,
    cutOff: () => cut,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
