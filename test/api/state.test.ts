// States as clients read and edit them: now, at a checkpoint, over the history, inside subgraphs.
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import type { Client, ThreadState } from "@langchain/langgraph-sdk";
import { describe, expect, test } from "vitest";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { graphs } from "./graphs.js";
import { sharedEngine } from "./shared.js";

type Log = { log: string[] };
const shared = sharedEngine({ graphs });
const running = (work: (engine: TestEngine) => Promise<void>) => work(shared());
const post = async (engine: TestEngine, path: string, body: unknown) =>
  engine.app.request(path, { method: "POST", body: JSON.stringify(body) });

async function ran(client: Client, graphId: string, input: Record<string, unknown> = {}): Promise<string> {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, graphId, { input });
  return thread_id;
}
const logs = (states: readonly ThreadState<Log>[]) => states.map((state) => state.values.log?.join("") ?? "");
/** Asks, and takes not everything. */
const choosy = new StateGraph(
  Annotation.Root({
    log: Annotation<string[]>({
      reducer: (all, more) => {
        if (more.includes("no")) throw new TypeError("not that");
        return [...all, ...more];
      },
      default: () => [],
    }),
  }),
)
  .addNode("ask", () => ({ log: [String(interrupt("which?"))] }))
  .addEdge(START, "ask")
  .addEdge("ask", END)
  .compile();
const history = (client: Client, id: string, options: Parameters<Client["threads"]["getHistory"]>[1] = {}) =>
  client.threads.getHistory<Log>(id, { limit: 100, ...options });

describe("reading", () => {
  test("a thread without a graph has the empty state", () =>
    running(async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const empty = {
        values: {},
        next: [],
        tasks: [],
        metadata: {},
        created_at: null,
        checkpoint: null,
        parent_checkpoint: null,
        interrupts: [],
      };
      expect(await client.threads.getState(thread_id)).toEqual(empty);
      expect(await client.threads.getHistory(thread_id)).toEqual([]);
      const typed = await client.threads.create({ graphId: "steps" });
      expect(await client.threads.getState(typed.thread_id)).toEqual(empty);
      expect(await client.threads.getHistory(typed.thread_id)).toEqual([]);
    }));

  test("shows values, checkpoint, parent and where it came from", () =>
    running(async ({ client }) => {
      const id = await ran(client, "steps");
      const state = await client.threads.getState<Log>(id);
      expect(state).toMatchObject({
        values: { log: ["1", "2", "3"] },
        next: [],
        tasks: [],
        checkpoint: { thread_id: id, checkpoint_ns: "", checkpoint_map: null },
        metadata: { source: "loop", step: 3, thread_id: id },
      });
      const [head, parent] = await history(client, id);
      expect(head).toEqual(state);
      expect(state.parent_checkpoint).toEqual(parent?.checkpoint);
      expect(Date.parse(state.created_at ?? "")).not.toBeNaN();
      expect(state.metadata).toHaveProperty("run_id");
      expect(state.metadata).not.toHaveProperty("checkpoint_ns");
    }));

  test("shows each step to come, and the state at any checkpoint, by id and by checkpoint", () =>
    running(async ({ client }) => {
      const id = await ran(client, "steps");
      const states = await history(client, id);
      expect(logs(states)).toEqual(["123", "12", "1", "", ""]);
      expect(states.map((state) => state.next)).toEqual([[], ["three"], ["two"], ["one"], ["__start__"]]);
      const old = states[2];
      expect(await client.threads.getState(id, old?.checkpoint.checkpoint_id ?? "")).toEqual(old);
      expect(await client.threads.getState(id, old?.checkpoint)).toEqual(old);
      expect(old?.tasks).toMatchObject([{ name: "two", error: null, interrupts: [], state: null }]);
    }));

  test("only what is selected, down to one key of the values", () =>
    running(async (engine) => {
      const id = await ran(engine.client, "steps");
      const at = (await engine.client.threads.getState(id)).checkpoint;
      const picked = { values: { log: ["1", "2", "3"] }, next: [] };
      const select: ("values.log" | "next")[] = ["values.log", "next"];
      expect(await engine.client.threads.getState(id, undefined, { select })).toEqual(picked);
      expect(await engine.client.threads.getState(id, at, { select })).toEqual(picked);
      expect(await engine.client.threads.getHistory(id, { limit: 1, select: ["next"] })).toEqual([{ next: [] }]);
      expect(await engine.client.threads.getState(id, undefined, { select: ["values.none"] })).toEqual({ values: {} });
      const wrong = await engine.app.request(`/threads/${id}/state?select=secrets`);
      expect(wrong.status).toBe(422);
      expect(await wrong.text()).toContain("select[0]: must be values.<key> or one of values, next");
    }));

  test("an unknown checkpoint is 404, one of another thread too, a malformed one 422", () =>
    running(async (engine) => {
      const { client, app } = engine;
      const [id, other] = [await ran(client, "steps"), await ran(client, "steps")];
      const missing = "00000000-0000-4000-8000-000000000000";
      await expect(client.threads.getState(id, missing)).rejects.toThrow(
        `HTTP 404: Checkpoint ${missing} not found on thread ${id}`,
      );
      const foreign = (await client.threads.getState(other)).checkpoint;
      await expect(client.threads.getState(id, foreign.checkpoint_id ?? "")).rejects.toThrow("HTTP 404");
      await expect(client.threads.getState(id, foreign)).rejects.toThrow("HTTP 422: checkpoint.thread_id");
      expect((await app.request(`/threads/${id}/state/xyz`)).status).toBe(422);
      expect((await post(engine, `/threads/${id}/history`, { before: "xyz" })).status).toBe(422);
      expect((await post(engine, `/threads/${id}/history`, { limit: "ten" })).status).toBe(422);
    }));

  test("as RemoteGraph asks: a checkpoint object with subgraphs, or nothing", () =>
    running(async (engine) => {
      const id = await ran(engine.client, "steps");
      const state = await engine.client.threads.getState(id);
      for (const body of [
        { checkpoint: { thread_id: id }, subgraphs: true },
        {
          checkpoint: { thread_id: id, checkpoint_id: null, checkpoint_ns: "", checkpoint_map: null },
          subgraphs: false,
        },
        {},
      ]) {
        const response = await post(engine, `/threads/${id}/state/checkpoint`, body);
        expect([response.status, await response.json()]).toEqual([200, state]);
      }
    }));

  test("a body that is gone is an error that names it, not an empty state", () =>
    running(async ({ client, deps, move }) => {
      const { thread_id } = await client.threads.create();
      const content = "a long text ".repeat(500);
      await client.runs.wait(thread_id, "echo", { input: { messages: [{ role: "user", content }] } });
      while ((await move()) > 0);
      const keys: string[] = [];
      for await (const key of deps.bodies.list(`default/${thread_id}/`)) keys.push(key);
      expect(keys).not.toEqual([]);
      await deps.bodies.delete(keys);
      await expect(client.threads.getState(thread_id)).rejects.toThrow(/HTTP 410: .*jsonl\.gz/);
    }));
});

describe("history", () => {
  test("goes on before a checkpoint, in each form clients send it", () =>
    running(async (engine) => {
      const { client, app } = engine;
      const id = await ran(client, "steps");
      const states = await history(client, id);
      const from = states[1]?.checkpoint;
      const checkpoint_id = from?.checkpoint_id ?? "";
      const rest = states.slice(2);
      for (const before of [checkpoint_id, { configurable: { checkpoint_id } }, from, { checkpoint_id }]) {
        const response = await post(engine, `/threads/${id}/history`, { limit: 100, before });
        expect([response.status, await response.json()]).toEqual([200, rest]);
      }
      for (const before of [checkpoint_id, JSON.stringify({ configurable: { checkpoint_id } })]) {
        const response = await app.request(`/threads/${id}/history?limit=1&before=${encodeURIComponent(before)}`);
        expect(await response.json()).toEqual(rest.slice(0, 1));
      }
    }));

  test("is limited to ten, and filtered by metadata of the run", () =>
    running(async ({ client }) => {
      const { thread_id } = await client.threads.create();
      for (const turn of ["first", "second", "third"]) {
        await client.runs.wait(thread_id, "steps", { input: {}, metadata: { turn } });
      }
      expect(await client.threads.getHistory(thread_id)).toHaveLength(10);
      const second = await history(client, thread_id, { metadata: { turn: "second" } });
      expect(second).toHaveLength(5);
      expect(second.every((state) => state.metadata?.turn === "second")).toBe(true);
      expect(await history(client, thread_id, { metadata: { turn: "fourth" } })).toEqual([]);
    }));

  test("of a subgraph is read by its namespace", () =>
    running(async ({ client }) => {
      const id = await ran(client, "nested");
      const state = await client.threads.getState<Log>(id, undefined, { subgraphs: true });
      const [task] = state.tasks;
      expect((task?.state?.values as Log).log).toEqual(["first", "before"]);
      expect(task?.state?.tasks[0]?.interrupts).toMatchObject([{ value: { question: "go on?" } }]);
      const flat = await client.threads.getState<Log>(id);
      const checkpoint = flat.tasks[0]?.checkpoint;
      expect(checkpoint).toEqual({ thread_id: id, checkpoint_ns: `inner:${task?.id}` });
      const inner = await history(client, id, { limit: 1, checkpoint: checkpoint! });
      expect(inner).toEqual([expect.objectContaining({ next: ["ask"], values: { log: ["first", "before"] } })]);
    }));
});

describe("editing", () => {
  test("adds a checkpoint as if a node had returned the values", () =>
    running(async ({ client }) => {
      const id = await ran(client, "gate");
      const { checkpoint } = (await client.threads.updateState(id, {
        values: { log: ["edited"] },
        asNode: "ask",
      })) as unknown as { checkpoint: Record<string, unknown> };
      const state = await client.threads.getState<Log>(id);
      expect(checkpoint).toEqual({
        thread_id: id,
        checkpoint_ns: "",
        checkpoint_id: state.checkpoint.checkpoint_id,
      });
      expect(state).toMatchObject({
        values: { log: ["before", "edited"] },
        next: ["after"],
        metadata: { source: "update" },
      });
      expect((await client.threads.get(id)).status).toBe("interrupted");
      await client.runs.wait(id, "gate", { input: null });
      expect((await client.threads.getState<Log>(id)).values.log).toEqual(["before", "edited", "after"]);
    }));

  test("null as __end__ ends what is going on, and withdraws its question", () =>
    running(async ({ client, app }) => {
      const id = await ran(client, "gate");
      await client.threads.updateState(id, { values: null, asNode: "__end__" });
      const thread = await client.threads.get(id);
      expect(thread).toMatchObject({ status: "idle", interrupts: {}, values: { log: ["before"] } });
      expect((await client.threads.getState(id)).next).toEqual([]);
      const approvals = await (await app.request(`/v1/approvals?thread_id=${id}`)).json();
      expect(JSON.stringify(approvals)).not.toContain('"pending"');
    }));

  test("an edit of an old checkpoint becomes the head; the old branch stays as it was", () =>
    running(async ({ client }) => {
      const id = await ran(client, "steps");
      const before = await history(client, id);
      const oldHead = before[0]?.checkpoint;
      const afterOne = before.find((state) => state.values.log?.join("") === "1")?.checkpoint;
      await client.threads.updateState(id, { values: { log: ["x"] }, checkpoint: afterOne!, asNode: "two" });
      expect((await client.threads.getState<Log>(id)).values.log).toEqual(["1", "x"]);
      await client.runs.wait(id, "steps", { input: null });
      expect((await client.threads.getState<Log>(id)).values.log).toEqual(["1", "x", "3"]);
      await client.runs.wait(id, "steps", { input: {} });
      expect((await client.threads.getState<Log>(id)).values.log).toEqual(["1", "x", "3", "1", "2", "3"]);
      expect((await client.threads.getState<Log>(id, oldHead)).values.log).toEqual(["1", "2", "3"]);
      const all = await history(client, id);
      const children = new Map<string, number>();
      for (const { parent_checkpoint } of all) {
        const parent = parent_checkpoint?.checkpoint_id ?? "root";
        children.set(parent, (children.get(parent) ?? 0) + 1);
      }
      expect([...children].filter(([, n]) => n > 1)).toEqual([[afterOne?.checkpoint_id, 2]]);
    }));

  test("the very first checkpoint can be edited too", () =>
    running(async ({ client }) => {
      const id = await ran(client, "steps");
      const first = (await history(client, id)).at(-1)?.checkpoint;
      await client.threads.updateState(id, { values: { log: ["x"] }, checkpoint: first!, asNode: "one" });
      await client.runs.wait(id, "steps", { input: null });
      expect((await client.threads.getState<Log>(id)).values.log).toEqual(["x", "2", "3"]);
    }));

  test("a thread that runs is busy", () =>
    running(async ({ client }) => {
      const { thread_id } = await client.threads.create({ graphId: "steps" });
      await client.runs.create(thread_id, "steps", { input: {}, afterSeconds: 60 });
      await expect(client.threads.updateState(thread_id, { values: { log: [] } })).rejects.toThrow(
        "HTTP 409: Thread is busy",
      );
    }));

  test("an edit of a new thread is its first state", () =>
    running(async ({ client }) => {
      const { thread_id } = await client.threads.create({ graphId: "steps" });
      await client.threads.updateState(thread_id, { values: { log: ["seed"] }, asNode: "two" });
      expect(await client.threads.getState(thread_id)).toMatchObject({ values: { log: ["seed"] }, next: ["three"] });
    }));

  test("what can't be applied is refused, and the thread is as before", () =>
    running(async (engine) => {
      const { client } = engine;
      const id = await ran(client, "gate");
      const before = [await client.threads.get(id), await client.threads.getState(id)] as const;
      const refused = async (body: unknown, status: number, message: string) => {
        const headers = { "idempotency-key": "once" };
        const init = { method: "POST", headers, body: JSON.stringify(body) };
        const response = await engine.app.request(`/threads/${id}/state`, init);
        expect([response.status, await response.text()]).toEqual([status, expect.stringContaining(message)]);
      };
      await refused({ values: {}, as_node: "nobody" }, 422, 'as_node: "nobody" is no node of graph "gate"; it has');
      await refused({ values: {}, as_node: "constructor" }, 422, 'as_node: "constructor" is no node');
      await refused({ values: "text" }, 422, "values: must be an object, an array or null");
      await refused({ values: {}, checkpoint_id: "7" }, 422, "checkpoint_id: must be a UUID");
      await refused({ values: {}, checkpoint_id: "00000000-0000-4000-8000-000000000000" }, 404, "Checkpoint");
      await refused({ values: {}, as_node: "a\0b" }, 422, "as_node: must not contain NUL");
      const rows = await engine.db.db.query(
        "select run_id from runs where kind = 'edit' and thread_id = $1 union all select made_id from idempotency_keys",
        [id],
      );
      expect(rows.rows).toEqual([]);
      expect(await client.threads.getState(id)).toEqual(before[1]);
      const { updated_at, ...thread } = await client.threads.get(id);
      expect({ ...thread, updated_at: before[0].updated_at }).toEqual(before[0]);
      const { thread_id } = await client.threads.create();
      const none = await post(engine, `/threads/${thread_id}/state`, { values: {} });
      expect([none.status, await none.text()]).toEqual([400, `Thread ${thread_id} has no graph ID`]);
    }));

  test("an edit that a reducer refuses leaves nothing, and the question as it was", () =>
    withEngine({ graphs: { choosy } }, async (engine) => {
      const { client, app, db } = engine;
      const id = await ran(client, "choosy");
      const edit = (log: string[]) => {
        const init = {
          method: "POST",
          headers: { "idempotency-key": "once" },
          body: JSON.stringify({ values: { log } }),
        };
        return app.request(`/threads/${id}/state`, init);
      };
      const look = async () => {
        const { rows } = await db.db.query(
          `select (select array_agg(run_id) from runs) as runs, (select count(*) from idempotency_keys) as keys,
            (select count(*) from checkpoint_writes) as writes, (select array_agg(status) from approvals) as asked`,
        );
        return { rows, state: await client.threads.getState<Log>(id) };
      };
      const before = await look();
      const refused = await edit(["no"]);
      expect([refused.status, await refused.text()]).toEqual([422, "The update can't be applied. TypeError: not that"]);
      expect(await look()).toEqual(before);
      expect(await client.threads.get(id)).toMatchObject({ status: "interrupted" });
      // The key is free, and what an edit writes before its checkpoint comes with that.
      expect((await edit(["more"])).status).toBe(200);
      const { values, parent_checkpoint } = await client.threads.getState<Log>(id);
      expect([values.log, parent_checkpoint]).toEqual([["more"], before.state.checkpoint]);
      const { rows: written } = await db.db.query("select checkpoint_id from checkpoint_writes where channel = 'log'");
      expect(written).toEqual([{ checkpoint_id: parent_checkpoint?.checkpoint_id }]);
    }));

  test("values come back exactly: NUL, lone surrogates, keys like __proto__", () =>
    running(async (engine) => {
      const { client } = engine;
      const { thread_id } = await client.threads.create({ graphId: "steps" });
      const log = '["a\\u0000b","\\ud800",{"__proto__":{"x":1},"lc":1,"type":"constructor","id":["a"],"kwargs":{}}]';
      const response = await engine.app.request(`/threads/${thread_id}/state`, {
        method: "POST",
        body: `{"values":{"log":${log}},"as_node":"one"}`,
      });
      expect(response.status).toBe(200);
      const state = await (await engine.app.request(`/threads/${thread_id}/state`)).text();
      expect(state).toContain(log);
    }));
});
