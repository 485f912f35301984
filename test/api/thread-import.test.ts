// Threads that begin with a history: what nodes are said to have written, step by step; all of it or no thread.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { importThread } from "../../src/engine/import-thread.js";
import { withEngine } from "../helpers/engine.js";
import { graphs } from "./graphs.js";

const step = (asNode: string, log: string[]) => ({ updates: [{ values: { log }, asNode }] });

test("a thread is made with its states, and goes on from there", () =>
  withEngine({ graphs }, async ({ client }) => {
    const { thread_id, values } = await client.threads.create({
      graphId: "steps",
      supersteps: [step("__input__", ["in"]), step("__start__", ["in"]), step("one", ["1"]), step("two", ["2"])],
    });
    expect(values).toEqual({ log: ["in", "1", "2"] });
    const state = await client.threads.getState(thread_id);
    expect(state.next).toEqual(["three"]);
    expect(await client.threads.get(thread_id)).toMatchObject({ status: "interrupted" });
    const history = await client.threads.getHistory<{ log: string[] }>(thread_id);
    expect(history.map(({ values: { log = [] } }) => log.length)).toEqual([3, 2, 1, 0]);
    expect(await client.runs.wait(thread_id, "steps", { input: null })).toEqual({ log: ["in", "1", "2", "3"] });
  }));

test("several nodes may have written in one step, and commands say where it goes on", () =>
  withEngine({ graphs, workers: 0 }, async ({ client }) => {
    const both = [
      { values: { log: ["1"] }, asNode: "one" },
      { values: { log: ["2"] }, asNode: "two" },
    ];
    const { values } = await client.threads.create({ graphId: "steps", supersteps: [{ updates: both }] });
    expect(values).toEqual({ log: ["1", "2"] });
    const command = { update: { log: ["moved"] }, goto: "three" };
    const moved = await client.threads.create({
      graphId: "steps",
      supersteps: [step("__input__", []), { updates: [{ values: null, command, asNode: "one" }] }],
    });
    expect(moved.values).toEqual({ log: ["moved"] });
    expect((await client.threads.getState(moved.thread_id)).next).toContain("three");
  }));

test("an open question of the history can be answered", () =>
  withEngine({ graphs }, async ({ client }) => {
    const { thread_id } = await client.threads.create({
      graphId: "gate",
      supersteps: [step("__input__", []), step("before", ["before"])],
    });
    await client.runs.wait(thread_id, "gate", { input: null });
    expect(await client.runs.wait(thread_id, "gate", { command: { resume: "yes" } })).toEqual({
      log: ["before", "yes", "after"],
    });
  }));

test("what can't be applied makes no thread, and leaves its id free", () =>
  withEngine({ graphs, workers: 0 }, async ({ client, app, db }) => {
    const threadId = randomUUID();
    const refused = [
      { graphId: "steps", supersteps: [step("one", ["1"]), step("nowhere", [])] },
      { graphId: "echo", supersteps: [{ updates: [{ values: { messages: [{ role: "nobody" }] }, asNode: "reply" }] }] },
      { graphId: "no such graph", supersteps: [step("one", [])] },
      { supersteps: [step("one", [])] },
      { graphId: "steps", supersteps: [{ updates: [] }] },
    ];
    for (const asked of refused) {
      await expect(client.threads.create({ threadId, ...asked })).rejects.toThrow(/HTTP 4/);
      expect((await db.db.query("select 1 from threads")).rows).toEqual([]);
    }
    const body = { metadata: { graph_id: "steps" }, supersteps: [{ updates: [{ values: {}, command: {} }] }] };
    const both = await app.request("/threads", { method: "POST", body: JSON.stringify(body) });
    expect(both.status).toBe(422);
    const made = await client.threads.create({ threadId, graphId: "steps", supersteps: [step("one", ["1"])] });
    expect(made.thread_id).toBe(threadId);
  }));

test("a thread that is there stays as it is", () =>
  withEngine({ graphs, workers: 0 }, async ({ client }) => {
    const { thread_id: threadId } = await client.threads.create({ graphId: "steps" });
    const asked = { threadId, graphId: "steps", supersteps: [step("one", ["1"])] };
    await expect(client.threads.create(asked)).rejects.toThrow(/HTTP 409/);
    expect((await client.threads.create({ ...asked, ifExists: "do_nothing" })).values).toBeNull();
  }));

test("what an import has left that died half way goes by itself", () =>
  withEngine({ graphs, workers: 0, movable: true }, async (t) => {
    const { client, db, engine } = t;
    let transactions = 0;
    const tx: typeof engine.deps.db.tx = (work) => {
      transactions += 1;
      return transactions === 1 ? engine.deps.db.tx(work) : Promise.reject(new Error("died"));
    };
    const asked = {
      ...{ tenantId: "default" as never, threadId: undefined, metadata: { graph_id: "steps" }, ttl: null },
      ...{ ifExists: "raise" as const, once: null },
      supersteps: [{ updates: [{ values: { log: ["1"] }, command: undefined, asNode: "one" }] }],
    };
    await expect(
      importThread({ ...engine, deps: { ...engine.deps, db: { ...engine.deps.db, tx } } }, asked),
    ).rejects.toThrow("died");
    expect(await client.threads.search()).toEqual([]);
    expect((await db.db.query("select 1 from threads")).rows).toHaveLength(1);
    await t.advance(120_000);
    await t.fireTimers();
    expect((await db.db.query("select 1 from threads")).rows).toEqual([]);
  }));
