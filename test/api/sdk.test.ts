// The stock client on a real port: a run's whole life as applications have it, by way of connections that break and of two
// API processes.
import { randomUUID } from "node:crypto";
import type { BaseMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { Annotation, END, getWriter, START, StateGraph } from "@langchain/langgraph";
import { Client, type StreamMode } from "@langchain/langgraph-sdk";
import { createAgent } from "langchain";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createApp } from "../../src/api/app.js";
import { type ApiServer, serveApi } from "../../src/api/server.js";
import { composeEngine, openParts, type Parts } from "../../src/compose.js";
import { createLog } from "../../src/observe/log.js";
import { startProxy, through } from "../helpers/proxy.js";
import { StreamingModel } from "../helpers/streaming-model.js";
import { until } from "../helpers/wait.js";
import { gate, steps } from "./graphs.js";
import { sharedEngine } from "./shared.js";

const model = new StreamingModel((messages: readonly BaseMessage[]) =>
  messages.at(-1)?.type === "tool"
    ? { text: "it is 42" }
    : { text: "let me look", calls: [{ id: `call-${messages.length}`, name: "lookup", args: { q: "life" } }] },
);
const lookup = tool(() => "42", { name: "lookup", description: "", schema: z.object({ q: z.string() }) });
const agent = createAgent({ model, tools: [lookup] });

/** What the test tells the nodes of a run, by the key of its input: to go on; and what it hears from them. */
const doors = new Map<string, { open: () => void; abortedAtMs?: number }>();
const Keyed = Annotation.Root({
  key: Annotation<string>,
  n: Annotation<number>,
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** Writes 1 … n, waiting in the middle until it may go on. */
const counting = new StateGraph(Keyed)
  .addNode("count", async ({ key, n }, config) => {
    for (let i = 1; i <= n; i += 1) {
      getWriter()?.(i);
      if (i !== Math.ceil(n / 2)) continue;
      await new Promise<void>((open, fail) => {
        const door: { open: () => void; abortedAtMs?: number } = { open };
        doors.set(key, door);
        config.signal?.addEventListener("abort", () => {
          door.abortedAtMs = performance.now();
          fail(new Error("aborted"));
        });
      });
    }
    return { log: [key] };
  })
  .addEdge(START, "count")
  .addEdge("count", END);

/** Doesn't listen to signals, and calls a tool when it is let go. */
const acted: string[] = [];
const act = tool(({ key }) => acted.push(key), { name: "act", description: "", schema: z.object({ key: z.string() }) });
const stubborn = new StateGraph(Keyed)
  .addNode("work", async ({ key }, config) => {
    await new Promise<void>((open) => doors.set(key, { open }));
    await act.invoke({ key }, config).finally(() => doors.delete(key));
    return { log: [key] };
  })
  .addEdge(START, "work")
  .addEdge("work", END);

const graphs = { agent, steps, gate, counting, stubborn };
const shared = sharedEngine({ graphs });
let server: ApiServer;
let client: Client;
/** Another API over the same database, with its own connections; no worker is in its process. */
let second: ApiServer & Readonly<{ parts: Parts; client: Client }>;
beforeAll(async () => {
  const { app, db, engine } = shared();
  server = await serveApi(app, { port: 0 });
  client = new Client({ apiUrl: server.url });
  const log = createLog("silent");
  const parts = openParts({ databaseUrl: db.url, bodies: "memory:", log, applicationName: "second api" });
  const { graphs: loaded, settings } = engine;
  const other = await serveApi(createApp(composeEngine(parts, loaded, settings)), { port: 0 });
  second = { ...other, parts, client: new Client({ apiUrl: other.url }) };
});
afterAll(async () => {
  await server.close({ graceMs: 0 });
  await second.close({ graceMs: 0 });
  await second.parts.close();
});

type Part = Readonly<{ id?: string; event: string; data: unknown }>;
async function all(stream: AsyncIterable<unknown>): Promise<Part[]> {
  const parts: Part[] = [];
  for await (const part of stream) parts.push(part as Part);
  return parts;
}
const hello = { messages: [{ type: "human", content: "what is it?" }] };
const newThread = async () => (await client.threads.create()).thread_id;
const open = (key: string) => until("the run to wait", () => doors.get(key)).then((door) => door.open());
const statusOf = async (thread: string, run: string) => (await client.runs.get(thread, run)).status;

describe("streams", () => {
  test.each([
    ["values", ["values"]],
    ["updates", ["updates"]],
    ["messages-tuple", ["messages"]],
    ["messages", ["messages/complete", "messages/metadata", "messages/partial"]],
    ["events", ["events"]],
    ["debug", ["debug"]],
    ["tasks", ["tasks"]],
    ["checkpoints", ["checkpoints"]],
    ["tools", ["tools"]],
  ] as const)("in mode %s come whole, and again for who joins late", async (mode, events) => {
    const thread = await newThread();
    let created: string | undefined;
    const onRunCreated = ({ run_id }: { run_id: string }) => void (created = run_id);
    const parts = await all(
      client.runs.stream(thread, "agent", { input: hello, streamMode: mode as StreamMode, onRunCreated }),
    );
    expect([...new Set(parts.map(({ event }) => event))].sort()).toEqual([...events, "metadata"].sort());
    expect(parts[0]).toMatchObject({ event: "metadata", data: { run_id: created } });
    expect(await all(client.runs.joinStream(thread, created ?? "", { lastEventId: "-1" }))).toEqual(parts);
  });

  test("of a broken connection go on where they were: nothing is lost, nothing comes twice, ids are the same", async () => {
    const proxy = await startProxy(server.url);
    try {
      const thread = await newThread();
      const key = randomUUID();
      const payload = {
        input: { key, n: 40 },
        streamMode: ["custom", "values"] as ["custom", "values"],
        streamResumable: true,
      };
      const parts: Part[] = [];
      // By itself: the client comes back with the last id it saw.
      const torn = new Client({ apiUrl: through(proxy, server.url).replace(/\/$/, "") });
      for await (const part of torn.runs.stream(thread, "counting", payload)) {
        parts.push(part);
        if (parts.length === 15) proxy.cut();
        if (parts.length === 16) await open(key);
      }
      const { run_id } = parts[0]?.data as { run_id: string };
      // By hand: each visit takes a few and leaves.
      const visited: Part[] = [];
      for (let ended = false; !ended; ) {
        const leave = new AbortController();
        const lastEventId = visited.at(-1)?.id ?? "-1";
        ended = true;
        try {
          let left = 7;
          for await (const part of client.runs.joinStream(thread, run_id, { lastEventId, signal: leave.signal })) {
            visited.push(part);
            if (--left > 0) continue;
            ended = false;
            leave.abort();
            break;
          }
        } catch (error) {
          if (!leave.signal.aborted) throw error;
        }
      }
      const numbers = parts.filter(({ event }) => event === "custom").map(({ data }) => data);
      expect(numbers).toEqual(Array.from({ length: 40 }, (_, i) => i + 1));
      expect(visited).toEqual(parts);
      expect(parts.map(({ id }) => Number(id))).toEqual(parts.map((_, i) => i));
    } finally {
      await proxy.close();
    }
  });

  test("begun at one API go on at another over the same database, while the run runs and when it has ended", async () => {
    const { client: other } = second;
    const thread = await newThread();
    const key = randomUUID();
    const leave = new AbortController();
    const payload = { input: { key, n: 20 }, streamMode: "custom" as const, signal: leave.signal };
    const first: Part[] = [];
    try {
      for await (const part of client.runs.stream(thread, "counting", payload)) {
        if (first.push(part) === 6) leave.abort();
      }
    } catch {
      // It left.
    }
    const { run_id } = first[0]?.data as { run_id: string };
    const rest: Part[] = [];
    for await (const part of other.runs.joinStream(thread, run_id, { lastEventId: first.at(-1)?.id ?? "" })) {
      if (rest.push(part) === 4) await open(key);
    }
    expect([...first.slice(1), ...rest].map(({ data }) => data)).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
    expect(await all(other.runs.joinStream(thread, run_id, { lastEventId: "-1" }))).toEqual([...first, ...rest]);
    expect(await other.runs.join(thread, run_id)).toMatchObject({ log: [key] });
    expect(await other.threads.getState(thread)).toEqual(await client.threads.getState(thread));
  });

  test("whose client leaves with onDisconnect cancel end their run", async () => {
    const thread = await newThread();
    const key = randomUUID();
    const leave = new AbortController();
    const payload = {
      input: { key, n: 2 },
      streamMode: "custom" as const,
      onDisconnect: "cancel" as const,
      signal: leave.signal,
    };
    const stream = client.runs.stream(thread, "counting", payload);
    const { value } = await stream.next();
    await until("the run to wait", () => doors.get(key));
    leave.abort();
    await stream.next().catch(() => undefined);
    const { run_id } = (value as unknown as { data: { run_id: string } }).data;
    await until("the run to be cancelled", async () => (await statusOf(thread, run_id)) === "interrupted");
    await until("its node to hear of it", () => doors.get(key)?.abortedAtMs);
  });
});

describe("waiting", () => {
  test("wait and join give the run's own values, or its question", async () => {
    const thread = await newThread();
    expect(await client.runs.wait(thread, "agent", { input: hello })).toMatchObject({
      messages: [{ type: "human" }, { type: "ai" }, { type: "tool", content: "42" }, { content: "it is 42" }],
    });
    const run = await client.runs.create(thread, "agent", { input: hello });
    expect(await client.runs.join(thread, run.run_id)).toMatchObject({ messages: { length: 8 } });
    const asked = await client.runs.wait(await newThread(), "gate", { input: {} });
    expect(asked).toMatchObject({ __interrupt__: [{ value: { question: "go on?" } }] });
  });

  test("without a thread: wait, stream and create work, and leave no thread behind", async () => {
    const before = await client.threads.count();
    expect(await client.runs.wait(null, "steps", { input: {} })).toEqual({ log: ["1", "2", "3"] });
    const parts = await all(client.runs.stream(null, "steps", { input: {}, streamMode: "updates" }));
    expect(parts.slice(1).map(({ data }) => data)).toEqual([
      { one: { log: ["1"] } },
      { two: { log: ["2"] } },
      { three: { log: ["3"] } },
    ]);
    const run = await client.runs.create(null, "steps", { input: {} });
    expect(await client.runs.join(run.thread_id, run.run_id)).toEqual({ log: ["1", "2", "3"] });
    expect(await client.threads.count()).toBe(before);
  });
});

describe("going back", () => {
  test("an old checkpoint with another input is the new head; the old branch stays as it was", async () => {
    const thread = await newThread();
    await client.runs.wait(thread, "steps", { input: { log: ["a"] } });
    const old = await client.threads.getHistory<{ log: string[] }>(thread);
    expect(old.map(({ values, next }) => [values.log, next])).toEqual([
      [["a", "1", "2", "3"], []],
      [["a", "1", "2"], ["three"]],
      [["a", "1"], ["two"]],
      [["a"], ["one"]],
      [[], ["__start__"]],
    ]);
    // Input at a checkpoint starts over from its state.
    const checkpointId = old[2]?.checkpoint.checkpoint_id ?? "";
    const forked = { log: ["a", "1", "b", "1", "2", "3"] };
    expect(await client.runs.wait(thread, "steps", { input: { log: ["b"] }, checkpointId })).toEqual(forked);
    expect((await client.threads.getState(thread)).values).toEqual(forked);
    expect((await client.threads.get(thread)).values).toEqual(forked);
    for (const state of old) expect(await client.threads.getState(thread, state.checkpoint)).toEqual(state);
    const history = await client.threads.getHistory(thread, { limit: 100 });
    expect(history.slice(-old.length)).toEqual(old);
    const children = history.filter((state) => state.parent_checkpoint?.checkpoint_id === checkpointId);
    expect(children).toHaveLength(2);
  });

  test("an edited state, now or at an old checkpoint, is what the next run goes on with", async () => {
    const thread = await newThread();
    await client.runs.wait(thread, "steps", { input: { log: ["a"] } });
    await client.threads.updateState(thread, { values: { log: ["edited"] }, asNode: "one" });
    expect((await client.threads.getState(thread)).next).toEqual(["two"]);
    expect(await client.runs.wait(thread, "steps", { input: null })).toEqual({
      log: ["a", "1", "2", "3", "edited", "2", "3"],
    });
    const old = (await client.threads.getHistory(thread, { limit: 100 })).find(({ next }) => next[0] === "one");
    const edit = { values: { log: ["instead"] }, asNode: "two", checkpointId: old?.checkpoint.checkpoint_id ?? "" };
    const { checkpoint } = (await client.threads.updateState(thread, edit)) as unknown as {
      checkpoint: { checkpoint_id: string };
    };
    const forked = await client.runs.wait(thread, "steps", { input: null, checkpointId: checkpoint.checkpoint_id });
    expect(forked).toEqual({ log: ["a", "instead", "3"] });
  });
});

describe("cancelling", () => {
  test.each([
    ["by the API it was made at", () => client],
    ["by another", () => second.client],
  ])("a running run, %s: its node hears of it within 2 s, nothing is stored, the thread goes on", async (_, by) => {
    const thread = await newThread();
    const key = randomUUID();
    const run = await client.runs.create(thread, "counting", { input: { key, n: 2 } });
    await until("the run to wait", () => doors.get(key));
    const startMs = performance.now();
    await by().runs.cancel(thread, run.run_id, true);
    expect(await statusOf(thread, run.run_id)).toBe("interrupted");
    expect((await client.threads.get(thread)).status).toBe("idle");
    const abortedMs = await until("the signal", () => doors.get(key)?.abortedAtMs);
    expect(abortedMs - startMs).toBeLessThan(2_000);
    expect((await client.threads.getState<{ log: string[] }>(thread)).values.log).toEqual([]);
    expect(await client.runs.wait(thread, "steps", { input: {} })).toMatchObject({ log: ["1", "2", "3"] });
  });

  test("a pending run never starts; one that waits at a gate can't be answered any more; a finished one stays", async () => {
    const thread = await newThread();
    const [key, never] = [randomUUID(), randomUUID()];
    await client.runs.create(thread, "counting", { input: { key, n: 2 } });
    const pending = await client.runs.create(thread, "counting", { input: { key: never, n: 2 } });
    await client.runs.cancel(thread, pending.run_id);
    await open(key);
    await until("the thread to be idle", async () => (await client.threads.get(thread)).status === "idle");
    expect(doors.has(never)).toBe(false);
    expect(await statusOf(thread, pending.run_id)).toBe("interrupted");

    const asking = await newThread();
    const waits = await client.runs.create(asking, "gate", { input: {} });
    await client.runs.join(asking, waits.run_id);
    await client.runs.cancel(asking, waits.run_id);
    expect((await client.threads.get(asking)).status).toBe("idle");
    await expect(client.runs.wait(asking, "gate", { command: { resume: "yes" } })).rejects.toThrow("409");

    const finished = await client.runs.create(thread, "steps", { input: {} });
    await client.runs.join(thread, finished.run_id);
    await client.runs.cancel(thread, finished.run_id);
    expect(await statusOf(thread, finished.run_id)).toBe("success");
  });

  test("a run whose node doesn't listen is over at once: what it does later is refused", async () => {
    const thread = await newThread();
    const key = randomUUID();
    const run = await client.runs.create(thread, "stubborn", { input: { key } });
    await until("the run to wait", () => doors.get(key));
    await client.runs.cancel(thread, run.run_id);
    expect(await statusOf(thread, run.run_id)).toBe("interrupted");
    expect(await client.runs.wait(thread, "steps", { input: {} })).toMatchObject({ log: ["1", "2", "3"] });
    await open(key);
    await until("its tool call to be over", () => !doors.has(key));
    expect(acted).toEqual([]);
    expect((await client.threads.getState<{ log: string[] }>(thread)).values.log).toEqual(["1", "2", "3"]);
  });

  test("right after they were made, 200 times: none goes on", async () => {
    for (let from = 0; from < 200; from += 20) {
      const runs = await Promise.all(
        Array.from({ length: 20 }, async () => {
          const thread = await newThread();
          const key = randomUUID();
          const { run_id } = await client.runs.create(thread, "counting", { input: { key, n: 2 } });
          await client.runs.cancel(thread, run_id);
          return { thread, key, run_id };
        }),
      );
      for (const { thread, key, run_id } of runs) {
        expect(await statusOf(thread, run_id)).toBe("interrupted");
        if (doors.has(key)) await until("the signal", () => doors.get(key)?.abortedAtMs);
      }
    }
  });
});

describe("creating", () => {
  test("afterSeconds keeps a run until it is due, and the thread free for others", async () => {
    const thread = await newThread();
    const later = await client.runs.create(thread, "steps", { input: { log: ["later"] }, afterSeconds: 1 });
    expect(await client.runs.wait(thread, "steps", { input: { log: ["now"] } })).toEqual({
      log: ["now", "1", "2", "3"],
    });
    expect(await statusOf(thread, later.run_id)).toBe("pending");
    await until("the run to end", async () => {
      await shared().fireTimers();
      return (await statusOf(thread, later.run_id)) === "success";
    });
    const { rows } = await shared().db.db.query<{ early: boolean }>(
      "select started_at < created_at + interval '1 s' as early from runs where run_id = $1",
      [later.run_id],
    );
    expect(rows).toEqual([{ early: false }]);
  });

  test("ifNotExists create makes the thread, reject says that there is none", async () => {
    const thread = randomUUID();
    await expect(client.runs.create(thread, "steps", { input: {} })).rejects.toThrow("404");
    await client.runs.wait(thread, "steps", { input: {}, ifNotExists: "create" });
    expect((await client.threads.getState(thread)).values).toEqual({ log: ["1", "2", "3"] });
  });

  test("multitaskStrategy: enqueue waits its turn, reject is refused, interrupt takes the place", async () => {
    const thread = await newThread();
    const [a, b, c] = [randomUUID(), randomUUID(), randomUUID()];
    const create = (key: string, multitaskStrategy: "enqueue" | "reject" | "interrupt") =>
      client.runs.create(thread, "counting", { input: { key, n: 2 }, multitaskStrategy });
    const first = await create(a, "enqueue");
    const second = await create(b, "enqueue");
    await expect(create(c, "reject")).rejects.toThrow("422");
    await open(a);
    await client.runs.join(thread, first.run_id);
    await until("the second run to wait", () => doors.get(b));
    const third = await create(c, "interrupt");
    await open(c);
    await client.runs.join(thread, third.run_id);
    expect(await statusOf(thread, second.run_id)).toBe("interrupted");
    expect((await client.threads.getState<{ log: string[] }>(thread)).values.log).toEqual([a, c]);
  });

  test("interruptBefore and interruptAfter stop there, and null input goes on", async () => {
    const thread = await newThread();
    const stopped = async () => (await client.threads.getState(thread)).next;
    await client.runs.wait(thread, "steps", { input: {}, interruptBefore: ["two"] });
    expect(await stopped()).toEqual(["two"]);
    expect((await client.threads.get(thread)).status).toBe("interrupted");
    await client.runs.wait(thread, "steps", { input: null, interruptAfter: ["two"] });
    expect(await stopped()).toEqual(["three"]);
    expect(await client.runs.wait(thread, "steps", { input: null })).toEqual({ log: ["1", "2", "3"] });
    expect((await client.threads.get(thread)).status).toBe("idle");
    await client.runs.wait(thread, "steps", { input: {}, interruptBefore: "*" });
    expect(await stopped()).toEqual(["one"]);
  });
});
