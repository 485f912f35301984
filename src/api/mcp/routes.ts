// MCP over streamable HTTP, without sessions: what is POSTed is answered there and then, by whichever process it comes to.
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import type { Engine } from "../../engine/engine.js";
import { readVersions } from "../../engine/versions.js";
import type { ApiEnv } from "../env.js";
import { readRpc } from "../json-rpc.js";

export function mcpRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  const { perdure: version } = readVersions();
  for (const path of ["/mcp", "/mcp/"]) {
    routes.post(path, async (c) => {
      const read = await readRpc(c);
      if ("refused" in read) return read.refused;
      // A quarter of a second to load, which only those pay who speak it.
      const { serveMcp } = await import("./serve.js");
      return serveMcp(engine, c, { version, body: read.body });
    });
    routes.on(["GET", "DELETE"], [path], (c) => {
      const res = new Response(null, { headers: { Allow: "POST" } });
      const message = `${c.req.method} ${path}: there are no sessions here to listen to or to end; POST messages`;
      throw new HTTPException(405, { res, message });
    });
  }
  return routes;
}
