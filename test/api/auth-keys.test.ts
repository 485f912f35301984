// API keys over HTTP: whose they are, how far they go, and when they end.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { describe, expect, it, onTestFinished } from "vitest";
import WebSocket from "ws";
import { createApp } from "../../src/api/app.js";
import { createGate } from "../../src/api/auth/gate.js";
import { serveApi } from "../../src/api/server.js";
import type { TenantId } from "../../src/core/ids.js";
import { createApiKey, rotateApiKey } from "../../src/engine/commands/create-api-key.js";
import { revokeApiKey } from "../../src/keys/api-keys.js";
import { clientAs, gateOf, ownersAuth, sendAs } from "../helpers/users.js";
import { sharedEngine } from "./shared.js";

const add = new StateGraph(Annotation.Root({ n: Annotation<number> }))
  .addNode("add", ({ n }) => ({ n: n + 1 }))
  .addEdge(START, "add")
  .addEdge("add", END)
  .compile();

/** Nothing but keys lets in. */
const engine = sharedEngine({ graphs: { add }, auth: { module: null, studio: false, jwt: null } });

async function newKey(of: Readonly<{ tenantId?: string; scopes?: readonly string[]; expiresInMs?: number }> = {}) {
  const { tenantId = "default", scopes = ["*"], expiresInMs = null } = of;
  return createApiKey(engine().deps, { tenantId, name: "a test", scopes, expiresInMs });
}

const withKey = (key: string) => clientAs(engine().app, { "x-api-key": key });
const send = (key: string, method: string, path: string, body?: unknown) =>
  sendAs(engine().app, "")(method, path, body, { "x-api-key": key });

describe("without a key", () => {
  it("nothing is open but what says that it is up and what it can", async () => {
    const none = sendAs(engine().app, "");
    for (const path of ["/ok", "/info"]) expect((await none("GET", path)).status, path).toBe(200);
    for (const { method, path } of createApp({ ...engine().engine, gate: null }).routes) {
      if (
        method === "ALL" ||
        /^(\w+ \/(ok|info|docs|openapi|v1\/(widget|channels))|GET \/ui\/)/.test(`${method} ${path}`)
      )
        continue;
      const { status, headers } = await none(
        method,
        path.replaceAll(/:\w+\??/g, "x"),
        method === "GET" ? undefined : {},
      );
      expect([method, path, status]).toEqual([method, path, 401]);
      expect(headers.get("www-authenticate")).toBe("Bearer");
    }
  });

  it("a preflight is answered, since browsers send none of their own with it", async () => {
    const headers = {
      origin: "https://app.example",
      "access-control-request-method": "POST",
      "access-control-request-headers": "x-api-key",
    };
    const answer = await engine().app.request("/threads", { method: "OPTIONS", headers });
    expect([answer.status, answer.headers.get("access-control-allow-headers")]).toEqual([204, "x-api-key"]);
    // And a page can read why it isn't let in.
    const refused = await sendAs(engine().app, "")("POST", "/threads", {}, { origin: "https://app.example" });
    expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([401, "*"]);
  });

  it.each([
    ["none", ""],
    ["another's", "lsv2_pt_abc"],
    ["half of one", "pdk_default.AAAA"],
    [
      "one that nobody has",
      `pdk_default.${randomBytes(16).toString("base64url")}.${randomBytes(32).toString("base64url")}`,
    ],
    [
      "one of a tenant that isn't",
      `pdk_nobody.${randomBytes(16).toString("base64url")}.${randomBytes(32).toString("base64url")}`,
    ],
    ["a very long one", `pdk_${"a".repeat(10_000)}`],
    ["SQL", "pdk_default'; drop table api_keys; --"],
  ])("%s: 401", async (_, key) => {
    expect((await send(key, "POST", "/threads", {})).status).toBe(401);
    const bearer = { authorization: `Bearer ${key}` };
    expect((await sendAs(engine().app, "")("POST", "/threads", {}, bearer)).status).toBe(401);
  });

  it("headers that are longer than anybody's are refused before they are read", async () => {
    const server = await serveApi(engine().app, { port: 0 });
    const answers = ["x-api-key", "authorization"].map(async (name) => {
      const sent = request(`${server.url}/threads`, { headers: { [name]: `Bearer pdk_${"a".repeat(100_000)}` } }).end();
      const [answer] = (await once(sent, "response")) as [IncomingMessage];
      answer.resume();
      return answer.statusCode;
    });
    expect(await Promise.all(answers)).toEqual([431, 431]);
    await server.close({ graceMs: 0 });
  });

  it("a tenant is not made by a key that nobody gave out", async () => {
    const { rowCount } = await engine().db.db.query("select 1 from tenants where tenant_id = 'nobody'");
    expect(rowCount).toBe(0);
  });
});

describe("with a key", () => {
  it("the stock client works, by x-api-key and as a bearer token; only a hash of the key is stored", async () => {
    const { key, row } = await newKey();
    expect(key).toMatch(/^pdk_default\.[\w-]{22}\.[\w-]{43}$/);
    expect(await withKey(key).runs.wait(null, "add", { input: { n: 1 } })).toEqual({ n: 2 });
    const bearer = clientAs(engine().app, { authorization: `Bearer ${key}` });
    expect(await bearer.runs.wait(null, "add", { input: { n: 2 } })).toEqual({ n: 3 });
    const { rows } = await engine().db.db.query<{ row: string }>(
      "select to_jsonb(k)::text as row from api_keys k where tenant_id = 'default' and api_key_id = $1",
      [row.apiKeyId],
    );
    expect(rows[0]?.row).not.toContain(key.split(".")[2]);
    expect(rows[0]?.row).not.toContain('"last_used_at": null');
  });

  it("a key with another's secret opens nothing", async () => {
    const [one, other] = [await newKey(), await newKey({ tenantId: "acme" })];
    const parts = one.key.split(".");
    const [tenant, id, secret] = other.key.split(".");
    expect((await send(`${parts[0]}.${parts[1]}.${secret}`, "GET", "/threads/x")).status).toBe(401);
    expect((await send(`${parts[0]}.${id}.${secret}`, "GET", "/threads/x")).status).toBe(401);
    expect((await send(`${tenant}.${id}.${parts[2]}`, "GET", "/threads/x")).status).toBe(401);
  });

  it("it says the tenant, whose graphs are there at once and whose threads nobody else's key sees", async () => {
    const [ours, theirs] = [await newKey({ tenantId: "tenant-a" }), await newKey({ tenantId: "tenant-b" })];
    const { thread_id } = await withKey(ours.key).threads.create();
    expect(await withKey(ours.key).runs.wait(thread_id, "add", { input: { n: 1 } })).toEqual({ n: 2 });
    expect((await send(theirs.key, "GET", `/threads/${thread_id}`)).status).toBe(404);
    expect(await withKey(theirs.key).threads.search()).toEqual([]);
    expect(await withKey(theirs.key).assistants.search()).toHaveLength(1);
  });

  it("its scopes say how far it goes", async () => {
    const reads = await newKey({ scopes: ["threads:read", "threads:search", "assistants"] });
    expect((await send(reads.key, "POST", "/threads/search", {})).status).toBe(200);
    expect((await send(reads.key, "POST", "/assistants", { graph_id: "add" })).status).toBe(200);
    const refused = await send(reads.key, "POST", "/threads", {});
    expect([refused.status, refused.text]).toEqual([403, "Not authorized: this needs the scope threads:create"]);
    for (const [method, path, body] of [
      ["POST", "/runs", { assistant_id: "add" }],
      ["POST", "/runs/batch", [{ assistant_id: "add" }]],
      ["POST", "/runs/cancel", { status: "all" }],
      ["PUT", "/store/items", { namespace: ["a"], key: "k", value: {} }],
      ["POST", "/runs/crons", { assistant_id: "add", schedule: "* * * * *" }],
      ["GET", "/v1/budgets", undefined],
      ["POST", "/v1/channel-accounts", {}],
    ] as const) {
      expect([path, (await send(reads.key, method, path, body)).status]).toEqual([path, 403]);
    }
    const money = await newKey({ scopes: ["budgets"] });
    expect((await send(money.key, "GET", "/v1/budgets")).status).toBe(200);
    expect((await send(money.key, "GET", "/v1/prices")).status).toBe(403);
    const everyRead = await newKey({ scopes: ["*:read"] });
    expect((await send(everyRead.key, "GET", "/v1/prices")).status).toBe(200);
    expect((await send(everyRead.key, "PUT", "/v1/prices/x", { input_cost: 1, output_cost: 1 })).status).toBe(403);
  });

  it("what counts over all tenants is for the default one's only, and for scopes that name it", async () => {
    for (const scopes of [["*"], ["metrics"], ["metrics:read"]]) {
      const [operators, theirs] = [await newKey({ scopes }), await newKey({ tenantId: "acme", scopes })];
      expect((await send(operators.key, "GET", "/metrics")).text).toContain("perdure_runs{");
      const refused = await send(theirs.key, "GET", "/metrics");
      expect([refused.status, refused.text]).toMatchObject([403, expect.stringMatching(/^Not authorized: metrics/)]);
    }
    expect((await send((await newKey({ scopes: ["threads"] })).key, "GET", "/metrics")).status).toBe(403);
  });

  it("the handlers of auth.path are not asked: its scopes say all of it", async () => {
    const { engine: inner, deps } = engine();
    const settings = gateOf(ownersAuth()) as Exclude<ReturnType<typeof gateOf>, "open">;
    const gate = createGate(deps, { ...settings, openTenant: () => Promise.resolve() });
    const app = createApp({ ...inner, gate });
    const { key } = await newKey();
    const anas = await sendAs(app, "ana")("POST", "/threads", {});
    const { thread_id } = JSON.parse(anas.text) as { thread_id: string };
    const answer = await sendAs(app, "ben")("GET", `/threads/${thread_id}`, undefined, { "x-api-key": key });
    expect(answer.status).toBe(200);
  });

  it("runs are told who it is", async () => {
    const { key, row } = await newKey();
    const { thread_id } = await withKey(key).threads.create();
    const run = await withKey(key).runs.create(thread_id, "add", { input: { n: 1 }, afterSeconds: 600 });
    expect(run).toMatchObject({
      kwargs: { config: { configurable: { langgraph_auth_user_id: `key:${row.apiKeyId}` } } },
    });
  });
});

describe("a key ends", () => {
  const isOpen = async (key: string) => (await send(key, "POST", "/threads/count", {})).status;

  it("within seconds of being revoked, also in a process that has just used it", async () => {
    const { key, row } = await newKey();
    expect(await isOpen(key)).toBe(200);
    await revokeApiKey(engine().deps.db, row);
    const startMs = performance.now();
    while ((await isOpen(key)) === 200) expect(performance.now() - startMs).toBeLessThan(6_000);
    expect(await isOpen(key)).toBe(401);
  }, 15_000);

  it("with its streams, which say so; its runs go on, and another key goes on with them", async () => {
    const { key, row } = await newKey();
    const server = await serveApi(engine().app, { port: 0 });
    onTestFinished(() => server.close({ graceMs: 0 }));
    const { thread_id } = await withKey(key).threads.create();
    const run = { assistant_id: "add", input: { n: 1 }, after_seconds: 3_600, on_disconnect: "cancel" };
    const headers = { "x-api-key": key, "content-type": "application/json" };
    const [started, waiting] = await Promise.all(
      ["stream", "wait"].map((how) =>
        fetch(`${server.url}/threads/${thread_id}/runs/${how}`, { method: "POST", headers, body: JSON.stringify(run) }),
      ),
    );
    const [runPath = ""] = /\/threads\/.*/.exec(started?.headers.get("content-location") ?? "") ?? [];
    const paths = [`/threads/${thread_id}/stream`, `${runPath}/stream`, `/v1${runPath.slice(45)}/events`];
    const streams = [
      started,
      ...(await Promise.all(
        paths.map((path) => fetch(server.url + path, { headers: { ...headers, accept: "text/event-stream" } })),
      )),
    ];
    expect(streams.map((stream) => stream?.status)).toEqual([200, 200, 200, 200]);
    for (const stream of streams) {
      expect(stream?.headers.get("cache-control")).toBe("no-cache, no-store, no-transform");
      expect(stream?.headers.get("x-accel-buffering")).toBe("no");
    }
    const events = `${server.url.replace("http", "ws")}/threads/${thread_id}/stream/events`;
    const socket = new WebSocket(events, { headers });
    await once(socket, "open");
    const closed = once(socket, "close");
    await revokeApiKey(engine().deps.db, row);
    const startMs = performance.now();
    for (const stream of streams)
      expect(await stream?.text()).toMatch(/event: error\ndata: {"error":"unauthorized".*\n\n$/);
    expect(await waiting?.json()).toMatchObject({ __error__: { error: "unauthorized" } });
    expect((await closed)[0]).toBe(4401);
    expect(performance.now() - startMs).toBeLessThan(12_000);
    expect((await fetch(`${server.url}${runPath}/stream`, { headers })).status).toBe(401);
    const runs = await withKey((await newKey()).key).runs.list(thread_id);
    expect(runs.map(({ status }) => status)).toEqual(["pending", "pending"]);
  }, 30_000);

  it("over a WebSocket before the next command is done", async () => {
    const { key, row } = await newKey();
    const server = await serveApi(engine().app, { port: 0 });
    onTestFinished(() => server.close({ graceMs: 0 }));
    const { thread_id } = await withKey(key).threads.create();
    const url = `${server.url.replace("http", "ws")}/threads/${thread_id}/stream/events`;
    const socket = new WebSocket(url, { headers: { "x-api-key": key } });
    await once(socket, "open");
    const closed = once(socket, "close");
    await revokeApiKey(engine().deps.db, row);
    const timer = setInterval(() => {
      socket.send(JSON.stringify({ id: 1, method: "run.start", params: { assistant_id: "nobody" } }));
    }, 100);
    onTestFinished(() => clearInterval(timer));
    expect((await closed)[0]).toBe(4401);
  }, 30_000);

  it("when it has expired, at the latest after the same time", async () => {
    const { key } = await newKey({ expiresInMs: 1 });
    expect(await isOpen(key)).toBe(401);
  });

  it("after it was rotated, when the time is over for which it is kept", async () => {
    const old = await newKey({ scopes: ["threads"], expiresInMs: 86_400_000 });
    const rotated = await rotateApiKey(engine().deps, { ...old.row, keepMs: 0 });
    expect(rotated.row).toMatchObject({ name: "a test", scopes: ["threads"], rotates: old.row.apiKeyId });
    expect((rotated.row.expiresAt?.getTime() ?? 0) - rotated.row.createdAt.getTime()).toBe(86_400_000);
    expect([await isOpen(old.key), await isOpen(rotated.key)]).toEqual([401, 200]);
    await expect(rotateApiKey(engine().deps, { ...old.row, keepMs: 0 })).rejects.toMatchObject({ code: "not_found" });
  });

  it("a kept one opens as long as the new one is handed out", async () => {
    const old = await newKey();
    const rotated = await rotateApiKey(engine().deps, { ...old.row, keepMs: 60_000 });
    expect([await isOpen(old.key), await isOpen(rotated.key)]).toEqual([200, 200]);
  });
});

describe("what can't be a key", () => {
  it.each([
    [{ tenantId: "Upper" }, /no tenant/],
    [{ name: " " }, /name/],
    [{ scopes: [] }, /without a scope/],
    [{ scopes: ["thread"] }, /did you mean "threads"/],
    [{ scopes: ["threads:reed"] }, /did you mean "read"/],
    [{ scopes: ["threads:put"] }, /no scope/],
    [{ scopes: ["*:fly"] }, /no scope/],
  ])("%j is refused", async (wrong, message) => {
    const asked = { tenantId: "default", name: "n", scopes: ["*"], expiresInMs: null, ...wrong };
    await expect(createApiKey(engine().deps, asked)).rejects.toThrow(message);
  });

  it("a key of another tenant isn't revoked", async () => {
    const { row } = await newKey();
    const key = { tenantId: "acme" as TenantId, apiKeyId: row.apiKeyId };
    expect(await revokeApiKey(engine().deps.db, key)).toBeUndefined();
  });
});
