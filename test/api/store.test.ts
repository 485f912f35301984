// The store over HTTP, by the stock client: the same that graphs have, a part for each tenant.
import { Client } from "@langchain/langgraph-sdk";
import { Annotation, END, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import type { TenantId } from "../../src/core/ids.js";
import { sharedEngine } from "./shared.js";

/** Reads what it is told of the store, and writes back what it found. */
const memory = new StateGraph(Annotation.Root({ user: Annotation<string>, found: Annotation<unknown> }))
  .addNode("recall", async ({ user }, { store }: LangGraphRunnableConfig) => {
    const item = await store?.get(["users", user], "likes");
    await store?.put(["users", user], "seen", { by: "graph" });
    return { found: item?.value ?? null };
  })
  .addEdge(START, "recall")
  .addEdge("recall", END)
  .compile();

const engine = sharedEngine({ graphs: { memory }, workers: 1 });
const store = () => engine().client.store;

/** Somebody else's client. */
function other(tenant: string): Client {
  const app = createApp({ ...engine().engine, tenantOf: () => Promise.resolve(tenant as TenantId) });
  const fetch: typeof globalThis.fetch = async (input, init) => app.fetch(new Request(input, init));
  return new Client({ apiUrl: "http://perdure.test", callerOptions: { fetch, maxRetries: 0 } });
}

async function send(method: string, path: string, body?: unknown) {
  const response = await engine().app.request(path, {
    ...{ method, headers: { "content-type": "application/json" } },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, text: await response.text() };
}

test("what is put is there with its times, can be replaced and deleted, and what isn't there is null", async () => {
  await store().putItem(["s", "x"], "k", { v: 1, text: "ß\n\"'" });
  const item = await store().getItem(["s", "x"], "k");
  expect(item).toMatchObject({ namespace: ["s", "x"], key: "k", value: { v: 1, text: "ß\n\"'" } });
  expect(Date.parse(item?.createdAt ?? "")).toBeGreaterThan(Date.now() - 60_000);
  await store().putItem(["s", "x"], "k", { v: 2 });
  const again = await store().getItem(["s", "x"], "k");
  expect(again).toMatchObject({ value: { v: 2 }, createdAt: item?.createdAt });
  expect((again?.updatedAt ?? "") > (item?.updatedAt ?? "")).toBe(true);
  await store().deleteItem(["s", "x"], "k");
  await store().deleteItem(["s", "x"], "k");
  expect(await store().getItem(["s", "x"], "k")).toBeNull();
});

test("graphs and requests have the same store", async () => {
  await store().putItem(["users", "user_7"], "likes", { drink: "tea" });
  expect(await engine().client.runs.wait(null, "memory", { input: { user: "user_7" } })).toMatchObject({
    found: { drink: "tea" },
  });
  expect(await store().getItem(["users", "user_7"], "seen")).toMatchObject({ value: { by: "graph" } });
});

test("a namespace holds what is under it and nothing whose label only begins like it, whatever its characters", async () => {
  const labels = ["user", "users", "user_1", "user%", "user~5f1", "u[s]er", "a\\b", "ünï"];
  for (const label of labels) await store().putItem(["names", label, "deep"], "k", { label });
  for (const label of labels) {
    const { items } = await store().searchItems(["names", label]);
    expect(items.map(({ value }) => value["label"])).toEqual([label]);
    expect(items[0]?.namespace).toEqual(["names", label, "deep"]);
  }
  const { items } = await store().searchItems(["names"], { limit: 3, offset: 2 });
  expect(items).toHaveLength(3);
});

test("filters by values and operators, and words", async () => {
  for (const n of [1, 2, 3]) await store().putItem(["f"], `k${n}`, { n, name: `name ${n}`, tags: { a: n === 2 } });
  const found = async (options: object) => {
    const { items } = await store().searchItems(["f"], options);
    return items.map(({ key }) => key).sort();
  };
  expect(await found({ filter: { n: 2 } })).toEqual(["k2"]);
  expect(await found({ filter: { n: { $gte: 2 } } })).toEqual(["k2", "k3"]);
  expect(await found({ filter: { n: { $gt: 1, $lt: 3 }, name: "name 2" } })).toEqual(["k2"]);
  expect(await found({ filter: { n: { $in: [1, 3] } } })).toEqual(["k1", "k3"]);
  expect(await found({ filter: { n: { $ne: 1 } } })).toEqual(["k2", "k3"]);
  expect(await found({ filter: { other: { $exists: false } } })).toEqual(["k1", "k2", "k3"]);
  expect(await found({ filter: { tags: { a: true } } })).toEqual(["k2"]);
  expect(await found({ query: "name 3" })).toEqual(["k3"]);
});

test("namespaces are listed by beginning, end and depth, each once", async () => {
  for (const path of ["a.b.c", "a.b.d", "a.x.c", "ab.b.c"]) await store().putItem(["ns", ...path.split(".")], "k", {});
  const listed = async (options: object) =>
    (await store().listNamespaces(options)).namespaces.map((labels) => labels.slice(1).join("."));
  expect(await listed({ prefix: ["ns", "a"] })).toEqual(["a.b.c", "a.b.d", "a.x.c"]);
  expect(await listed({ prefix: ["ns", "a"], maxDepth: 3 })).toEqual(["a.b", "a.x"]);
  expect(await listed({ prefix: ["ns", "*", "b"], suffix: ["c"] })).toEqual(["a.b.c", "ab.b.c"]);
  expect(await listed({ prefix: ["ns"], suffix: ["b", "c"], limit: 1, offset: 1 })).toEqual(["ab.b.c"]);
  expect(await listed({ suffix: ["ns", "a", "b", "c", "default", "x"] })).toEqual([]);
});

test("an item lasts as long as it was given, and as long again when it is read so", async () => {
  const expiry = async () => {
    const { rows } = await engine().db.db.query<{ left: number | null }>(
      `select extract(epoch from expires_at - now())::float8 / 60 as left
      from perdure_store.store where key = 'short'`,
    );
    return rows[0]?.left ?? null;
  };
  const age = () =>
    engine().db.db.query(`alter table perdure_store.store disable trigger user;
      update perdure_store.store set updated_at = updated_at - interval '4 min', expires_at = expires_at - interval '4 min' where key = 'short';
      alter table perdure_store.store enable trigger user`);
  await store().putItem(["t"], "short", { v: 1 }, { ttl: 5 });
  await age();
  await store().getItem(["t"], "short", { refreshTtl: false });
  await store().searchItems(["t"], { refreshTtl: false });
  expect(await expiry()).toBeLessThan(1.1);
  await store().getItem(["t"], "short");
  expect(await expiry()).toBeGreaterThan(4.5);
  await age();
  await store().searchItems(["t"], { refreshTtl: true });
  expect(await expiry()).toBeGreaterThan(4.5);
  await age();
  await engine().db.db.query("update perdure_store.store set expires_at = now() - interval '1 s' where key = 'short'");
  expect(await store().getItem(["t"], "short", { refreshTtl: true })).toBeNull();
  expect((await store().searchItems(["t"])).items).toEqual([]);
  expect((await store().listNamespaces({ prefix: ["t"] })).namespaces).toEqual([]);
  await store().putItem(["t"], "short", { v: 1 }, { ttl: null });
  expect(await expiry()).toBeNull();
});

test("tenants have nothing of each other, not by names that begin alike or patterns either", async () => {
  const [a, b] = [other("acme"), other("acme2")];
  await b.store.putItem(["secret"], "k", { of: "acme2" });
  await a.store.putItem(["own"], "k", { of: "acme" });
  expect(await a.store.getItem(["secret"], "k")).toBeNull();
  expect((await a.store.searchItems([])).items.map(({ value }) => value)).toEqual([{ of: "acme" }]);
  expect((await a.store.searchItems(["%"])).items).toEqual([]);
  expect((await a.store.listNamespaces()).namespaces).toEqual([["own"]]);
  expect((await a.store.listNamespaces({ prefix: ["*"] })).namespaces).toEqual([["own"]]);
  await a.store.deleteItem(["secret"], "k");
  await a.store.putItem(["secret"], "k", { of: "acme" });
  expect(await b.store.getItem(["secret"], "k")).toMatchObject({ value: { of: "acme2" } });
  expect((await store().searchItems(["secret"])).items).toEqual([]);
});

test("what can't be meant is refused by name, and leaves nothing", async () => {
  const put = (more: object) => send("PUT", "/store/items", { namespace: ["bad"], key: "k", value: {}, ...more });
  const search = (more: object) => send("POST", "/store/items/search", { namespace_prefix: ["f"], ...more });
  const refused: (readonly [() => Promise<{ status: number; text: string }>, number, RegExp])[] = [
    [() => put({ namespace: [] }), 400, /empty/],
    [() => put({ namespace: ["a.b"] }), 422, /namespace\[0\]: .*period/],
    [() => put({ namespace: ["a", ""] }), 422, /namespace\[1\]: must not be empty/],
    [() => put({ namespace: ["langgraph"] }), 422, /langgraph/],
    [() => put({ key: "a\0b" }), 422, /key/],
    [() => put({ key: "ä".repeat(3_000) }), 422, /bytes/],
    [() => put({ value: [1] }), 422, /value: must be an object/],
    [() => put({ value: { a: "\0" } }), 422, /value\.a/],
    [() => put({ index: ["$"] }), 422, /index/],
    [() => put({ ttl: -1 }), 422, /ttl/],
    [() => send("GET", "/store/items?key=k"), 400, /empty/],
    [() => send("GET", "/store/items?namespace=a"), 422, /key/],
    [() => send("GET", "/store/items?namespace=a..b&key=k"), 422, /namespace/],
    [() => send("GET", "/store/items?namespace=a&key=k&refresh_ttl=perhaps"), 422, /refresh_ttl/],
    [() => send("DELETE", "/store/items", { namespace: ["a"] }), 422, /key/],
    [() => search({ filter: { n: { $regex: "x" } } }), 422, /filter\.n: \$regex must be one of/],
    [() => search({ filter: { n: [1] } }), 422, /filter\.n/],
    [() => search({ filter: { n: { $gt: "x" } } }), 422, /filter\.n: \$gt/],
    [() => search({ filter: { name: { $gt: 1 } } }), 422, /compares numbers/],
    [() => search({ limit: 0 }), 422, /limit/],
    [() => send("POST", "/store/namespaces", { max_depth: 0 }), 422, /max_depth/],
  ];
  await store().putItem(["f"], "text", { name: "no number" });
  for (const [ask, status, text] of refused) {
    const answer = await ask();
    expect(answer).toEqual({ status, text: expect.stringMatching(text) });
  }
  const { rows } = await engine().db.db.query("select 1 from perdure_store.store where namespace_path like '%bad%'");
  expect(rows).toEqual([]);
});
