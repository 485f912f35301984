// Components of graphs for Agent Chat UI and `LoadExternalComponent`: which scripts and styles to load, and those files.
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { getMimeType } from "hono/utils/mime";
import { z } from "zod";
import { EngineError } from "../../core/errors.js";
import type { UiBundles, UiFiles } from "../../engine/graph-ui.js";
import type { ApiEnv } from "../env.js";
import { readBody } from "../request.js";

export const uiBody = z.object({ name: z.string().min(1).max(200) });

export function uiRoutes(bundles: UiBundles): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  routes.post("/ui/:graph_id", async (c) => {
    const graphId = c.req.param("graph_id");
    const files = filesOf(bundles, graphId);
    const { name } = await readBody(c, uiBody);
    const at = `${originOf(c.req.header("host"))}/ui/${encodeURIComponent(graphId)}`;
    return c.html([...files.keys()].map((file) => tagOf(file, { at, graphId, name })).join("\n"));
  });
  return routes;
}

/** For everybody: a script's tag brings no credentials. */
export function uiFileRoutes(bundles: UiBundles): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  routes.get("/ui/:graph_id/:file", (c) => {
    const { graph_id: graphId, file } = c.req.param();
    const contents = filesOf(bundles, graphId).get(file);
    if (contents === undefined) throw new EngineError("not_found", `The components of ${graphId} have no file ${file}`);
    c.header("Content-Type", getMimeType(file) ?? "application/octet-stream");
    // A page may load it again after the graph was edited.
    c.header("Cache-Control", "no-cache");
    return c.body(new Uint8Array(contents));
  });
  return routes;
}

function filesOf(bundles: UiBundles, graphId: string): UiFiles {
  const files = bundles.get(graphId);
  if (files === undefined)
    throw new EngineError("not_found", `Graph ${graphId} has no components: langgraph.json names none in "ui"`);
  return files;
}

function tagOf(file: string, { at, graphId, name }: Readonly<{ at: string; graphId: string; name: string }>): string {
  const url = `${at}/${encodeURIComponent(file)}`;
  if (file.endsWith(".css")) return `<link rel="stylesheet" href="${url}" />`;
  if (!file.endsWith(".js")) return "";
  // The client puts the place where it is shown in for {{shadowRootId}}.
  return `<script src="${url}" onload='${globalOf(graphId)}.render(${literal(name)}, "{{shadowRootId}}")'></script>`;
}

/** What the builder calls it. */
const globalOf = (graphId: string): string => `__LGUI_${graphId.replaceAll(/[^a-zA-Z0-9]/g, "_")}`;

/** As it may stand in an attribute. */
const literal = (text: string): string =>
  JSON.stringify(text).replaceAll(/['<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** By the page's own protocol, but for this machine, which has no other. */
function originOf(host: string | undefined): string {
  if (host === undefined || !/^[\w.-]+(:\d+)?$|^\[[\da-f:]+\](:\d+)?$/i.test(host)) {
    throw new HTTPException(400, { message: "The Host header is no host" });
  }
  const isHere = /^(localhost|127\.|\[::1\])/.test(host);
  return `${isHere ? "http:" : ""}//${host}`;
}
