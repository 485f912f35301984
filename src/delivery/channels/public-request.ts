// A POST to a URL that somebody gave us, which must not lead into our own network: the name is resolved, every address it has is judged, and
// the connection goes to the very address that was judged. Redirects are answers like any other.
import { lookup } from "node:dns/promises";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { BlockList, isIP } from "node:net";
import type { ProviderAnswer } from "./request.js";
import { neverLeft } from "./request.js";

const MAX_ANSWER_BYTES = 64 * 1024;

/** https://www.iana.org/assignments/iana-ipv4-special-registry and the IPv6 one: nothing of it is out in the world. */
const PRIVATE = new BlockList();
for (const [net, prefix] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
] as const) {
  PRIVATE.addSubnet(net, prefix, "ipv4");
}
for (const [net, prefix] of [
  ["::", 127],
  ["64:ff9b::", 96],
  ["100::", 64],
  ["2001:db8::", 32],
  ["fc00::", 7],
  ["fe80::", 10],
  ["ff00::", 8],
] as const) {
  PRIVATE.addSubnet(net, prefix, "ipv6");
}

/** Whether the address is of somebody's own network. An IPv4 address that is written as IPv6 is judged as what it is. */
export function isPrivateAddress(address: string): boolean {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return PRIVATE.check(mapped, "ipv4");
  if (/^::ffff:/i.test(address)) return true;
  return PRIVATE.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}

/** Never throws. `not_sent` with `private_address` where the URL leads into a network of our own. */
export async function publicPost(
  url: URL,
  options: Readonly<{
    headers: Readonly<Record<string, string>>;
    body: string;
    signal: AbortSignal;
    allowPrivate: boolean;
  }>,
): Promise<ProviderAnswer> {
  const { signal } = options;
  try {
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const [first, ...others] = await lookup(host, { all: true });
    if (first === undefined) return { kind: "not_sent", code: "ENOTFOUND" };
    if (!options.allowPrivate && [first, ...others].some(({ address }) => isPrivateAddress(address))) {
      return { kind: "not_sent", code: "private_address" };
    }
    signal.throwIfAborted();
    return await post(url, first, options);
  } catch (error) {
    const { code = "failed" } = error as { code?: string };
    return neverLeft(code) ? { kind: "not_sent", code } : { kind: "unknown", code: signal.aborted ? "timeout" : code };
  }
}

function post(
  url: URL,
  to: Readonly<{ address: string; family: number }>,
  { headers, body, signal }: Parameters<typeof publicPost>[1],
): Promise<ProviderAnswer> {
  const send = url.protocol === "https:" ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const sent = send(
      url,
      {
        method: "POST",
        headers: { ...headers, "content-length": Buffer.byteLength(body) },
        // The name stays for TLS and the server; the connection goes where it was judged to go.
        lookup: (_name, options, done) => (options.all === true ? done(null, [to]) : done(null, to.address, to.family)),
        agent: false,
        signal,
      },
      (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => {
          if (text.length < MAX_ANSWER_BYTES) text += chunk;
        });
        response.on("error", reject);
        response.on("end", () => {
          const given = Object.entries(response.headers).flatMap(([name, value]) =>
            typeof value === "string" ? [[name, value] as [string, string]] : [],
          );
          resolve({ kind: "answer", status: response.statusCode ?? 0, headers: new Headers(given), text });
        });
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}
