// Routes and middleware of a project's own, in front of the API; which pages may call; what isn't served.
import { Client } from "@langchain/langgraph-sdk";
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { streamText } from "hono/streaming";
import { describe, expect, it } from "vitest";
import { type AppOptions, createApp } from "../../src/api/app.js";
import { ACTING_AS } from "../../src/api/auth/door.js";
import { principalOf } from "../../src/api/auth/inside.js";
import { takesPost } from "../../src/api/own-apps.js";
import { serveApi } from "../../src/api/server.js";
import { EngineError } from "../../src/core/errors.js";
import { DEFAULT_TENANT } from "../../src/core/ids.js";
import { type HttpJson, httpOf } from "../../src/engine/http-json.js";
import type { FetchApp, OwnApp } from "../../src/engine/own-apps.js";
import { bindLoopback, type Who } from "../../src/engine/loopback.js";
import { graphs } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const actingAs = (who: Who | null) => (who === null ? {} : { [ACTING_AS]: principalOf(who, "open") });
const shared = sharedEngine({ graphs });
const http = (given: HttpJson) => httpOf(given, process.cwd());
const json = (body: unknown) => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});
const own = (app: FetchApp, prefix = ""): Pick<AppOptions, "own"> => ({ own: [{ prefix, app } satisfies OwnApp] });

const around = new Hono()
  .use(async (c, next) => {
    if (c.req.query("stop") !== undefined) return c.json({ stopped: true });
    await next();
    c.header("x-around", "yes");
    return undefined;
  })
  .use("/threads", async (c, next) => {
    // It only looks.
    if (c.req.method === "POST") c.header("x-looked", Object.keys(await c.req.json<object>()).join());
    await next();
  })
  .use("/threads/search", async (c, next) => {
    c.req.raw = new Request(c.req.raw.url, json({ limit: 0 }));
    await next();
  })
  .get("/custom/hello", (c) => c.json({ hello: c.req.header("x-name") }))
  .get("/runs/mine", (c) => c.json({ mine: true }))
  .get("/custom/refuses", () => {
    throw new HTTPException(400, { message: "no, thanks" });
  })
  .get("/custom/streams", (c) =>
    streamText(c, async (stream) => {
      for (let n = 0; n < 3; n += 1) await stream.writeln(String(n));
    }),
  );

describe("an app of Hono", () => {
  it("answers its own routes, also where ours would", async () => {
    const app = createApp(shared().engine, own(around));
    const hello = await app.request("/custom/hello", { headers: { "x-name": "ann" } });
    expect(await hello.json()).toEqual({ hello: "ann" });
    expect(await (await app.request("/runs/mine")).json()).toEqual({ mine: true });
    const refused = await app.request("/custom/refuses");
    expect([refused.status, await refused.text()]).toEqual([400, "no, thanks"]);
    expect(await (await app.request("/custom/streams")).text()).toBe("0\n1\n2\n");
    expect((await app.request("/custom/nowhere")).status).toBe(404);
  });

  it("is around our routes: sees requests, answers itself, and adds to answers, streams included", async () => {
    const server = await serveApi(createApp(shared().engine, own(around)), { port: 0 });
    try {
      expect(await (await fetch(`${server.url}/info?stop`)).json()).toEqual({ stopped: true });
      expect((await fetch(`${server.url}/info`)).headers.get("x-around")).toBe("yes");
      const made = await fetch(`${server.url}/threads`, json({ metadata: { a: 1 } }));
      expect(await made.json()).toMatchObject({ metadata: { a: 1 } });
      expect(made.headers.get("x-looked")).toBe("metadata");
      const streamed = await fetch(`${server.url}/runs/stream`, json({ assistant_id: "steps", input: {} }));
      expect(streamed.headers.get("x-around")).toBe("yes");
      expect(streamed.headers.get("content-type")).toContain("text/event-stream");
      expect(await streamed.text()).toContain('{"log":["1","2","3"]}');
    } finally {
      await server.close();
    }
  });

  it("may send on another request than the one that came", async () => {
    const server = await serveApi(createApp(shared().engine, own(around)), { port: 0 });
    const answer = await fetch(`${server.url}/threads/search`, json({ limit: 5 }));
    await server.close();
    expect([answer.status, await answer.text()]).toEqual([422, expect.stringContaining("limit")]);
  });

  it("finds the API with a client that was given no URL, as whoever asked", async () => {
    const { engine } = shared();
    const calling = new Hono().get("/custom/run", async (c) =>
      c.json(await new Client().runs.wait(null, "steps", { input: {} })),
    );
    const app = createApp(engine, own(calling));
    const close = bindLoopback(engine.deps, async (request, who) => app.fetch(request, actingAs(who)));
    expect(await (await app.request("/custom/run")).json()).toEqual({ log: ["1", "2", "3"] });
    close();
  });

  it("takes webhooks where it has a route for them", () => {
    const app = new Hono()
      .use("/hooks/*", (_c, next) => next())
      .post("/hooks/:name", (c) => c.text(c.req.param("name")));
    const takes = takesPost([
      { prefix: "/ext", app },
      { prefix: "/raw", app: { fetch: () => new Response() } },
    ]);
    expect(takes("/ext/hooks/done?x=1")).toBe(true);
    expect(takes("/raw/anything")).toBe(true);
    expect(takes("/hooks/done")).toBe(false);
    expect(takes("/ext/hooks")).toBe(false);
    expect(takes("/threads")).toBe(false);
  });
});

it("apps below a prefix find their requests without it, whatever they are made with", async () => {
  const seen: string[] = [];
  const plain: FetchApp = {
    async fetch(request) {
      seen.push(`${request.method} ${new URL(request.url).pathname} ${await request.text()}`);
      return new Response("plain");
    },
  };
  const app = createApp(shared().engine, {
    own: [
      { prefix: "/plain", app: plain },
      { prefix: "/ext", app: new Hono().get("/health", (c) => c.text("well")) },
    ],
  });
  expect(await (await app.request("/plain/a/b", { method: "POST", body: "hi" })).text()).toBe("plain");
  expect(seen).toEqual(["POST /a/b hi"]);
  expect(await (await app.request("/ext/health")).text()).toBe("well");
  expect((await app.request("/ok")).status).toBe(200);
});

describe("who isn't let in", () => {
  const ran: string[] = [];
  const app = new Hono()
    .use(async (c, next) => {
      ran.push(c.req.path);
      await next();
    })
    .get("/custom/secret", (c) => c.text("secret"))
    .post("/custom/secret", async (c, next) => {
      await next();
      return c.text("secret");
    })
    .get("/custom/calls", async (c) => c.json(await new Client().threads.search()));

  const guarded = async (given: HttpJson) => {
    const { engine } = shared();
    const tenantOf = async (headers: Headers) => {
      if (headers.get("authorization") === "Bearer right") return DEFAULT_TENANT;
      throw new EngineError("forbidden", "Nobody");
    };
    const served = createApp({ ...engine, tenantOf }, { http: await http(given), ...own(app) });
    const close = bindLoopback(engine.deps, async (request, who) => served.fetch(request, actingAs(who)));
    const status = async (path: string, init: RequestInit = {}) => {
      ran.length = 0;
      return (await served.request(path, init)).status;
    };
    return { status, close };
  };
  const right = { headers: { authorization: "Bearer right" } };

  it("gets nothing of the project's own, and its middleware doesn't see them", async () => {
    const { status, close } = await guarded({});
    expect(await status("/custom/secret")).toBe(403);
    expect(ran).toEqual([]);
    expect(await status("/threads/search", json({}))).toBe(403);
    expect(await status("/info")).toBe(200);
    expect(ran).toEqual(["/info"]);
    expect(await status("/custom/secret", right)).toBe(200);
    expect(await status("/custom/calls", right)).toBe(200);
    close();
  });

  it("is seen by middleware that comes first, and refused before any route", async () => {
    const { status, close } = await guarded({ middleware_order: "middleware_first" });
    expect(await status("/custom/secret")).toBe(403);
    expect(ran).toEqual(["/custom/secret"]);
    expect(await status("/custom/secret", json({}))).toBe(403);
    expect(await status("/threads/search", json({}))).toBe(403);
    expect(await status("/custom/secret", right)).toBe(200);
    expect(await status("/custom/calls", right)).toBe(200);
    close();
  });

  it.each(["auth_first", "middleware_first"] as const)(
    "gets the project's own routes where that is said, and nothing of ours, by way of them neither (%s)",
    async (middleware_order) => {
      const { status, close } = await guarded({ enable_custom_route_auth: false, middleware_order });
      expect(await status("/custom/secret")).toBe(200);
      expect(await status("/threads/search", json({}))).toBe(403);
      expect(await status("/custom/calls")).toBe(500);
      expect(await status("/custom/calls", right)).toBe(middleware_order === "auth_first" ? 200 : 500);
      close();
    },
  );
});

describe("pages", () => {
  const preflight = async (given: HttpJson, origin: string) => {
    const app = createApp(shared().engine, { http: await http(given) });
    const headers = { origin, "access-control-request-method": "POST", "access-control-request-headers": "x-mine" };
    const asked = await app.request("/threads", { method: "OPTIONS", headers });
    const got = await app.request("/info", { headers: { origin } });
    const of = (name: string) => asked.headers.get(`access-control-${name}`);
    return { asked, of, exposed: got.headers.get("access-control-expose-headers"), got };
  };

  it("of any origin may call unless it is said which", async () => {
    const { asked, of, exposed } = await preflight({}, "https://any.test");
    expect([asked.status, of("allow-origin"), of("allow-headers")]).toEqual([204, "*", "x-mine"]);
    expect(exposed).toContain("content-location");
  });

  it("of named origins, or of those that a pattern fits as a whole, may call; others may not", async () => {
    const cors = { allow_origins: ["https://a.test"], allow_origin_regex: "https://.*\\.b\\.test" };
    for (const origin of ["https://a.test", "https://x.b.test"]) {
      const { of, asked } = await preflight({ cors }, origin);
      expect(of("allow-origin")).toBe(origin);
      expect(asked.headers.get("vary")).toContain("Origin");
    }
    for (const origin of ["https://c.test", "https://x.b.test.evil.test", "https://a.test.evil.test", "null"]) {
      expect((await preflight({ cors }, origin)).of("allow-origin")).toBeNull();
    }
  });

  it("that send credentials are named, and get what else is said", async () => {
    const { of, exposed } = await preflight(
      {
        cors: {
          allow_origins: ["*"],
          allow_credentials: true,
          allow_methods: ["GET", "POST"],
          allow_headers: ["x-mine", "content-type"],
          expose_headers: ["X-Seen"],
          max_age: 600,
        },
      },
      "https://any.test",
    );
    expect(of("allow-origin")).toBe("https://any.test");
    expect(of("allow-credentials")).toBe("true");
    expect(of("allow-methods")).toBe("GET,POST");
    expect(of("allow-headers")).toBe("x-mine,content-type");
    expect(of("max-age")).toBe("600");
    // Stock clients can't do without the others.
    expect(exposed).toMatch(/content-location.*x-seen/);
  });
});

it("what is turned off isn't there, but for routes of the project's own", async () => {
  const id = "00000000-0000-4000-8000-000000000000";
  const paths: Readonly<Record<string, readonly string[]>> = {
    disable_assistants: ["/assistants/search", "/assistants"],
    disable_threads: ["/threads", `/threads/${id}/history`, `/threads/${id}/commands`],
    disable_runs: ["/runs", "/runs/wait", "/runs/crons", `/threads/${id}/runs`, `/threads/${id}/commands`],
    disable_store: ["/store/items/search"],
    disable_mcp: ["/mcp"],
    disable_a2a: ["/a2a/steps", "/.well-known/agent-card.json"],
    disable_ui: ["/ui/steps"],
  };
  const all = Object.values(paths).flat();
  for (const [key, off] of Object.entries(paths)) {
    const app = createApp(shared().engine, { http: await http({ [key]: true }) });
    for (const path of all) {
      const how = path.startsWith("/.well-known/") ? {} : { method: "POST", body: "[" };
      const response = await app.request(path, how);
      const isGone = response.status === 404 && (await response.text()).startsWith("Nothing is served at");
      expect([key, path, isGone]).toEqual([key, path, off.includes(path)]);
    }
  }
  const app = createApp(shared().engine, {
    http: await http({ disable_meta: true, disable_threads: true }),
    ...own(new Hono().get("/threads/mine", (c) => c.text("mine"))),
  });
  expect((await app.request("/info")).status).toBe(404);
  expect((await app.request("/ok")).status).toBe(200);
  expect(await (await app.request("/threads/mine")).text()).toBe("mine");
  expect((await app.request(`/threads/${id}`)).status).toBe(404);
});

it("graphs find the headers that are to be passed to them", async () => {
  const { configurableHeaders } = await http({
    configurable_headers: { includes: ["Authorization", "my-*"], excludes: ["x-secret*"] },
  });
  const { engine, client } = shared();
  const app = createApp({ ...engine, configurableHeaders });
  const headers = { authorization: "Bearer t", "my-tenant": "a", "x-kept": "b", "x-secret-key": "c", other: "d" };
  const { thread_id } = await client.threads.create();
  const asked = json({ assistant_id: "steps", input: {} });
  const made = await app.request(`/threads/${thread_id}/runs`, { ...asked, headers: { ...asked.headers, ...headers } });
  const { kwargs } = (await made.json()) as { kwargs: { config: { configurable: Record<string, unknown> } } };
  expect(kwargs.config.configurable).toMatchObject({ authorization: "Bearer t", "my-tenant": "a", "x-kept": "b" });
  expect(Object.keys(kwargs.config.configurable)).not.toEqual(expect.arrayContaining(["x-secret-key"]));
  expect(kwargs.config.configurable).not.toHaveProperty("other");
});

it("a mount prefix may stand before every path", async () => {
  const app = createApp(shared().engine, { http: await http({ mount_prefix: "/agents/" }), ...own(around) });
  for (const path of ["/agents/ok", "/ok", "/agents/custom/hello"]) expect((await app.request(path)).status).toBe(200);
  expect((await app.request("/agentsok")).status).toBe(404);
});
