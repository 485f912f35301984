// The store's index: items are found by what they mean, never by what they meant before, and are indexed anew when the index changes.
import { expect, test } from "vitest";
import { openParts, type Parts } from "../../src/compose.js";
import type { TenantId } from "../../src/core/ids.js";
import { storeFrom } from "../../src/engine/embeddings.js";
import { createIndexer, tickIndexer } from "../../src/engine/loops/indexer.js";
import { setupStore } from "../../src/engine/store.js";
import type { StoreIndexOptions } from "../../src/engine/store-index.js";
import type { TenantStore } from "../../src/engine/tenant-store.js";
import { beginIndex } from "../../src/items/indexes.js";
import { createLog } from "../../src/observe/log.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { DIMS, type StandIn, standInEmbeddings } from "../helpers/embeddings.js";
import { until } from "../helpers/wait.js";

type Opened = Parts & Readonly<{ of(name: string): TenantStore; tick(): Promise<number> }>;

/** A process's parts, over a database. */
function open(database: TestDatabase, index?: StoreIndexOptions): Opened {
  const log = createLog("silent");
  const store = storeFrom(index === undefined ? {} : { index });
  const parts = openParts({ databaseUrl: database.url, bodies: "memory:", ...store, log, applicationName: "test" });
  return {
    ...parts,
    of: (name) => parts.store.of(name as TenantId),
    async tick() {
      if (parts.store.index === null) return 0;
      await beginIndex(database.db, parts.store.index.id);
      return tickIndexer(parts.deps, parts.store.index);
    },
  };
}

async function withDatabase(work: (database: TestDatabase) => Promise<void>): Promise<void> {
  const database = await createTestDatabase();
  await work(database).finally(() => database.close());
}

async function withStore(
  work: (store: TenantStore, embed: StandIn, opened: Opened, database: TestDatabase) => Promise<void>,
  options: Partial<StoreIndexOptions> = {},
): Promise<void> {
  await withDatabase(async (database) => {
    const embed = standInEmbeddings();
    const opened = open(database, { embed, dims: DIMS, ...options });
    await work(opened.of("default"), embed, opened, database).finally(() => opened.close());
  });
}

const keys = (items: readonly { key: string }[]) => items.map(({ key }) => key);
const countVectors = async (database: TestDatabase) =>
  (await database.db.query<{ n: number }>("select count(*)::int as n from store_vectors")).rows[0]?.n;

test("what comes nearest is found first, with its score; a word that is nowhere in it may be asked for", () =>
  withStore(async (store) => {
    await store.put(["memories", "dora"], "1", { text: "I like tea" });
    await store.put(["memories", "dora"], "2", { text: "tennis on Sundays, then coffee" });
    await store.put(["memories", "emil"], "3", { text: "jazz" });
    const found = await store.search(["memories"], { query: "hungry" });
    expect(keys(found)).toEqual(["1", "2", "3"]);
    expect(found.map(({ score }) => score)).toEqual([...found].map(({ score }) => score).sort((a = 0, b = 0) => b - a));
    expect(found[0]?.score).toBeCloseTo(1, 5);
    expect(found[0]).toMatchObject({ namespace: ["memories", "dora"], value: { text: "I like tea" } });
    expect(keys(await store.search(["memories", "emil"], { query: "hungry" }))).toEqual(["3"]);
    expect(keys(await store.search(["memories"], { query: "hungry", limit: 1, offset: 1 }))).toEqual(["2"]);
    expect(keys(await store.search(["memories"])).sort()).toEqual(["1", "2", "3"]);
  }));

test("an item is found by the nearest of its texts, wherever its fields say they are", () =>
  withStore(
    async (store, embed) => {
      await store.put(["m"], "1", { facts: [{ text: "piano" }, { text: "likes pasta" }], note: "tennis" });
      expect(embed.asked).toEqual([["piano", "likes pasta"]]);
      await store.put(["m"], "2", { facts: [], note: "tennis" }, ["note"]);
      await store.put(["m"], "3", { facts: [{ text: "likes pasta" }] }, false);
      const found = await store.search(["m"], { query: "food" });
      expect(found.map(({ key, score = 0 }) => [key, score > 0.9])).toEqual([
        ["1", true],
        ["2", false],
      ]);
      expect(keys(await store.search(["m"], { query: "sport", limit: 1 }))).toEqual(["2"]);
      expect(keys(await store.search(["m"])).sort()).toEqual(["1", "2", "3"]);
    },
    { fields: ["facts[*].text"] },
  ));

test("texts of many items are embedded at once, each of them once", () =>
  withStore(
    async (store, embed) => {
      await store.batch([
        { namespace: ["m"], key: "1", value: { text: "tea" } },
        { namespace: ["m"], key: "2", value: { text: "tea" } },
        { namespace: ["m"], key: "3", value: { text: "jazz" } },
        { namespace: ["m"], key: "4", value: {} },
      ]);
      expect(embed.asked).toEqual([["tea", "jazz"]]);
    },
    { fields: ["text"] },
  ));

test("filters hold beside a query, as they do without one", () =>
  withStore(async (store) => {
    for (const n of [1, 2, 3]) {
      await store.put(["f"], `k${n}`, {
        text: "tea",
        n,
        name: `name ${n}`,
        tags: { a: n === 2 },
        ...(n === 3 && { x: 1 }),
      });
    }
    const filters: object[] = [
      ...[
        { n: 2 },
        { n: { $eq: 2 } },
        { n: { $ne: 2 } },
        { n: { $gte: 2 } },
        { n: { $gt: 1, $lt: 3 }, name: "name 2" },
      ],
      ...[
        { n: { $in: [1, 3] } },
        { n: { $nin: [1, 3] } },
        { n: { $lte: 1 } },
        { x: { $exists: false } },
        { x: { $ne: 5 } },
      ],
      ...[{ tags: { a: true } }, { x: { $exists: true } }, { x: { $nin: [7] } }, { name: "nobody" }, {}],
    ];
    for (const filter of filters) {
      const plain = keys(await store.search(["f"], { filter })).sort();
      expect([filter, keys(await store.search(["f"], { filter, query: "food" })).sort()]).toEqual([filter, plain]);
    }
    const noNumber = { filter: { name: { $gt: 1 } }, query: "food" };
    await expect(store.search(["f"], noNumber)).rejects.toMatchObject({ code: "bad_request" });
  }));

test("what is put in another's place is found by what it says now, and what is deleted or has expired leaves no vectors", () =>
  withStore(async (store, _embed, opened, database) => {
    await store.put(["m"], "1", { text: "tea" });
    await store.put(["m"], "1", { text: "jazz" });
    const [first] = await store.search(["m"], { query: "music" });
    expect(first?.score).toBeCloseTo(1, 5);
    await store.put(["m"], "1", { text: "jazz" }, false);
    expect(await store.search(["m"], { query: "music" })).toEqual([]);
    await store.put(["m"], "2", { text: "jazz" });
    expect(await countVectors(database)).toBe(2);
    await store.delete(["m"], "2");
    expect(await countVectors(database)).toBe(1);

    const brief = { namespace: ["m"], key: "3", value: { text: "jazz" }, options: { ttl: 5 } };
    await store.batch([brief]);
    expect(keys(await store.search(["m"], { query: "music" }))).toEqual(["3"]);
    await database.db.query("update perdure_store.store set expires_at = now() - interval '1 s' where key = '3'");
    expect(await store.search(["m"], { query: "music" })).toEqual([]);
    await opened.store.sweep();
    expect(await countVectors(database)).toBe(1);
  }));

test("tenants find nothing of each other", () =>
  withStore(async (_store, _embed, opened) => {
    await opened.of("acme").put(["m"], "1", { text: "tea" });
    await opened.of("acme2").put(["m"], "2", { text: "tea" });
    expect(keys(await opened.of("acme").search([], { query: "food" }))).toEqual(["1"]);
    expect(keys(await opened.of("acme2").search(["m"], { query: "food" }))).toEqual(["2"]);
  }));

test("embeddings that fail, or have another size, are told, and nothing was stored", () =>
  withStore(async (store, embed, opened, database) => {
    const limited = Object.assign(new Error("slow down"), { status: 429 });
    embed.fails(limited);
    const both = [
      { namespace: ["m"], key: "1", value: null },
      { namespace: ["m"], key: "2", value: { text: "tea" } },
    ];
    await expect(store.batch(both)).rejects.toMatchObject({ code: "embedding_failed", cause: limited });
    await expect(store.search(["m"], { query: "tea" })).rejects.toThrow("(Object stand-in) failed: Error 429.");
    embed.fails(null);
    const short = open(database, { embed, dims: DIMS + 1 });
    await expect(short.of("default").put(["m"], "1", { text: "tea" })).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringContaining(`gave ${DIMS} numbers for a text where "store.index.dims" says ${DIMS + 1}`),
    });
    await short.close();
    const broken = open(database, { embed: () => [[0, Number.NaN, 0, 0]], dims: DIMS });
    await expect(broken.of("default").put(["m"], "1", { text: "tea" })).rejects.toMatchObject({
      code: "config_invalid",
    });
    await broken.close();
    const many = { texts: Array.from({ length: 1_001 }, (_, n) => `text ${n}`) };
    await expect(store.put(["m"], "1", many, ["texts[*]"])).rejects.toMatchObject({ code: "bad_request" });
    expect(await opened.of("default").search(["m"])).toEqual([]);
    expect(await countVectors(database)).toBe(0);
  }));

test("two who put the same at once leave the vectors of what is there", () =>
  withStore(async (store) => {
    for (let n = 0; n < 20; n += 1) {
      await Promise.all(["tea", "jazz", "tennis"].map((text) => store.put(["m"], "k", { text })));
      const { value } = (await store.get(["m"], "k")) ?? {};
      const [found] = await store.search(["m"], { query: String(value?.["text"]) });
      expect(found?.score).toBeCloseTo(1, 5);
    }
  }));

test("items that were put without an index are found once they have been indexed, as are those with vectors of another value", () =>
  withDatabase(async (database) => {
    const plain = open(database);
    const embed = standInEmbeddings();
    const opened = open(database, { embed, dims: DIMS });
    for (let n = 0; n < 120; n += 1)
      await plain.of("default").put(["m"], `k${n}`, { text: n % 2 === 0 ? "tea" : "jazz" });
    await opened.of("default").put(["m"], "changed", { text: "tea" });
    await opened.of("default").put(["m"], "hidden", { text: "tea" }, false);
    await plain.of("default").put(["m"], "changed", { text: "jazz" });
    const store = opened.of("default");
    expect(await store.search(["m"], { query: "food" })).toEqual([]);
    await opened.tick();
    expect((await store.search(["m"], { query: "food", limit: 60 })).every(({ score = 0 }) => score > 0.9)).toBe(true);
    const music = await store.search(["m"], { query: "music", limit: 61 });
    expect(keys(music)).toContain("changed");
    expect(keys(await store.search(["m"], { query: "food", limit: 1_000 }))).not.toContain("hidden");
    const before = embed.asked.length;
    await database.db.query("update store_indexes set due_at = now()");
    await opened.tick();
    expect(embed.asked.length).toBe(before);
    await Promise.all([plain.close(), opened.close()]);
  }));

test("another model's vectors are compared with nothing; its items are indexed anew, by processes with the newest index only", () =>
  withDatabase(async (database) => {
    const old = open(database, { embed: standInEmbeddings("old"), dims: DIMS });
    await old.tick();
    await old.of("default").put(["m"], "1", { text: "tea", note: "jazz" });
    await old.of("default").put(["m"], "2", { text: "tea", note: "jazz" }, ["note"]);
    const reversed = standInEmbeddings("new", (text) => (/tea|food/.test(text) ? [0, 0, 1] : [1, 0, 0]));
    const next = open(database, { embed: reversed, dims: 3, fields: ["text"] });
    const store = next.of("default");
    expect(await store.search(["m"], { query: "food" })).toEqual([]);
    await next.tick();
    const found = await store.search(["m"], { query: "food" });
    expect(found.map(({ key, score = -1 }) => [key, Math.round(score)])).toEqual([
      ["1", 1],
      ["2", 0],
    ]);
    expect(await old.of("default").search(["m"], { query: "food" })).toEqual([]);
    await database.db.query("update store_indexes set due_at = now()");
    const { index } = old.store;
    expect(index && (await tickIndexer(old.deps, index))).toBe(0);
    expect(keys(await store.search(["m"], { query: "food" }))).toEqual(["1", "2"]);
    await Promise.all([old.close(), next.close()]);
  }));

test("an item that can't be embedded keeps no other from being found; a model that is away ends the round", () =>
  withDatabase(async (database) => {
    const plain = open(database);
    const many = Array.from({ length: 1_001 }, (_, n) => `text ${n}`);
    await plain.of("a").put(["m"], "0", { text: many });
    for (let n = 1; n < 60; n += 1)
      await plain.of("a").put(["m"], String(n), { text: n % 20 === 0 ? "too long" : "tea" });
    await plain.of("b").put(["m"], "1", { text: "tea" });
    let status = 400;
    const embed = (texts: string[]): number[][] => {
      if (texts.includes("too long")) throw Object.assign(new Error("refused"), { status });
      return texts.map(() => [1, 0, 0, 0]);
    };
    const opened = open(database, { embed, dims: DIMS, fields: ["text[*]", "text"] });
    const found = async () => {
      const of = (name: string) => opened.of(name).search(["m"], { query: "food", limit: 100 });
      return [(await of("a")).length, (await of("b")).length];
    };
    expect(await opened.tick()).toBe(0);
    expect(await found()).toEqual([57, 1]);
    status = 503;
    await database.db.query("update store_indexes set due_at = now()");
    await expect(opened.tick()).rejects.toMatchObject({ code: "embedding_failed" });
    await Promise.all([plain.close(), opened.close()]);
  }));

test("numbers of a vector that are next to nothing are kept as nothing", () =>
  withDatabase(async (database) => {
    const opened = open(database, { embed: (texts) => texts.map(() => [1, 1e-50, 1e-25, 1e-17]), dims: DIMS });
    await opened.of("a").put(["m"], "1", { text: "tea" });
    expect(await opened.of("a").search(["m"], { query: "food" })).toMatchObject([{ key: "1", score: 1 }]);
    await opened.close();
  }));

test("a process with an index begins by indexing what has no vectors of it", () =>
  withDatabase(async (database) => {
    const plain = open(database);
    await plain.of("default").put(["m"], "1", { text: "tea" });
    const opened = open(database, { embed: standInEmbeddings(), dims: DIMS });
    const loop = createIndexer(opened.deps, opened.store.index);
    loop.start();
    await until(
      "the item is indexed",
      async () => (await opened.of("default").search(["m"], { query: "food" })).length === 1,
    );
    await loop.stop();
    await Promise.all([plain.close(), opened.close()]);
  }));

test("where Postgres has the extension vector, it is what compares, to the same result", (context) =>
  withStore(async (store, _embed, _opened, database) => {
    const { rows } = await database.db.query("select from pg_available_extensions where name = 'vector'");
    if (rows.length === 0) context.skip("this Postgres has no extension vector");
    await store.put(["m"], "1", { text: "I like tea" });
    await store.put(["m"], "2", { text: "tennis, then coffee" });
    await store.put(["m"], "3", { a: "tea", b: "jazz" }, ["a", "b"]);
    const plain = await store.search(["m"], { query: "food and tennis" });
    await database.db.query("create schema elsewhere; create extension vector schema elsewhere");
    await setupStore(database.url, database.db);
    const { rows: functions } = await database.db.query(
      "select prosrc from pg_proc where proname = 'store_similarity'",
    );
    expect(functions).toEqual([{ prosrc: "" }]);
    const faster = await store.search(["m"], { query: "food and tennis" });
    expect(keys(faster)).toEqual(keys(plain));
    for (const [n, { score = 0 }] of faster.entries()) expect(score).toBeCloseTo(plain[n]?.score ?? 2, 5);
    await expect(database.db.query("drop extension vector")).rejects.toMatchObject({ code: "2BP01" });
  }));
