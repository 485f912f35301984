// The project's own `Auth`, as the stock client's documentation has it: who a request is of, what its handlers say, and what they make of it.
import { randomUUID } from "node:crypto";
import { Annotation, END, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { Auth, HTTPException } from "@langchain/langgraph-sdk/auth";
import { describe, expect, it, onTestFinished } from "vitest";
import WebSocket from "ws";
import { createApp } from "../../src/api/app.js";
import { ACTING_AS } from "../../src/api/auth/door.js";
import { createGate } from "../../src/api/auth/gate.js";
import { serveApi } from "../../src/api/server.js";
import type { TenantId } from "../../src/core/ids.js";
import { clientAs, gateOf, ownersAuth, sendAs, USER_HEADER } from "../helpers/users.js";
import { sharedEngine } from "./shared.js";

const Seen = Annotation.Root({ seen: Annotation<Record<string, unknown>>, step: Annotation<number> });
/** Says who it was asked by. */
const whoami = new StateGraph(Seen)
  .addNode("look", (_state, { configurable = {} }: LangGraphRunnableConfig) => ({
    seen: Object.fromEntries(Object.entries(configurable).filter(([key]) => key.startsWith("langgraph_auth"))),
  }))
  .addEdge(START, "look")
  .addEdge("look", END)
  .compile();

const engine = sharedEngine({ graphs: { whoami }, auth: gateOf(ownersAuth()) });

/** The same engine behind another `Auth`. */
function behind(auth: object, studio = false) {
  const { engine: inner, deps } = engine();
  const module = auth as Exclude<ReturnType<typeof gateOf>, "open">["module"];
  const gate = createGate(deps, { module, studio, jwt: null, openTenant: () => Promise.resolve() });
  return createApp({ ...inner, gate });
}

const as = (user: string) => sendAs(engine().app, user);
const client = (user: string) => clientAs(engine().app, { [USER_HEADER]: user });
const user = (identity = "ana") => new Auth().authenticate(() => identity);

describe("who a request is of", () => {
  it("is asked for everything but /ok and /info, and what the handler throws is the answer", async () => {
    for (const path of ["/ok", "/info"]) expect((await as("")("GET", path)).status, path).toBe(200);
    const answer = await as("")("POST", "/threads/search", {});
    expect([answer.status, answer.text, answer.headers.get("x-say")]).toEqual([401, "Who are you?", "who"]);
    expect((await as("")("GET", "/nothing/here")).status).toBe(401);
    expect((await as("ana")("GET", "/nothing/here")).status).toBe(404);
  });

  it("is told to graphs, whatever the request says of itself", async () => {
    const asked = { input: { step: 1 }, config: { configurable: { langgraph_auth_user_id: "root" } } };
    const { thread_id } = await client("ana read write").threads.create();
    const said = await client("ana read write").runs.wait(thread_id, "whoami", asked);
    expect(said).toMatchObject({
      seen: {
        langgraph_auth_user_id: "ana",
        langgraph_auth_permissions: ["read", "write"],
        langgraph_auth_user: {
          ...{ identity: "ana", display_name: "ana", is_authenticated: true, permissions: ["read", "write"] },
        },
      },
    });
    const stateless = (await client("ben").runs.wait(null, "whoami", asked)) as { seen: object };
    expect(stateless.seen).toMatchObject({ langgraph_auth_user_id: "ben" });
  });

  it.each([
    ["nothing", () => undefined],
    ["no identity", () => ({ permissions: [] })],
    ["an empty identity", () => ""],
    ["a number", () => 7],
    ["what is no JSON", () => ({ identity: "a", big: 1n })],
    ["much too much", () => ({ identity: "a", more: "x".repeat(100_000) })],
  ])("lets nobody in when authenticate gives back %s, and says that to the log only", async (_, authenticate) => {
    const app = behind(new Auth().authenticate(authenticate as never));
    const { status, text } = await sendAs(app, "x")("POST", "/threads", {});
    expect([status, text]).toEqual([500, "Authentication failed on the server's side; its log says why"]);
  });

  it("lets nobody in who is not authenticated, when it throws, or has it thrown what is no error", async () => {
    const no = behind(new Auth().authenticate(() => ({ identity: "a", permissions: [], is_authenticated: false })));
    expect((await sendAs(no, "x")("POST", "/threads", {})).status).toBe(401);
    for (const thrown of [new Error("secret of the database"), "a string", undefined, { status: 200 }]) {
      const app = behind(
        new Auth().authenticate(() => {
          // eslint-disable-next-line @typescript-eslint/only-throw-error -- what a project throws is its own
          throw thrown;
        }),
      );
      const { status, text } = await sendAs(app, "x")("POST", "/threads", {});
      expect([status, text.includes("secret")]).toEqual([500, false]);
    }
  });

  it("lets nobody in while it doesn't answer, and says so in ten seconds", async () => {
    const app = behind(new Auth().authenticate(() => new Promise<never>(() => undefined)));
    const { status, headers } = await sendAs(app, "x")("POST", "/threads", {});
    expect([status, headers.get("retry-after")]).toEqual([503, "1"]);
  }, 15_000);

  it("may be LangGraph Studio only where that was said", async () => {
    const headers = { "x-auth-scheme": "langsmith" };
    const auth = ownersAuth();
    expect((await sendAs(behind(auth), "")("POST", "/threads", {}, headers)).status).toBe(401);
    const { status, text } = await sendAs(behind(auth, true), "")("POST", "/threads", {}, headers);
    expect([status, JSON.parse(text)]).toMatchObject([200, { metadata: { owner: "langgraph-studio-user" } }]);
  });
});

describe("handlers", () => {
  it("are found by event, resource, action, and for all, in this order", async () => {
    const found: string[] = [];
    const told = (name: string) => () => void found.push(name);
    const app = behind(
      user()
        .on("threads:create", told("threads:create"))
        .on("threads", told("threads"))
        .on("*:create", told("*:create"))
        .on("*", told("*")),
    );
    const send = sendAs(app, "");
    const { thread_id } = JSON.parse((await send("POST", "/threads", {})).text) as { thread_id: string };
    await send("GET", `/threads/${thread_id}`);
    await send("POST", "/assistants", { graph_id: "whoami" });
    await send("POST", "/assistants/search", {});
    await send("POST", "/store/namespaces", {});
    expect(found).toEqual(["threads:create", "threads", "*:create", "*", "*"]);
  });

  it("are told who does what to which", async () => {
    const told: Record<string, unknown>[] = [];
    const app = behind(
      new Auth()
        .authenticate(() => ({ identity: "ana", permissions: ["p"] }))
        .on("*", (asked) => void told.push(structuredClone(asked) as never)),
    );
    const send = sendAs(app, "");
    const { thread_id } = JSON.parse((await send("POST", "/threads", { metadata: { a: 1 } })).text) as {
      thread_id: string;
    };
    await send("POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "whoami", input: { step: 1 } });
    expect(told).toMatchObject([
      {
        event: "threads:create",
        resource: "threads",
        action: "create",
        permissions: ["p"],
        value: { metadata: { a: 1 } },
      },
      {
        ...{ event: "threads:create_run", user: { identity: "ana", permissions: ["p"] } },
        value: { thread_id, assistant_id: "whoami", status: "pending", metadata: {}, kwargs: { input: { step: 1 } } },
      },
    ]);
  });

  it("refuse with false, with an exception's status, and with what means nothing", async () => {
    const said: Record<string, () => unknown> = {
      "threads:create": () => false,
      "threads:read": () => {
        throw new HTTPException(418, { message: "not now" });
      },
      "threads:search": () => "yes",
      "threads:update": () => ({ owner: undefined }),
      "threads:delete": () => ({ owner: { $ne: "ana" } }),
      "threads:create_run": () => ({ owner: { $eq: { deep: true } } }),
      assistants: () => [],
    };
    const auth = user();
    for (const [event, handler] of Object.entries(said)) auth.on(event as "*", handler as never);
    const send = sendAs(behind(auth), "");
    const id = randomUUID();
    expect(await send("POST", "/threads", {})).toMatchObject({ status: 403, text: "Not authorized" });
    expect(await send("GET", `/threads/${id}`)).toMatchObject({ status: 418, text: "not now" });
    // A filter that is misunderstood would let through too much.
    expect((await send("POST", "/threads/search", {})).status).toBe(500);
    expect((await send("PATCH", `/threads/${id}`, {})).status).toBe(500);
    expect((await send("DELETE", `/threads/${id}`)).status).toBe(500);
    expect((await send("POST", `/threads/${id}/runs`, { assistant_id: "whoami" })).status).toBe(500);
    expect((await send("POST", "/assistants/search", {})).status).toBe(500);
  });

  it("filter by value, $eq and $contains, in pages and counts and for each thread", async () => {
    const tag = randomUUID();
    const threads = client("ana").threads;
    const metadata = [
      { tag, n: 1, readers: ["a", "b"] },
      { tag, n: "1", readers: ["b"] },
      { tag, n: 1, readers: "a" },
    ];
    const made: string[] = [];
    for (const each of metadata) made.push((await threads.create({ metadata: each })).thread_id);
    const filters = [
      { n: 1 },
      { n: { $eq: 1 } },
      { readers: { $contains: "a" } },
      { readers: { $contains: ["a", "b"] } },
      { readers: { $contains: ["b"] } },
    ];
    const expected = [[0, 2], [0, 2], [0], [0], [0, 1]];
    for (const [at, filter] of filters.entries()) {
      const app = behind(user().on("threads", () => filter as never));
      const found = await clientAs(app, {}).threads.search({
        metadata: { tag },
        sortBy: "created_at",
        sortOrder: "asc",
      });
      const reached = expected[at]?.map((n) => made[n]);
      expect(
        found.map(({ thread_id }) => thread_id),
        JSON.stringify(filter),
      ).toEqual(reached);
      expect((await sendAs(app, "")("POST", "/threads/count", { metadata: { tag } })).text).toBe(
        String(reached?.length),
      );
      for (const id of made) {
        expect((await sendAs(app, "")("GET", `/threads/${id}`)).status).toBe(reached?.includes(id) ? 200 : 404);
      }
    }
  });

  it("may change what is asked: a search is as narrow as they leave it, and a run is asked what they leave", async () => {
    const tag = randomUUID();
    for (const owner of ["ana", "ben"]) await client(owner).threads.create({ metadata: { tag } });
    const app = behind(
      user()
        .on("threads:search", ({ value }) => void (value.metadata = { ...value.metadata, owner: "ben" }))
        .on("threads:create_run", ({ value }) => void Object.assign(value.kwargs, { input: { step: 42 } })),
    );
    const found = await clientAs(app, {}).threads.search({ metadata: { tag } });
    expect(found).toMatchObject([{ metadata: { owner: "ben" } }]);
    expect(await clientAs(app, {}).runs.wait(null, "whoami", { input: { step: 1 } })).toMatchObject({ step: 42 });
  });

  it("label what is made: threads, copies, threads that a run makes, assistants, crons", async () => {
    const ana = client("ana");
    const { thread_id } = await ana.threads.create({ metadata: { owner: "ben", mine: true } });
    expect(await ana.threads.get(thread_id)).toMatchObject({ metadata: { owner: "ana", mine: true } });
    const copy = (await ana.threads.copy(thread_id)) as unknown as { thread_id: string };
    expect(await ana.threads.get(copy.thread_id)).toMatchObject({ metadata: { owner: "ana" } });
    const id = randomUUID();
    await ana.runs.wait(id, "whoami", {
      input: { step: 1 },
      ifNotExists: "create",
      metadata: { owner: "ben", note: 1 },
    });
    const made = await ana.threads.get(id);
    expect(made.metadata).toMatchObject({ owner: "ana" });
    // What a client says of its run is the run's.
    expect(made.metadata).not.toHaveProperty("note");
    const assistant = await ana.assistants.create({ graphId: "whoami", metadata: { owner: "ben" } });
    expect(assistant.metadata).toMatchObject({ owner: "ana" });
    expect((await as("ben")("GET", `/assistants/${assistant.assistant_id}`)).status).toBe(404);
    expect(await client("ana").runs.wait(null, assistant.assistant_id, { input: { step: 1 } })).toMatchObject({
      step: 1,
    });
    const refused = await as("ben")("POST", "/runs/wait", { assistant_id: assistant.assistant_id, input: {} });
    expect(refused.status).toBe(404);
  });

  it("an idempotency key is each user's own", async () => {
    const key = { "idempotency-key": randomUUID() };
    const made = async (name: string) =>
      JSON.parse((await as(name)("POST", "/threads", { metadata: {} }, key)).text) as { thread_id: string };
    const [anas, bens, again] = [await made("ana"), await made("ben"), await made("ana")];
    expect(anas.thread_id).not.toBe(bens.thread_id);
    expect(again).toMatchObject({ thread_id: anas.thread_id, metadata: { owner: "ana" } });
  });

  it("keep a stateless run to who made it, while it streams too", async () => {
    const run = await client("ana").runs.create(null, "whoami", { input: { step: 1 }, onCompletion: "keep" as never });
    const path = `/runs/${run.run_id}/stream?last_event_id=-1`;
    expect((await as("ben")("GET", path)).status).toBe(404);
    expect((await as("ana")("GET", path)).text).toContain("langgraph_auth_user_id");
    expect(await client("ben").threads.search({ ids: [run.thread_id] })).toEqual([]);
    expect(await client("ana").threads.search({ ids: [run.thread_id] })).toHaveLength(1);
  });

  it("are asked for a cron's runs when it is made; these run as who made it, whoever changes it", async () => {
    const cron = JSON.parse(
      (
        await as("ana deciding")("POST", "/runs/crons", {
          assistant_id: "whoami",
          schedule: "0 9 * * MON",
          input: { step: 1 },
        })
      ).text,
    ) as { cron_id: string; user_id: string; metadata: object };
    expect(cron).toMatchObject({ user_id: "ana", metadata: { owner: "ana" } });
    expect((await as("ben")("PATCH", `/runs/crons/${cron.cron_id}`, { input: { step: 2 } })).status).toBe(404);
    const changed = await as("ana")("PATCH", `/runs/crons/${cron.cron_id}`, { input: { step: 2 } });
    expect(changed.status).toBe(200);
    const { rows } = await engine().db.db.query<{ run: Buffer }>(
      "select run from crons where tenant_id = 'default' and cron_id = $1",
      [cron.cron_id],
    );
    expect(JSON.parse(String(rows[0]?.run))).toMatchObject({
      request: {
        input: { step: 2 },
        config: { configurable: { langgraph_auth_user_id: "ana", langgraph_auth_permissions: ["deciding"] } },
      },
      access: { within: { owner: "ana" }, threadMetadata: { owner: "ana" } },
    });
  });

  it("of the store say who may put, get, search, list and delete what", async () => {
    const [ana, ben] = [client("ana").store, client("ben").store];
    await ana.putItem(["ana", "notes"], "k", { text: "mine" });
    expect(await ana.getItem(["ana", "notes"], "k")).toMatchObject({ value: { text: "mine" } });
    expect((await ana.searchItems(["ana"])).items).toHaveLength(1);
    expect(await ana.listNamespaces({ prefix: ["ana"] })).toEqual({ namespaces: [["ana", "notes"]] });
    for (const refused of [
      ben.putItem(["ana", "notes"], "k", { text: "his" }),
      ben.getItem(["ana", "notes"], "k"),
      ben.searchItems(["ana"]),
      ben.searchItems([]),
      ben.listNamespaces({ prefix: ["ana"] }),
      ben.listNamespaces({}),
      ben.deleteItem(["ana", "notes"], "k"),
    ]) {
      await expect(refused).rejects.toThrow("HTTP 403");
    }
    expect(await ana.getItem(["ana", "notes"], "k")).toMatchObject({ value: { text: "mine" } });
  });

  it("may move the store's requests to a place of the user's own, and filter items by what they hold", async () => {
    const own = (name: string) =>
      user(name).on("store", ({ value }) => {
        const asked = value as { namespace?: string[] };
        asked.namespace = [name, ...(asked.namespace ?? [])];
      });
    const [ana, ben] = ["moved-ana", "moved-ben"].map((name) => clientAs(behind(own(name)), {}).store);
    await ana?.putItem(["n"], "k", { of: "ana" });
    await ben?.putItem(["n"], "k", { of: "ben" });
    expect(await ana?.getItem(["n"], "k")).toMatchObject({ value: { of: "ana" } });
    expect((await ben?.searchItems([]))?.items).toMatchObject([{ value: { of: "ben" } }]);

    const only = sendAs(behind(user().on("store", () => ({ of: "ana" }))), "");
    const item = { namespace: ["moved-ben", "n"], key: "k" };
    expect((await only("GET", "/store/items?namespace=moved-ben.n&key=k")).text).toBe("null");
    expect((await only("PUT", "/store/items", { ...item, value: { of: "ana" } })).status).toBe(409);
    expect((await only("PUT", "/store/items", { ...item, key: "new", value: { of: "ben" } })).status).toBe(403);
    expect((await only("DELETE", "/store/items", item)).status).toBe(204);
    const search = await only("POST", "/store/items/search", { namespace_prefix: [] });
    expect((JSON.parse(search.text) as { items: object[] }).items).toMatchObject([{ value: { of: "ana" } }]);
    expect(search.text).not.toContain('"ben"');
    const namespaces = sendAs(behind(user().on("store", () => ({ namespace: { $contains: "moved-ana" } }))), "");
    expect((await namespaces("POST", "/store/namespaces", {})).text).toBe('{"namespaces":[["moved-ana","n"]]}');
    const there = await namespaces("POST", "/store/items/search", { namespace_prefix: [], limit: 1 });
    expect((JSON.parse(there.text) as { items: object[] }).items).toMatchObject([{ namespace: ["moved-ana", "n"] }]);
    expect(await ben?.getItem(["n"], "k")).toMatchObject({ value: { of: "ben" } });
  });
});

describe("a request that never left the process", () => {
  const principal = (identity: string) => ({
    ...{ tenantId: "default" as TenantId, scopes: null, handled: true },
    user: { identity, permissions: [], display_name: identity, is_authenticated: true },
  });

  it("is whose it is said to be, and held to what that user may; one from outside can't say it", async () => {
    const { app } = engine();
    const { thread_id } = await client("ana").threads.create();
    const url = `http://perdure.test/threads/${thread_id}`;
    const acting = async (identity: string) =>
      (await app.fetch(new Request(url), { [ACTING_AS]: principal(identity) })).status;
    expect([await acting("ana"), await acting("ben")]).toEqual([200, 404]);
    const headers = { "perdure.acting_as": "ana", [USER_HEADER]: "" };
    expect((await app.request(url, { headers })).status).toBe(401);
  });
});

describe("what belongs to no thread", () => {
  it("is for operators: a handler for everything doesn't open it, one that names it does", async () => {
    const all = sendAs(behind(user().on("*", () => true)), "");
    for (const path of [
      "/v1/budgets",
      "/v1/prices",
      "/v1/channel-accounts",
      "/v1/contacts",
      "/v1/schedules",
      "/v1/suppressions",
    ]) {
      expect([path, (await all("GET", path)).status]).toEqual([path, 403]);
      const named = behind(user().on(path.slice("/v1/".length).replace("-", "_") as "*", () => true));
      expect([path, (await sendAs(named, "")("GET", path)).status]).toEqual([path, 200]);
    }
  });
});

describe("over a WebSocket", () => {
  it("who isn't let in, or not to that thread, is told by 4000 and the status; the owner gets through", async () => {
    const server = await serveApi(engine().app, { port: 0 });
    onTestFinished(() => server.close({ graceMs: 0 }));
    const { thread_id } = await client("ana").threads.create();
    const open = (name: string) =>
      new WebSocket(`${server.url.replace("http", "ws")}/threads/${thread_id}/stream/events`, {
        headers: { [USER_HEADER]: name },
      });
    const closed = (name: string) =>
      new Promise<readonly [number, string]>((resolve, reject) => {
        open(name)
          .on("close", (code, reason) => resolve([code, String(reason)]))
          .on("error", reject);
      });
    expect(await closed("")).toEqual([4401, "Who are you?"]);
    expect(await closed("ben")).toEqual([4404, `Thread with ID ${thread_id} not found`]);
    const socket = open("ana");
    const answered = new Promise<string>((resolve) => socket.on("message", (data) => resolve(String(data))));
    socket.on("open", () => socket.send(JSON.stringify({ id: 1, method: "state.get", params: {} })));
    expect(await answered).toContain('"type":"success"');
    socket.terminate();
  });

  it("a thread that comes later and is another's is not followed", async () => {
    const id = randomUUID();
    const wanted = { channels: ["values", "lifecycle"] };
    const following = as("ben")("POST", `/threads/${id}/stream/events`, wanted);
    const body = { id: 1, method: "run.start", params: { assistant_id: "whoami", input: { step: 7 } } };
    expect((await as("ana")("POST", `/threads/${id}/commands`, body)).text).toContain("run_id");
    const told = await Promise.race([
      following.then(
        ({ text }) => text,
        () => "cut",
      ),
      client("ana")
        .runs.list(id)
        .then(() => new Promise((r) => setTimeout(r, 5_000, "nothing"))),
    ]);
    expect(String(told)).not.toContain("step");
    expect((await as("ben")("POST", `/threads/${id}/commands`, body)).status).toBe(404);
  }, 20_000);
});
