// A TCP proxy that breaks what it carries: latency, silence, resets, refusal, and replies lost after the server acted.
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export type FaultProxy = Readonly<{
  port: number;
  /** What it does now; may be changed at any time. */
  faults: {
    /** Added to each chunk, in each direction. */
    latencyMs: number;
    /** Nothing passes, in any direction, and nothing is closed. */
    stalled: boolean;
    /** New connections are reset. */
    refusing: boolean;
    /** New connections are reset when the server says nothing for so long, as proxies are set to do. */
    quietMs: number | null;
    /** Once a client sends these bytes, or a chunk that it says yes to, its connection is reset instead of bringing the answer. */
    loseReplyTo: string | ((chunk: Buffer) => boolean) | null;
  };
  /** Connections that were ended by `loseReplyTo`. */
  lostReplies(): number;
  /** Resets every connection. */
  cut(): void;
  close(): Promise<void>;
}>;

type Pair = { client: net.Socket; server: net.Socket; losing: boolean };

/** A proxy on a loopback port, a free one unless given, in front of `host:port` (or what a URL names). */
export async function startProxy(target: string, at = 0): Promise<FaultProxy> {
  const { hostname, port } = new URL(target);
  const faults: FaultProxy["faults"] = {
    latencyMs: 0,
    stalled: false,
    refusing: false,
    quietMs: null,
    loseReplyTo: null,
  };
  const pairs = new Set<Pair>();
  let lost = 0;

  const reset = (pair: Pair): void => {
    pairs.delete(pair);
    pair.client.resetAndDestroy();
    pair.server.resetAndDestroy();
  };
  const carry = (pair: Pair, from: net.Socket, to: net.Socket): void => {
    let order = Promise.resolve();
    from.on("data", (chunk: Buffer) => {
      const dueMs = performance.now() + faults.latencyMs;
      order = order.then(async () => {
        await sleep(dueMs - performance.now());
        while (faults.stalled && pairs.has(pair)) await sleep(5);
        if (from === pair.client && isLost(faults.loseReplyTo, chunk)) pair.losing = true;
        if (from === pair.server && pair.losing) {
          lost++;
          reset(pair);
        }
        if (!to.destroyed) to.write(chunk);
      });
    });
    from.on("end", () => void order.then(() => to.end()));
    from.on("error", () => reset(pair));
    from.on("close", () => void order.then(() => pairs.delete(pair)));
  };

  const listener = net.createServer({ allowHalfOpen: true }, (client) => {
    client.on("error", () => undefined);
    if (faults.refusing) {
      client.resetAndDestroy();
      return;
    }
    const server = net.connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    const pair = { client, server, losing: false };
    pairs.add(pair);
    if (faults.quietMs !== null) server.setTimeout(faults.quietMs, () => reset(pair));
    carry(pair, client, server);
    carry(pair, server, client);
  });
  await new Promise<void>((resolve) => listener.listen(at, "127.0.0.1", resolve));
  const cut = (): void => {
    for (const pair of pairs) reset(pair);
  };
  return {
    port: (listener.address() as net.AddressInfo).port,
    faults,
    lostReplies: () => lost,
    cut,
    close() {
      cut();
      return new Promise((resolve) => listener.close(() => resolve()));
    },
  };
}

function isLost(which: FaultProxy["faults"]["loseReplyTo"], chunk: Buffer): boolean {
  return typeof which === "function" ? which(chunk) : which !== null && chunk.includes(which);
}

/** The same URL, by way of the proxy. */
export function through(proxy: FaultProxy, url: string): string {
  const changed = new URL(url);
  changed.hostname = "127.0.0.1";
  changed.port = String(proxy.port);
  return changed.toString();
}
