// The script that puts the widget on a page, as it was built, for any page: what it may do there is decided by the account.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { Hono } from "hono";
import type { ApiEnv } from "../env.js";

const MAX_AGE_S = 3_600;

type Script = Readonly<{ plain: Uint8Array<ArrayBuffer>; packed: Uint8Array<ArrayBuffer>; etag: string }>;

export function widgetScriptRoutes(): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  let loaded: Promise<Script> | undefined;

  routes.get("/v1/widget.js", async (c) => {
    loaded ??= load();
    const { plain, packed, etag } = await loaded.catch((error: unknown) => {
      loaded = undefined;
      throw error;
    });
    c.header("ETag", etag);
    c.header("Cache-Control", `public, max-age=${MAX_AGE_S}`);
    c.header("Vary", "Accept-Encoding");
    // A page that isolates itself takes only what says that it is for others.
    c.header("Cross-Origin-Resource-Policy", "cross-origin");
    c.header("X-Content-Type-Options", "nosniff");
    if (c.req.header("if-none-match") === etag) return c.body(null, 304);
    c.header("Content-Type", "text/javascript; charset=utf-8");
    if (!/\bgzip\b/.test(c.req.header("accept-encoding") ?? "")) return c.body(plain);
    c.header("Content-Encoding", "gzip");
    return c.body(packed);
  });
  return routes;
}

async function load(): Promise<Script> {
  const plain = new Uint8Array(await readFile(builtScript(import.meta.url)));
  const packed = new Uint8Array(await promisify(gzip)(plain, { level: 9 }));
  return { plain, packed, etag: `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"` };
}

/** Run from source, as tests are, it is where the build put it. */
function builtScript(here: string): URL {
  return new URL(here.endsWith(".ts") ? "../../../dist/widget.js" : "../../widget.js", here);
}
