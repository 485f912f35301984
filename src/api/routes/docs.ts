// What the API is: as OpenAPI, and as a page that shows it, with nothing from other hosts.
import { readFile } from "node:fs/promises";
import { Hono } from "hono";
import { EngineError } from "../../core/errors.js";
import { readVersions } from "../../engine/versions.js";
import type { ApiEnv } from "../env.js";
import { openApiDocument } from "../openapi/document.js";

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>perdure API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<script src="docs/swagger-ui-bundle.js" defer></script>
<script src="docs/start.js" defer></script>
</head>
<body><main id="docs"></main></body>
</html>
`;
const START = `SwaggerUIBundle({ url: "openapi.json", dom_id: "#docs", deepLinking: true, docExpansion: "none" });\n`;
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Swagger UI, as the build has put it beside us. */
const FILES: Readonly<Record<string, string>> = {
  "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
  "swagger-ui.css": "text/css; charset=utf-8",
};

export function docsRoutes(): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  let described: string | undefined;

  routes.get("/openapi.json", (c) => {
    described ??= JSON.stringify(openApiDocument(readVersions().perdure));
    return c.body(described, 200, { "Content-Type": "application/json" });
  });

  routes.get("/docs", (c) => {
    c.header("Content-Security-Policy", POLICY);
    return c.html(PAGE);
  });

  routes.get("/docs/:file", async (c) => {
    const file = c.req.param("file");
    c.header("Cache-Control", "public, max-age=3600");
    if (file === "start.js") return c.body(START, 200, { "Content-Type": "text/javascript; charset=utf-8" });
    const type = Object.hasOwn(FILES, file) ? FILES[file] : undefined;
    if (type === undefined) throw new EngineError("not_found", "There is no such file of the API's page");
    const bytes = await readFile(new URL(file, builtDocs(import.meta.url)));
    return c.body(new Uint8Array(bytes), 200, { "Content-Type": type });
  });

  return routes;
}

/** Run from source, as tests are, they are where the build put them. */
function builtDocs(here: string): URL {
  return new URL(here.endsWith(".ts") ? "../../../dist/docs/" : "../../docs/", here);
}
