// Assistants as the stock client makes and changes them.
import { describe, expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import { systemAssistantId } from "../../src/assistants/queries.js";
import type { RunStatus } from "../../src/core/run.js";
import { Client } from "@langchain/langgraph-sdk";
import { cachedAssistants } from "../../src/assistants/cached.js";
import { createTestGraph } from "./configured.js";
import { gate, steps } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const shared = sharedEngine({ graphs: { configured: createTestGraph(), gate, steps }, workers: 1 });
const assistants = () => shared().client.assistants;

async function send(method: string, path: string, body: unknown, headers: Record<string, string> = {}) {
  const response = await shared().app.request(path, { method, body: JSON.stringify(body), headers });
  return { status: response.status, text: await response.text(), headers: response.headers };
}

/** A second API process on the same database, as far as what it remembers of assistants goes. */
function elsewhere(): Client {
  const { engine } = shared();
  const app = createApp({ ...engine, assistant: cachedAssistants(engine.deps.db) });
  const fetch: typeof globalThis.fetch = async (input, init) => app.fetch(new Request(input, init));
  return new Client({ apiUrl: "http://elsewhere.test", callerOptions: { fetch, maxRetries: 0 } });
}

describe("making", () => {
  test("gives what was asked for as version 1, and refuses an id that is taken unless told to hand it out", async () => {
    const assistantId = crypto.randomUUID();
    const asked = { graphId: "configured", assistantId, config: { tags: ["t"], configurable: { greeting: "hi" } } };
    const made = await assistants().create({ ...asked, name: "Polite", description: "d", metadata: { team: "a" } });
    expect(made).toMatchObject({
      assistant_id: assistantId,
      graph_id: "configured",
      version: 1,
      name: "Polite",
      description: "d",
      config: asked.config,
      context: {},
      metadata: { team: "a" },
    });
    await expect(assistants().create(asked)).rejects.toThrow(`HTTP 409: Assistant ${assistantId} already exists`);
    expect(await assistants().create({ ...asked, name: "Other", ifExists: "do_nothing" })).toEqual(made);
    expect((await assistants().create({ graphId: "gate" })).name).toBe("Untitled");
  });

  test.each([
    [{}, 422, "graph_id: "],
    [{ graph_id: "nobody" }, 404, 'Graph "nobody" not found'],
    [
      { graph_id: "gate", config: { configurable: { checkpoint_id: "x" } } },
      422,
      "config.configurable.checkpoint_id: ",
    ],
    [{ graph_id: "gate", config: { configurable: { __pregel: 1 } } }, 422, "config.configurable.__pregel: "],
    [{ graph_id: "gate", context: [1] }, 422, "context: must be an object"],
    [{ graph_id: "gate", metadata: { a: "\0" } }, 422, "metadata.a: "],
    [{ graph_id: "gate", assistant_id: "gate" }, 422, "assistant_id: must be a UUID"],
    [{ graph_id: "gate", if_exists: "replace" }, 422, "if_exists: "],
  ])("%j is refused, and nothing is made", async (body, status, text) => {
    const before = await assistants().count();
    const answer = await send("POST", "/assistants", body);
    expect([answer.status, answer.text]).toEqual([status, expect.stringContaining(text)]);
    expect(await assistants().count()).toBe(before);
  });

  test("a request that comes again with its key makes nothing new", async () => {
    const key = { "idempotency-key": "assistant" };
    const made = await Promise.all([1, 2, 3].map(() => send("POST", "/assistants", { graph_id: "gate" }, key)));
    expect(new Set(made.map(({ text }) => JSON.parse(text).assistant_id)).size).toBe(1);
  });
});

describe("versions", () => {
  test("each change is a new one, also one that says nothing; metadata is merged, all else replaced", async () => {
    const { assistant_id } = await assistants().create({
      graphId: "configured",
      config: { configurable: { greeting: "one", old: 1 } },
      metadata: { a: 1, b: 1 },
    });
    const second = await assistants().update(assistant_id, {
      config: { configurable: { greeting: "two" } },
      metadata: { b: 2, c: 2 },
      name: "Second",
    });
    expect(second).toMatchObject({ version: 2, name: "Second", metadata: { a: 1, b: 2, c: 2 } });
    expect(second.config).toEqual({ configurable: { greeting: "two" } });
    expect(await assistants().update(assistant_id, {})).toMatchObject({ version: 3, name: "Second" });
    const versions = await assistants().getVersions(assistant_id);
    expect(versions.map(({ version, name, metadata }) => [version, name, metadata])).toEqual([
      [3, "Second", { a: 1, b: 2, c: 2 }],
      [2, "Second", { a: 1, b: 2, c: 2 }],
      [1, "Untitled", { a: 1, b: 1 }],
    ]);
    expect(await assistants().getVersions(assistant_id, { limit: 1, offset: 1 })).toEqual([versions[1]]);
    expect(await assistants().getVersions(assistant_id, { metadata: { b: 1 } })).toEqual([versions[2]]);
  });

  test("an earlier one can count again, and the next is made from it with a number nobody had", async () => {
    const { assistant_id } = await assistants().create({ graphId: "configured", name: "first" });
    await assistants().update(assistant_id, { name: "second" });
    expect(await assistants().setLatest(assistant_id, 1)).toMatchObject({ version: 1, name: "first" });
    expect(await assistants().get(assistant_id)).toMatchObject({ version: 1, name: "first" });
    expect(await assistants().update(assistant_id, { description: "d" })).toMatchObject({ version: 3, name: "first" });
    await expect(assistants().setLatest(assistant_id, 9)).rejects.toThrow(/HTTP 404: .*no version 9/);
    const answer = await send("POST", `/assistants/${assistant_id}/latest`, { version: "1" });
    expect(answer).toMatchObject({ status: 422, text: expect.stringContaining("version: ") });
  });

  test("many at once get a number each, and a version never changes", async () => {
    const { assistant_id } = await assistants().create({ graphId: "gate" });
    const made = await Promise.all(Array.from({ length: 8 }, () => assistants().update(assistant_id, {})));
    expect(made.map(({ version }) => version).sort()).toEqual([2, 3, 4, 5, 6, 7, 8, 9]);
    await expect(
      shared().db.db.query("update assistant_versions set name = 'x' where assistant_id = $1", [assistant_id]),
    ).rejects.toThrow("assistant_versions rows never change");
  });

  test("a graph's own assistant keeps its graph and can't be deleted", async () => {
    const own = systemAssistantId("gate");
    const moved = await send("PATCH", `/assistants/${own}`, { graph_id: "steps" });
    expect(moved).toMatchObject({ status: 422, text: expect.stringContaining("graph_id: ") });
    await expect(assistants().delete("gate")).rejects.toThrow("HTTP 403");
    expect((await assistants().get("gate")).version).toBe(1);
  });

  test.each([
    ["PATCH", "", {}],
    ["DELETE", "", undefined],
    ["POST", "/versions", {}],
    ["POST", "/latest", { version: 1 }],
  ])("%s of an assistant that isn't there is a 404", async (method, path, body) => {
    const answer = await send(method, `/assistants/${crypto.randomUUID()}${path}`, body);
    expect([answer.status, answer.text]).toEqual([404, "Assistant not found"]);
  });
});

describe("runs", () => {
  const greet = async (client: Client, assistantId: string) => {
    const { thread_id } = await client.threads.create();
    const { log } = (await client.runs.wait(thread_id, assistantId, { input: { log: [] } })) as { log: string[] };
    const [run] = await client.runs.list(thread_id);
    return [...log, (run as unknown as { assistant_version: number }).assistant_version];
  };

  test("begin with the version that counts in every process as soon as a change was answered, and say which", async () => {
    const { client } = shared();
    const other = elsewhere();
    const { assistant_id } = await assistants().create({
      graphId: "configured",
      config: { configurable: { greeting: "v1" } },
    });
    expect(await greet(client, assistant_id)).toEqual(["v1", 1]);
    expect(await greet(other, assistant_id)).toEqual(["v1", 1]);
    for (const version of [2, 3, 4]) {
      await assistants().update(assistant_id, { config: { configurable: { greeting: `v${version}` } } });
      expect(await greet(other, assistant_id)).toEqual([`v${version}`, version]);
      expect(await greet(client, assistant_id)).toEqual([`v${version}`, version]);
    }
    await assistants().setLatest(assistant_id, 1);
    expect(await greet(other, assistant_id)).toEqual(["v1", 1]);
    // The longer way of accepting, too: with a key, and stateless.
    await assistants().update(assistant_id, { config: { configurable: { greeting: "v5" } } });
    expect(await other.runs.wait(null, assistant_id, { input: { log: [] } })).toEqual({ log: ["v5"] });
  });

  test("of a deleted assistant end, and none is made any more, in any process", async () => {
    const { client } = shared();
    const other = elsewhere();
    const { assistant_id } = await assistants().create({ graphId: "steps" });
    const { thread_id } = await client.threads.create();
    const input = { input: { log: [] } };
    await other.runs.wait(thread_id, assistant_id, input);
    const waiting = await other.runs.create(thread_id, assistant_id, { ...input, afterSeconds: 3_600 });
    await assistants().delete(assistant_id);
    const status: RunStatus = (await client.runs.get(thread_id, waiting.run_id)).status;
    expect(status).toBe("interrupted");
    await expect(other.runs.create(thread_id, assistant_id, input)).rejects.toThrow("HTTP 404: No assistant found");
    await expect(assistants().get(assistant_id)).rejects.toThrow("HTTP 404: Assistant not found");
    await expect(assistants().getVersions(assistant_id)).rejects.toThrow("HTTP 404");
    expect(await client.runs.list(thread_id)).toHaveLength(2);
  });

  test("go with their threads when these are to be deleted with the assistant", async () => {
    const { client } = shared();
    const { assistant_id } = await assistants().create({ graphId: "steps" });
    const [own, others] = [await client.threads.create(), await client.threads.create()];
    await client.runs.wait(own.thread_id, assistant_id, { input: { log: [] } });
    await client.runs.wait(others.thread_id, "steps", { input: { log: [] } });
    await assistants().delete(assistant_id, { deleteThreads: true });
    await expect(client.threads.get(own.thread_id)).rejects.toThrow("HTTP 404");
    expect((await client.threads.get(others.thread_id)).thread_id).toBe(others.thread_id);
  });
});
