// The store with an index, by its two doors: requests find what is meant, with scores, and graphs find the same.
import { Annotation, END, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { Auth } from "@langchain/langgraph-sdk/auth";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import { createGate } from "../../src/api/auth/gate.js";
import { DIMS, standInEmbeddings } from "../helpers/embeddings.js";
import { gateOf, sendAs } from "../helpers/users.js";
import { sharedEngine } from "./shared.js";

const State = Annotation.Root({ about: Annotation<string>, found: Annotation<unknown> });
/** Remembers what it is told, and says what it found for it. */
const memory = new StateGraph(State)
  .addNode("recall", async ({ about }, { store }: LangGraphRunnableConfig) => {
    const items = (await store?.search(["facts"], { query: about, limit: 1 })) ?? [];
    await store?.put(["facts"], "told", { text: about });
    return { found: items.map(({ key, score = 0 }) => ({ key, near: score > 0.9 })) };
  })
  .addEdge(START, "recall")
  .addEdge("recall", END)
  .compile();

const embed = standInEmbeddings();
const engine = sharedEngine({
  ...{ graphs: { memory }, workers: 1 },
  store: { index: { embed, dims: DIMS, fields: ["text"] } },
});
const store = () => engine().client.store;

test("requests and graphs find the same, by what it means", async () => {
  await store().putItem(["facts"], "1", { text: "likes jazz" });
  await store().putItem(["facts"], "2", { text: "drinks tea" });
  await store().putItem(["facts"], "3", { other: "drinks tea" }, { index: ["other"] });
  await store().putItem(["facts"], "4", { text: "drinks tea" }, { index: false });
  const { items } = await store().searchItems(["facts"], { query: "hungry" });
  expect(items.map(({ key, score = 0 }) => [key, score > 0.9])).toEqual([
    ["2", true],
    ["3", true],
    ["1", false],
  ]);
  const { items: all } = await store().searchItems(["facts"]);
  expect(all.map(({ key, score }) => [key, score]).sort()).toEqual(["1", "2", "3", "4"].map((key) => [key, undefined]));

  const said = await engine().client.runs.wait(null, "memory", { input: { about: "music" } });
  expect(said).toMatchObject({ found: [{ key: "1", near: true }] });
  const { items: told } = await store().searchItems(["facts"], { query: "song", limit: 2 });
  expect(told.map(({ key }) => key).sort()).toEqual(["1", "told"]);
});

test("who is only to see some items finds those, nearest first, and the query is embedded once", async () => {
  for (const [key, of, text] of [
    ["1", "ana", "tennis and tea"],
    ["2", "ben", "running"],
    ["3", "ana", "running"],
  ] as const) {
    await store().putItem(["of"], key, { of: [of], text });
  }
  const { engine: inner, deps } = engine();
  const auth = gateOf(new Auth().authenticate(() => "ana").on("store", () => ({ of: { $contains: "ana" } })));
  const module = auth === "open" ? null : auth.module;
  const gate = createGate(deps, { module, studio: false, jwt: null, openTenant: () => Promise.resolve() });
  const send = sendAs(createApp({ ...inner, gate }), "");
  const before = embed.asked.length;
  const { text } = await send("POST", "/store/items/search", { namespace_prefix: ["of"], query: "sport" });
  const { items } = JSON.parse(text) as { items: { key: string }[] };
  expect(items.map(({ key }) => key)).toEqual(["3", "1"]);
  expect(embed.asked.length).toBe(before + 1);
});

test("embeddings that fail are told as such: nothing was stored, and a run fails by what they say", async () => {
  const send = sendAs(engine().app, "");
  embed.fails(Object.assign(new Error("the secret is abc"), { status: 429 }));
  const put = await send("PUT", "/store/items", { namespace: ["failing"], key: "k", value: { text: "tea" } });
  expect([put.status, put.text]).toEqual([
    502,
    "What makes the store's vectors (Object stand-in) failed: Error 429. Nothing was stored; try again",
  ]);
  embed.fails(Object.assign(new Error("no such key"), { status: 401 }));
  const run = await engine()
    .client.runs.wait(null, "memory", { input: { about: "nothing known" } })
    .catch(String);
  expect(JSON.stringify(run)).toContain("What makes the store's vectors");
  embed.fails(null);
  expect(await store().getItem(["failing"], "k")).toBeNull();
});

test("places that can't be are refused", async () => {
  const send = sendAs(engine().app, "");
  for (const index of [true, "text", [], [""], [7]]) {
    const { status, text } = await send("PUT", "/store/items", { namespace: ["n"], key: "k", value: {}, index });
    expect([index, status, text]).toEqual([index, 422, expect.stringMatching(/index/)]);
  }
});
