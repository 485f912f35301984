// The API's description says of each route that it is served, and how its requests are read.
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import { OPERATIONS } from "../../src/api/openapi/document.js";
import { graphs } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const shared = sharedEngine({ graphs, workers: 0 });

type Route = Readonly<{ method: string; path: string }>;

/** Middlewares are for many paths, and for all methods. */
function served(): Route[] {
  const { routes } = createApp(shared().engine);
  const all = routes.filter(({ method, path }) => method !== "ALL" && !path.includes("*"));
  const plain = all.map(({ method, path }) => ({ method, path: path.replace(/(.)\/$/, "$1") }));
  return [...new Map(plain.map((route) => [`${route.method} ${route.path}`, route])).values()];
}

test("every route that is served stands in it, and nothing else", () => {
  const routes = new Set(served().map(({ method, path }) => `${method} ${path}`));
  expect(Object.keys(OPERATIONS).sort()).toEqual([...routes].sort());
});

test("it is OpenAPI, with what bodies and queries may have", async () => {
  const { app } = shared();
  const response = await app.request("/openapi.json");
  expect(response.status).toBe(200);
  const document = (await response.json()) as {
    openapi: string;
    paths: Record<string, Record<string, { operationId: string; parameters: object[]; requestBody?: object }>>;
  };
  expect(document.openapi).toBe("3.1.0");
  const create = document.paths["/threads/{thread_id}/runs"]?.["post"];
  expect(JSON.stringify(create?.requestBody)).toMatch(/"multitask_strategy".*"rollback"/);
  expect(create?.parameters).toEqual([
    { name: "thread_id", in: "path", required: true, schema: { type: "string", format: "uuid" } },
  ]);
  const list = document.paths["/threads/{thread_id}/runs"]?.["get"];
  expect(list?.parameters).toContainEqual({
    ...{ name: "limit", in: "query", required: false },
    schema: { type: "integer", minimum: 1, maximum: 1_000, default: 10 },
  });
  expect(document.paths["/assistants/{assistant_id}/subgraphs"]).toBeDefined();
  expect(document.paths["/assistants/{assistant_id}/subgraphs/{namespace}"]).toBeDefined();
  const ids = Object.values(document.paths).flatMap((path) =>
    Object.values(path).map(({ operationId }) => operationId),
  );
  expect(new Set(ids).size).toBe(ids.length);
});

test("the page that shows it loads nothing from elsewhere", async () => {
  const { app } = shared();
  const page = await app.request("/docs");
  const html = await page.text();
  expect([page.status, page.headers.get("content-security-policy")]).toEqual([200, expect.stringContaining("'self'")]);
  expect(html).not.toMatch(/https?:\/\//);
  const files = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, file]) => file);
  expect(files).toHaveLength(3);
  for (const file of files) expect([file, (await app.request(`/${file}`)).status]).toEqual([file, 200]);
  expect((await app.request("/docs/openapi.test.ts")).status).toBe(404);
});
