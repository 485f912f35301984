// Tokens of an issuer that is trusted: which are let in, and what is made of whatever else calls itself one.
import { createServer, type Server } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Annotation, END, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { exportJWK, exportSPKI, generateKeyPair, SignJWT } from "jose";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createApp } from "../../src/api/app.js";
import { createGate } from "../../src/api/auth/gate.js";
import type { JwtSettings } from "../../src/api/auth/jwt.js";
import { createTenantOpener } from "../../src/engine/open-tenant.js";
import { clientAs, gateOf, ownersAuth, sendAs } from "../helpers/users.js";
import { sharedEngine } from "./shared.js";

const who = new StateGraph(Annotation.Root({ who: Annotation<unknown>, n: Annotation<number> }))
  .addNode("look", (_, { configurable = {} }: LangGraphRunnableConfig) => ({
    who: configurable["langgraph_auth_user"],
  }))
  .addEdge(START, "look")
  .addEdge("look", END)
  .compile();

/** Longer than the token of who asks for it. */
const slow = new StateGraph(Annotation.Root({ n: Annotation<number> }))
  .addNode("sleep", async () => {
    await sleep(18_000);
    return { n: 1 };
  })
  .addEdge(START, "sleep")
  .addEdge("sleep", END)
  .compile();

const ISSUER = "https://issuer.example";
const engine = sharedEngine({ graphs: { who, slow } });
type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>;
let ours: KeyPair;
let others: KeyPair;
let issuer: Server;
const served = { keys: [] as object[], status: 200, asked: 0 };

beforeAll(async () => {
  [ours, others] = [await generateKeyPair("ES256", { extractable: true }), await generateKeyPair("ES256")];
  served.keys = [{ ...(await exportJWK(ours.publicKey)), kid: "one", alg: "ES256" }];
  issuer = createServer((_request, response) => {
    served.asked += 1;
    response
      .writeHead(served.status, { "content-type": "application/json" })
      .end(JSON.stringify({ keys: served.keys }));
  }).listen(0, "127.0.0.1");
  await once(issuer, "listening");
});
afterAll(() => void issuer.close());

function behind(more: Partial<JwtSettings> = {}, auth: ReturnType<typeof ownersAuth> | null = null) {
  const { engine: inner, deps } = engine();
  const { port } = issuer.address() as AddressInfo;
  const jwt = {
    jwksUrl: `http://127.0.0.1:${port}/jwks`,
    issuer: ISSUER,
    audience: "perdure",
    tenantClaim: null,
    permissionsClaim: null,
    ...more,
  };
  const module = auth === null ? null : (gateOf(auth) as Exclude<ReturnType<typeof gateOf>, "open">).module;
  const openTenant = createTenantOpener(deps, { graphIds: inner.graphs.ids, hasRetention: false });
  return createApp({ ...inner, gate: createGate(deps, { module, studio: false, jwt, openTenant }) });
}

type Claims = Readonly<Record<string, unknown>>;
const CLAIMS: Claims = { sub: "ana", iss: ISSUER, aud: "perdure" };
function token(
  claims: Claims = {},
  { key = ours.privateKey, kid = "one", expires = "1m", alg = "ES256" } = {},
): Promise<string> {
  const all = Object.fromEntries(Object.entries({ ...CLAIMS, ...claims }).filter(([, value]) => value !== undefined));
  const unsigned = new SignJWT(all).setProtectedHeader({ alg, kid }).setIssuedAt();
  return (expires === "never" ? unsigned : unsigned.setExpirationTime(expires)).sign(key);
}
const status = async (app: ReturnType<typeof createApp>, text: string) =>
  (await sendAs(app, "")("POST", "/threads/count", {}, { authorization: `Bearer ${text}` })).status;

describe("a token", () => {
  it("of the issuer for us lets in, and graphs are told whose it is", async () => {
    const app = behind();
    const ana = clientAs(app, { authorization: `Bearer ${await token({ email: "ana@example.com", name: "Ana" })}` });
    expect(await ana.runs.wait(null, "who", { input: { n: 1 } })).toMatchObject({
      who: { identity: "ana", display_name: "Ana", email: "ana@example.com", is_authenticated: true },
    });
  });

  it("that is anything else is refused with 401, and nothing says why", async () => {
    const app = behind();
    const [header = "", payload = ""] = (await token()).split(".");
    const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
    const spki = new TextEncoder().encode(await exportSPKI(ours.publicKey));
    const wrong: Record<string, string> = {
      expired: await token({}, { expires: "-1m" }),
      "without an end": await token({}, { expires: "never" }),
      "of another issuer": await token({ iss: "https://evil.example" }),
      "for somebody else": await token({ aud: "another" }),
      "for nobody": await token({ aud: undefined }),
      "of nobody": await token({ sub: undefined }),
      "of an empty name": await token({ sub: "" }),
      "signed by another": await token({}, { key: others.privateKey }),
      "of an unknown key": await token({}, { kid: "two" }),
      unsigned: `${none}.${payload}.`,
      "with a signature that is missing": `${header}.${payload}.`,
      "signed with the public key": await new SignJWT({ ...CLAIMS })
        .setProtectedHeader({ alg: "HS256", kid: "one" })
        .setExpirationTime("1m")
        .sign(spki),
      "not yet valid": await token({ nbf: Math.floor(Date.now() / 1_000) + 600 }),
      garbage: "a.b.c",
      empty: "",
    };
    for (const [what, text] of Object.entries(wrong)) {
      expect([what, await status(app, text)]).toEqual([what, 401]);
    }
    expect(await status(app, await token())).toBe(200);
  });

  it("of unknown keys doesn't have the issuer asked each time", async () => {
    const app = behind();
    const before = served.asked;
    for (let n = 0; n < 20; n += 1) expect(await status(app, await token({}, { kid: `k${n}` }))).toBe(401);
    expect(served.asked - before).toBeLessThanOrEqual(2);
  });

  it("can't be checked while the issuer is away: 503, and then it can", async () => {
    const app = behind();
    served.status = 500;
    expect(await status(app, await token())).toBe(503);
    served.status = 200;
    expect(await status(app, await token())).toBe(200);
    expect(await status(behind({ jwksUrl: "http://127.0.0.1:1/jwks" }), await token())).toBe(503);
  });

  it("for anybody lets in only where that was said", async () => {
    expect(await status(behind({ audience: null }), await token({ aud: "another" }))).toBe(200);
  });

  it("names its tenant, which is there from its first request on", async () => {
    const app = behind({ tenantClaim: "org" });
    const of = async (org: unknown) => clientAs(app, { authorization: `Bearer ${await token({ org })}` });
    const [one, two] = [await of("org-one"), await of("org-two")];
    const { thread_id } = await one.threads.create();
    expect(await one.runs.wait(thread_id, "who", { input: { n: 1 } })).toMatchObject({ who: { org: "org-one" } });
    await expect(two.threads.get(thread_id)).rejects.toThrow("HTTP 404");
    expect(await two.threads.search()).toEqual([]);
    for (const org of [undefined, "", "Not A Tenant", 7, ["org-one"]]) {
      expect(await status(app, await token({ org }))).toBe(401);
    }
  });

  it("without handlers reaches all threads of its tenant but nothing of operators, unless its permissions say less or more", async () => {
    const get = async (app: ReturnType<typeof createApp>, path: string, claims: Claims = {}) =>
      (await sendAs(app, "")("GET", path, undefined, { authorization: `Bearer ${await token(claims)}` })).status;
    expect(await get(behind(), "/v1/runs")).toBe(200);
    expect(await get(behind(), "/v1/budgets")).toBe(403);
    const scoped = behind({ permissionsClaim: "scope" });
    expect(await get(scoped, "/v1/runs", { scope: "threads:search budgets:read" })).toBe(200);
    expect(await get(scoped, "/v1/budgets", { scope: ["budgets:read"] })).toBe(200);
    expect(await get(scoped, "/v1/runs", { scope: ["assistants"] })).toBe(403);
    expect(await get(scoped, "/v1/runs")).toBe(403);
  });
});

describe("an open stream", () => {
  it("ends soon after its token has, and says why", async () => {
    const app = behind();
    const { thread_id } = await clientAs(app, { authorization: `Bearer ${await token()}` }).threads.create();
    const headers = { authorization: `Bearer ${await token({}, { expires: "1s" })}` };
    const { status, text } = await sendAs(app, "")("GET", `/threads/${thread_id}/stream`, undefined, headers);
    expect([status, text.replaceAll(": heartbeat\n\n", "")]).toEqual([
      200,
      'event: error\ndata: {"error":"unauthorized","message":"401: Not authenticated any more: the key or token that opened this is over"}\n\n',
    ]);
    expect((await sendAs(app, "")("GET", `/threads/${thread_id}/stream`, undefined, headers)).status).toBe(401);
  }, 30_000);

  it("of MCP or A2A says it in JSON-RPC, as their clients read it", async () => {
    const app = behind();
    const over = { code: -32600, message: expect.stringMatching(/^401: Not authenticated any more/) as string };
    const last = async (path: string, method: string, params: object): Promise<unknown> => {
      const authorization = `Bearer ${await token({}, { expires: "2s" })}`;
      const headers = { authorization, accept: "application/json, text/event-stream" };
      const { text } = await sendAs(app, "")("POST", path, { jsonrpc: "2.0", id: 7, method, params }, headers);
      return JSON.parse(text.split("data: ").at(-1) ?? "");
    };
    const parts = [{ kind: "data", data: { n: 0 } }];
    expect(
      await Promise.all([
        last("/mcp", "tools/call", { name: "slow", arguments: { n: 0 } }),
        last("/a2a/slow", "message/stream", { message: { messageId: "m", role: "user", parts } }),
      ]),
    ).toEqual([
      { jsonrpc: "2.0", id: 7, error: over },
      { jsonrpc: "2.0", id: 7, error: over },
    ]);
  }, 30_000);
});

describe("with the handlers of auth.path", () => {
  it("tokens say who asks where the Auth doesn't, and the handlers what that user may", async () => {
    const auth = ownersAuth();
    delete (auth["~handlerCache"] as { authenticate?: unknown }).authenticate;
    const app = behind({ permissionsClaim: "scope" }, auth);
    const [ana, ben] = await Promise.all(
      ["ana", "ben"].map(async (sub) => clientAs(app, { authorization: `Bearer ${await token({ sub })}` })),
    );
    const thread = await ana?.threads.create();
    expect(thread?.metadata).toMatchObject({ owner: "ana" });
    await expect(ben?.threads.get(thread?.thread_id ?? "")).rejects.toThrow("HTTP 404");
    expect((await sendAs(app, "ana")("POST", "/threads", {})).status).toBe(401);
  });
});
