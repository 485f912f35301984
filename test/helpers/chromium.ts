// A real browser for the tests: Debian's chromium, or what PERDURE_TEST_CHROMIUM names; and pages for it, on an origin of their own.
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type Browser, chromium } from "playwright-core";

const PLACES = [
  process.env["PERDURE_TEST_CHROMIUM"],
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
];
const found = PLACES.find((place) => place !== undefined && existsSync(place));

/** Where tests must run, a machine without one fails them. */
export const hasChromium = found !== undefined || process.env["CI"] === "true";

const QUIET =
  "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync";

export async function startChromium(): Promise<Browser> {
  if (found === undefined) throw new Error("no Chromium: apt-get install -y --no-install-recommends chromium");
  return chromium.launch({ executablePath: found, headless: true, args: QUIET.split(" ") });
}

export type Pages = Readonly<{
  origin: string;
  /** What is served from now on, with the headers. */
  serve(html: string, headers?: Readonly<Record<string, string>>): void;
  close(): Promise<void>;
}>;

/** On localhost, which browsers treat as a page over https. */
export async function startPages(): Promise<Pages> {
  let served = { html: "", headers: {} as Readonly<Record<string, string>> };
  const server = createServer((request, response) => {
    response.writeHead(request.url === "/" ? 200 : 404, {
      "content-type": "text/html; charset=utf-8",
      ...served.headers,
    });
    response.end(request.url === "/" ? served.html : "");
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    origin: `http://localhost:${(server.address() as AddressInfo).port}`,
    serve: (html, headers = {}) => void (served = { html, headers }),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
