// Threads as the stock client makes, finds, labels and deletes them.
import { randomUUID } from "node:crypto";
import type { Thread } from "@langchain/langgraph-sdk";
import { describe, expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import type { Db } from "../../src/core/deps.js";
import { EngineError } from "../../src/core/errors.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { objectsOf } from "../helpers/moved.js";
import { until } from "../helpers/wait.js";
import { graphs } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const shared = sharedEngine({ graphs });
/** For tests that keep to their own threads. */
const running = (work: (engine: TestEngine) => Promise<void>) => work(shared());
/** For tests that look at everything there is. */
const alone = (work: (engine: TestEngine) => Promise<void>) => withEngine({ graphs }, work);
const MISSING = "00000000-0000-4000-8000-000000000000";
const post = async (engine: TestEngine, path: string, body: unknown) =>
  engine.app.request(path, { method: "POST", body: JSON.stringify(body) });

function spyOn(query: Db["query"], texts: string[]): Db["query"] {
  return (text, values) => {
    texts.push(text);
    return query(text, values);
  };
}

describe("creating", () => {
  test("gives an idle thread with what was asked for", () =>
    running(async ({ client }) => {
      const thread = await client.threads.create({ metadata: { owner: "ann" }, graphId: "steps" });
      expect(thread).toMatchObject({
        status: "idle",
        metadata: { owner: "ann", graph_id: "steps" },
        values: null,
        interrupts: {},
        config: {},
      });
      expect(await client.threads.get(thread.thread_id)).toEqual(thread);
    }));

  test("an id that is taken is a conflict, or the same thread when that is wanted", () =>
    running(async ({ client }) => {
      const ID = randomUUID();
      const thread = await client.threads.create({ threadId: ID, metadata: { n: 1 } });
      await expect(client.threads.create({ threadId: ID })).rejects.toThrow(`HTTP 409: Thread ${ID} already exists`);
      const again = await client.threads.create({ threadId: ID.toUpperCase(), ifExists: "do_nothing" });
      expect(again).toEqual(thread);
    }));

  test("one id at once, twenty times: one thread", () =>
    running(async (engine) => {
      const ID = randomUUID();
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => post(engine, "/threads", { thread_id: ID }).then((r) => r.status)),
      );
      expect(answers.filter((status) => status === 200)).toHaveLength(1);
      expect(answers.filter((status) => status === 409)).toHaveLength(19);
    }));

  test.each([
    [{ thread_id: "mine" }, "thread_id: must be a UUID"],
    [{ thread_id: 7 }, "thread_id: "],
    [{ metadata: { "a\0b": 1 } }, "metadata.a\\u0000b: "],
    [{ metadata: { a: { b: "x\0" } } }, "metadata.a.b: "],
    [{ metadata: { a: "\ud800" } }, "metadata.a: "],
    [{ metadata: [] }, "metadata: "],
    [{ if_exists: "replace" }, "if_exists: "],
    [{ ttl: { ttl: 5, strategy: "forget" } }, "ttl: must be minutes"],
    [{ supersteps: [{ updates: [] }] }, "supersteps[0].updates: "],
  ])("%j is refused and leaves nothing behind", (body, message) =>
    running(async (engine) => {
      const before = await engine.client.threads.count();
      const response = await post(engine, "/threads", body);
      expect(response.status).toBe(422);
      expect(await response.text()).toContain(message);
      expect(await engine.client.threads.count()).toBe(before);
    }),
  );

  test("what can't be JSON is refused", () =>
    running(async ({ app }) => {
      const response = await app.request("/threads", { method: "POST", body: "metadata=1" });
      expect([response.status, await response.text()]).toEqual([400, "The request body is not valid JSON"]);
    }));
});

describe("reading", () => {
  test("a thread that isn't there is 404 by id, everywhere", () =>
    running(async (engine) => {
      const { client, app } = engine;
      await expect(client.threads.get(MISSING)).rejects.toThrow(`HTTP 404: Thread with ID ${MISSING} not found`);
      await expect(client.threads.getState(MISSING)).rejects.toThrow("HTTP 404");
      await expect(client.threads.getHistory(MISSING)).rejects.toThrow("HTTP 404");
      await expect(client.threads.update(MISSING, { metadata: {} })).rejects.toThrow("HTTP 404");
      await expect(client.threads.updateState(MISSING, { values: {} })).rejects.toThrow("HTTP 404");
      await expect(client.threads.delete(MISSING)).rejects.toThrow("HTTP 404");
      const json = await app.request(`/threads/${MISSING}`, { headers: { accept: "application/json" } });
      expect(await json.json()).toMatchObject({
        detail: `Thread with ID ${MISSING} not found`,
        code: "not_found",
      });
      expect((await app.request("/threads/not-an-id")).status).toBe(422);
    }));

  test("shows the newest values, and says when they changed", () =>
    running(async ({ client }) => {
      const thread = await client.threads.create();
      await client.runs.wait(thread.thread_id, "echo", { input: { messages: [{ role: "user", content: "hi" }] } });
      const read = await client.threads.get<{ messages: unknown[] }>(thread.thread_id);
      expect(read.status).toBe("idle");
      expect(read.values.messages).toMatchObject([
        { type: "human", content: "hi" },
        { type: "ai", content: "you said: hi" },
      ]);
      expect(read.metadata).toMatchObject({ graph_id: "echo" });
      expect(Date.parse(read.state_updated_at)).toBeGreaterThan(Date.parse(thread.created_at));
      const ttl = await client.threads.get(thread.thread_id, { include: ["ttl"] });
      expect(ttl).toMatchObject({ ttl: null });
    }));

  test("a pending question is in the thread, the state and the search, with one id and value", () =>
    running(async ({ client }) => {
      const thread = await client.threads.create();
      await client.runs.wait(thread.thread_id, "gate", { input: {} });
      const read = await client.threads.get(thread.thread_id);
      expect(read.status).toBe("interrupted");
      const state = await client.threads.getState(thread.thread_id);
      const task = state.tasks[0];
      expect(task?.interrupts).toMatchObject([{ value: { question: "go on?" } }]);
      expect(read.interrupts).toEqual({ [task?.id ?? ""]: task?.interrupts });
      const ids = [thread.thread_id];
      expect(await client.threads.search({ ids, status: "interrupted" })).toEqual([read]);
      expect(await client.threads.search({ ids, status: "idle" })).toEqual([]);
    }));

  test("the thread of a stateless run is nobody's", () =>
    alone(async ({ client, db }) => {
      await client.runs.wait(null, "steps", { input: {} });
      const { rows } = await db.db.query<{ id: string }>("select thread_id as id from threads");
      expect(rows).toHaveLength(1);
      expect(await client.threads.search()).toEqual([]);
      expect(await client.threads.count()).toBe(0);
      const id = rows[0]?.id ?? "";
      await expect(client.threads.get(id)).rejects.toThrow("HTTP 404");
      await expect(client.threads.delete(id)).rejects.toThrow("HTTP 404");
      await expect(client.threads.update(id, { metadata: { mine: 1 } })).rejects.toThrow("HTTP 404");
      await expect(client.threads.create({ threadId: id, ifExists: "do_nothing" })).rejects.toThrow("HTTP 409");
    }));
});

describe("search", () => {
  test("filters by ids, metadata and status, sorts, selects and pages", () =>
    alone(async (engine) => {
      const { client } = engine;
      const made: Thread[] = [];
      for (const n of [1, 2, 3, 4, 5]) {
        made.push(await client.threads.create({ metadata: { n, even: n % 2 === 0, deep: { tag: "t" } } }));
      }
      const ids = made.map((thread) => thread.thread_id);
      const found = async (query: Parameters<typeof client.threads.search>[0]) =>
        (await client.threads.search(query)).map((thread) => ids.indexOf(thread.thread_id) + 1);
      expect(await found({})).toEqual([5, 4, 3, 2, 1]);
      expect(await found({ sortBy: "created_at", sortOrder: "asc", limit: 2, offset: 1 })).toEqual([2, 3]);
      expect(await found({ metadata: { even: true } })).toEqual([4, 2]);
      expect(await found({ metadata: { deep: { tag: "t" } }, limit: 1 })).toEqual([5]);
      expect(await found({ ids: [ids[0] ?? "", ids[2] ?? "", MISSING] })).toEqual([3, 1]);
      expect(await found({ ids: [] })).toEqual([]);
      expect(await found({ status: "busy" })).toEqual([]);
      await client.threads.update(ids[1] ?? "", { metadata: { seen: 1 } });
      expect(await found({ sortBy: "updated_at", limit: 1 })).toEqual([2]);
      expect(await found({ sortBy: "thread_id", sortOrder: "asc" })).toEqual([1, 2, 3, 4, 5]);
      expect(await client.threads.count({ metadata: { even: false } })).toBe(3);
      expect(await client.threads.search({ limit: 1, select: ["thread_id", "status"] })).toEqual([
        { thread_id: ids[4], status: "idle" },
      ]);
      const page = await post(engine, "/threads/search", { limit: 2, offset: 1 });
      expect(page.headers.get("x-pagination-total")).toBe("5");
      expect(page.headers.get("x-pagination-next")).toBe("3");
      const last = await post(engine, "/threads/search", { limit: 2, offset: 3 });
      expect(last.headers.get("x-pagination-next")).toBeNull();
    }));

  test.each([
    [{ values: [1] }, "values: must be an object"],
    [{ extract: { a: "secrets.a" } }, "extract.a: must be a path"],
    [{ extract: { a: "values..a" } }, "extract.a: must be a path"],
    [{ extract: Object.fromEntries(Array.from("abcdefghijk", (name) => [name, "values"])) }, "not have more than 10"],
    [{ status: "asleep" }, "status: "],
    [{ limit: 0 }, "limit: "],
    [{ limit: 1001 }, "limit: "],
    [{ offset: -1 }, "offset: "],
    [{ ids: ["x"] }, "ids[0]: must be a UUID"],
    [{ select: ["everything"] }, "select[0]: "],
    [{ metadata: { a: "\0" } }, "metadata.a: "],
  ])("%j is refused by name", (body, message) =>
    running(async (engine) => {
      const response = await post(engine, "/threads/search", body);
      expect(response.status).toBe(422);
      expect(await response.text()).toContain(message);
    }),
  );

  test("reads the heads of many threads with one statement, and each shows its own", () =>
    alone(async ({ client, deps, engine }) => {
      const said: [string, string][] = [];
      for (const word of ["one", "two", "three"]) {
        const { thread_id } = await client.threads.create();
        const messages = [{ role: "user", content: word.repeat(600) }];
        await client.runs.wait(thread_id, "echo", { input: { messages } });
        said.push([thread_id, word.repeat(600)]);
      }
      const statements: string[] = [];
      const db = { ...deps.db, query: spyOn(deps.db.query, statements) };
      const app = createApp({ ...engine, deps: { ...deps, db } });
      const found = await app.request("/threads/search", { method: "POST", body: "{}" });
      const threads = (await found.json()) as Thread<{ messages: { content: string }[] }>[];
      expect(threads.map((thread) => [thread.thread_id, thread.values.messages[0]?.content])).toEqual(said.reverse());
      expect(statements.filter((text) => text.includes("checkpoints"))).toHaveLength(1);
      await app.request("/threads/search", { method: "POST", body: '{"select":["thread_id"]}' });
      expect(statements.filter((text) => text.includes("checkpoints"))).toHaveLength(1);
    }));

  test("a thread whose body is gone says so wherever it is shown, hides no other, and can be labelled and deleted", () =>
    alone(async ({ client, deps, move }) => {
      const [whole, broken] = [await client.threads.create(), await client.threads.create()];
      const input = { messages: [{ role: "user", content: "a long text ".repeat(500) }] };
      for (const { thread_id } of [whole, broken]) await client.runs.wait(thread_id, "echo", { input });
      while ((await move()) > 0);
      for await (const key of deps.bodies.list(`default/${broken.thread_id}/`)) await deps.bodies.delete([key]);
      const found = await client.threads.search({ sortBy: "created_at", sortOrder: "asc" });
      expect(found.map((thread) => typeof thread.error)).toEqual(["undefined", "string"]);
      expect(found[1]).toMatchObject({ values: null, error: expect.stringContaining(".jsonl.gz") });
      expect(found[0]?.values).not.toBeNull();
      const lost = { status: "idle", values: null, error: expect.stringContaining(".jsonl.gz") };
      expect(await client.threads.get(broken.thread_id)).toMatchObject(lost);
      expect(await client.threads.update(broken.thread_id, { metadata: { a: 1 } })).toMatchObject(lost);
      const runs = await client.runs.list(broken.thread_id);
      expect(runs).toMatchObject([{ status: "success", kwargs: {}, error: expect.stringContaining(".jsonl.gz") }]);
      await client.threads.delete(broken.thread_id);
      await expect(client.threads.get(broken.thread_id)).rejects.toThrow("HTTP 404");
    }));

  test("a thread whose graph was taken away can still be listed, read and deleted", () =>
    alone(async ({ client, db }) => {
      const { thread_id } = await client.threads.create();
      await client.runs.wait(thread_id, "steps", { input: {} });
      await db.db.query(`update threads set metadata = metadata || '{"graph_id": "gone"}'`);
      const [found] = await client.threads.search();
      expect(found?.values).toEqual({ log: ["1", "2", "3"] });
      expect((await client.threads.get(thread_id)).values).toEqual({ log: ["1", "2", "3"] });
      await expect(client.threads.getState(thread_id)).rejects.toThrow('HTTP 404: Graph "gone" not found');
      await client.threads.delete(thread_id);
    }));
});

describe("what states hold", () => {
  test("threads are found and counted by it, page by page, and only what is asked of it is sent", () =>
    alone(async ({ client, app }) => {
      const say = async (content: string) => {
        const { thread_id } = await client.threads.create({ metadata: { said: content } });
        await client.runs.wait(thread_id, "echo", { input: { messages: [{ role: "human", content }] } });
        return thread_id;
      };
      const [first, second] = [
        await say("hi"),
        await say("hi"),
        await say("bye"),
        (await client.threads.create()).thread_id,
      ];
      const values = { messages: [{ type: "ai", content: "you said: hi" }] };
      const select: ("thread_id" | "metadata")[] = ["thread_id"];
      const found = await client.threads.search({ values, select, sortOrder: "asc" });
      expect(found).toEqual([{ thread_id: first }, { thread_id: second }]);
      expect(await client.threads.count({ values: values as never })).toBe(2);
      expect(await client.threads.count({ values: {} as never })).toBe(4);
      expect(await client.threads.search({ values: { messages: [{ content: "no" }] } })).toEqual([]);
      const body = JSON.stringify({ values, limit: 1, sort_order: "asc", select });
      const page = await app.request("/threads/search", { method: "POST", body });
      expect(await page.json()).toEqual([{ thread_id: first }]);
      expect([page.headers.get("x-pagination-total"), page.headers.get("x-pagination-next")]).toEqual(["2", "1"]);
      const extract = { last: "values.messages[-1].content", none: "values.messages[7]", who: "metadata.said" };
      const extracted = await client.threads.search({ ids: [second], select: ["thread_id"], extract });
      expect(extracted).toEqual([{ thread_id: second, extracted: { last: "you said: hi", none: null, who: "hi" } }]);
    }));
});

describe("labelling", () => {
  test("merges metadata, and is silent when that is preferred", () =>
    running(async ({ client }) => {
      const { thread_id } = await client.threads.create({ metadata: { a: 1, b: { c: 1 } } });
      const patched = await client.threads.update(thread_id, { metadata: { b: 2, d: "ü" } });
      expect(patched.metadata).toEqual({ a: 1, b: 2, d: "ü" });
      expect(await client.threads.update(thread_id, { metadata: { e: 1 }, returnMinimal: true })).toBeUndefined();
      expect((await client.threads.get(thread_id)).metadata).toMatchObject({ e: 1 });
      await expect(client.threads.update(thread_id, { ttl: -5 })).rejects.toThrow("HTTP 422: ttl: ");
    }));
});

describe("deleting", () => {
  test("leaves no row and no object of the thread, and other threads whole", () =>
    alone(async ({ client, db, deps, move }) => {
      const [gone, kept] = [await client.threads.create(), await client.threads.create()];
      for (const { thread_id } of [gone, kept]) await client.runs.wait(thread_id, "gate", { input: {} });
      while ((await move()) > 0);
      await client.threads.delete(gone.thread_id);
      await expect(client.threads.get(gone.thread_id)).rejects.toThrow("HTTP 404");
      const tables = ["threads", "runs", "events", "stream_chunks", "checkpoints", "channel_versions"];
      tables.push("checkpoint_writes", "bodies", "staged_bodies", "packs", "approvals");
      for (const table of tables) {
        const rows = (await db.db.query(`select * from ${table}`)).rows.map((row) => JSON.stringify(row));
        expect([table, rows.filter((row) => row.includes(gone.thread_id))]).toEqual([table, []]);
      }
      const keys: string[] = [];
      for await (const key of deps.bodies.list("")) keys.push(key);
      expect(keys.filter((key) => key.includes(gone.thread_id))).toEqual([]);
      expect((await client.threads.get(kept.thread_id)).status).toBe("interrupted");
      await expect(client.threads.delete(gone.thread_id)).rejects.toThrow("HTTP 404");
    }));

  test("the id of a deleted thread does not come back", () =>
    running(async ({ client }) => {
      const ID = randomUUID();
      await client.threads.create({ threadId: ID });
      await client.threads.delete(ID);
      for (const ifExists of ["raise", "do_nothing"] as const) {
        await expect(client.threads.create({ threadId: ID, ifExists })).rejects.toThrow("HTTP 409: Thread");
      }
      const run = client.runs.create(ID, "steps", { input: {}, ifNotExists: "create" });
      await expect(run).rejects.toThrow("HTTP 409");
      await expect(client.threads.get(ID)).rejects.toThrow("HTTP 404");
    }));

  test("a store that is away delays the erasing, not the deleting", () =>
    alone(async ({ client, deps, engine, move }) => {
      const { thread_id } = await client.threads.create();
      await client.runs.wait(thread_id, "steps", { input: {} });
      await until("the move", async () => (await move()) > 0);
      const objects = () => objectsOf(deps, { tenantId: DEFAULT_TENANT, threadId: thread_id as ThreadId });
      const stored = await objects();
      expect(stored.length).toBeGreaterThan(0);
      const away = () => Promise.reject(new EngineError("unavailable", "the store is away"));
      const app = createApp({ ...engine, deps: { ...deps, bodies: { ...deps.bodies, delete: away } } });
      expect((await app.request(`/threads/${thread_id}`, { method: "DELETE" })).status).toBe(204);
      expect(await objects()).toEqual(stored);
      await sweepOrphans(deps);
      expect(await objects()).toEqual([]);
    }));
});
