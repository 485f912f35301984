// Real graphs on the saver: what is read later, by another process, from Postgres or from packs, is what the run had.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { HumanMessage } from "@langchain/core/messages";
import {
  Annotation,
  Command,
  END,
  entrypoint,
  getPreviousState,
  interrupt,
  MemorySaver,
  MessagesDeltaValue,
  START,
  StateGraph,
  StateSchema,
  task,
} from "@langchain/langgraph";
import { v6 as uuidv6 } from "uuid";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Saver } from "../../src/checkpoint/saver.js";
import type { Db } from "../../src/core/deps.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { echoAgent, scriptedAgent } from "../helpers/agents.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { createTestSavers, type TestSavers } from "../helpers/savers.js";
import { rowsOf } from "../helpers/moved.js";

let database: TestDatabase;
let db: Db;
let savers: TestSavers;
beforeAll(async () => {
  database = await createTestDatabase();
  db = database.db;
  savers = createTestSavers(db);
});
afterAll(() => database.close());

type Graph = ReturnType<typeof echoAgent>;
type State = Awaited<ReturnType<Graph["getState"]>>;
/** Savers that hold nothing in memory, as a process that was started just now. */
const cold = (): Saver => savers.forAny({ bodies: savers.newReader() });
const durable = (threadId: string, more: Record<string, unknown> = {}) => ({
  configurable: { thread_id: threadId, ...more },
  durability: "sync" as const,
  recursionLimit: 200,
});

async function history(graph: Pick<Graph, "getStateHistory">, threadId: string): Promise<State[]> {
  const states: State[] = [];
  for await (const state of graph.getStateHistory({ configurable: { thread_id: threadId } })) states.push(state);
  return states;
}

/** Moves the thread: all of it, or while its run goes on all but the newest checkpoint of each namespace. */
async function move(threadId: string, { running = false } = {}) {
  if (!running) {
    await db.query(
      `update runs
      set status = 'success', head = false, lease_owner = null, lease_expires_at = null, finished_at = now()
      where thread_id = $1`,
      [threadId],
    );
  }
  return moveThread(savers.deps, { tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId });
}

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });

function steps(saver: unknown) {
  return new StateGraph(Log)
    .addNode("a", () => ({ log: ["a"] }))
    .addNode("b", () => ({ log: ["b"] }))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("b", END)
    .compile({ checkpointer: saver as MemorySaver });
}

describe("a fork", () => {
  it("reads what it wrote, and the main line what it wrote", async () => {
    const threadId = randomUUID();
    const graph = steps(savers.forAny());
    await graph.invoke({ log: ["in"] }, durable(threadId));
    const main = await history(graph as never, threadId);
    const afterA = main.find(({ next }) => next[0] === "b")!;
    const fork = await graph.updateState(afterA.config, { log: ["FORK"] }, "a");
    const read = steps(cold());
    expect((await read.getState(fork)).values.log).toEqual(["in", "a", "FORK"]);
    expect((await read.getState(main[0]!.config)).values.log).toEqual(["in", "a", "b"]);
    expect((await graph.invoke(null, { ...fork, durability: "sync" })).log).toEqual(["in", "a", "FORK", "b"]);
    expect((await steps(cold()).getState(durable(threadId))).values.log).toEqual(["in", "a", "FORK", "b"]);
    expect((await read.getState(main[0]!.config)).values.log).toEqual(["in", "a", "b"]);
  });

  it("of an edited message is stored as it was answered, also on a base that was moved", async () => {
    for (const moved of [false, true]) {
      const threadId = randomUUID();
      const say = async (saver: Saver, content: string, more: object = {}) => {
        const config = durable(threadId, more as Record<string, unknown>);
        const { messages } = await echoAgent(saver).invoke({ messages: [new HumanMessage(content)] }, config);
        return messages.map((message) => message.content);
      };
      await say(savers.forAny(), "q1");
      const { config } = await echoAgent(cold()).getState(durable(threadId));
      await say(savers.forAny(), "q2");
      if (moved) await move(threadId);
      const live = await say(cold(), "EDITED", config.configurable);
      expect(live).toEqual(["q1", "re:q1", "EDITED", "re:EDITED"]);
      const { values } = await echoAgent(cold()).getState(durable(threadId));
      expect((values.messages as HumanMessage[]).map(({ content }) => content)).toEqual(live);
    }
  });
});

describe("parallel results", () => {
  it("of a delta channel are read in the order in which the run had them, before and after a move", async () => {
    const stateSchema = new StateSchema({ messages: MessagesDeltaValue });
    const agent = (saver: unknown) =>
      scriptedAgent({ rounds: 3, parallel: 4, answerChars: 40, resultChars: 40, stateSchema }, saver);
    const read = async (saver: Saver, threadId: string) =>
      shapes((await agent(saver).getState(durable(threadId))).values.messages as HumanMessage[]);
    for (let i = 0; i < 5; i++) {
      const threadId = randomUUID();
      const { messages } = await agent(savers.forAny()).invoke(
        { messages: [new HumanMessage("hi")] },
        durable(threadId),
      );
      const live = shapes(messages as HumanMessage[]);
      expect(await read(cold(), threadId)).toEqual(live);
      await move(threadId, { running: true });
      expect(await read(cold(), threadId)).toEqual(live);
      await move(threadId);
      expect(await read(cold(), threadId)).toEqual(live);
      const more = await agent(cold()).invoke({ messages: [new HumanMessage("more")] }, durable(threadId));
      expect(await read(cold(), threadId)).toEqual(shapes(more.messages as HumanMessage[]));
    }
  });
});

function shapes(messages: readonly HumanMessage[]) {
  return messages.map((message) => [
    message.getType(),
    message.id,
    (message as { tool_call_id?: string }).tool_call_id,
  ]);
}

describe("an approval", () => {
  const ask = (saver: unknown, ran: string[] = []) =>
    new StateGraph(Log)
      .addNode("ask1", () => ({ log: [`delete:${String(interrupt("delete file?"))}`] }))
      .addNode("ask2", () => ({ log: [`wire:${String(interrupt("wire 1M?"))}`] }))
      .addNode("pay", () => (ran.push("pay"), { log: ["paid"] }))
      .addEdge(START, "ask1")
      .addEdge("ask1", "ask2")
      .addEdge("ask2", "pay")
      .compile({ checkpointer: saver as MemorySaver });
  const strict = (threadId: string) => durable(threadId, { __pregel_strict_resume: true });
  const question = async (threadId: string) =>
    (await ask(cold()).getState(durable(threadId))).tasks.flatMap(({ interrupts }) => interrupts)[0];

  it("delivered twice answers one question: the second delivery is refused", async () => {
    const threadId = randomUUID();
    await ask(savers.forAny()).invoke({ log: [] }, durable(threadId));
    const resume = { [(await question(threadId))!.id!]: "yes" };
    const first = await ask(cold()).invoke(new Command({ resume }), strict(threadId));
    expect(first.log).toEqual(["delete:yes"]);
    const second = ask(cold()).invoke(new Command({ resume }), strict(threadId));
    await expect(second).rejects.toMatchObject({ name: "UnknownInterruptError", reason: "not_pending" });
    expect((await question(threadId))?.value).toBe("wire 1M?");
  });

  it("is answered on a checkpoint that was moved while it waited; the next move takes the answer too", async () => {
    const threadId = randomUUID();
    const ran: string[] = [];
    await ask(savers.forAny()).invoke({ log: [] }, durable(threadId));
    for (const [answer, waits] of [
      ["yes", true],
      ["no", false],
    ] as const) {
      await move(threadId);
      expect(await rowsOf(savers.deps, { tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId })).toMatchObject({
        writes: 0,
        staged: 0,
      });
      const resume = { [(await question(threadId))!.id!]: answer };
      await ask(cold(), ran).invoke(new Command({ resume }), strict(threadId));
      expect((await question(threadId)) !== undefined).toBe(waits);
    }
    await move(threadId);
    const { values, next } = await ask(cold()).getState(durable(threadId));
    expect([values.log, next, ran]).toEqual([["delete:yes", "wire:no", "paid"], [], ["pay"]]);
  });

  it("finished by a machine whose clock is behind is finished for everyone", async () => {
    const threadId = randomUUID();
    await ask(savers.forAny()).invoke({ log: [] }, durable(threadId));
    const { config, values } = await ask(cold()).getState(durable(threadId));
    const saver = cold();
    const waiting = (await saver.getTuple(config))!;
    // What that machine puts: a child with an id of ten seconds ago.
    const checkpoint = { ...waiting.checkpoint, id: uuidv6({ msecs: Date.now() - 10_000 }) };
    await saver.put(config, checkpoint, { source: "loop", step: 9, parents: {} }, {});
    const seen = await ask(cold()).getState(durable(threadId));
    expect(seen.metadata?.step).toBe(9);
    expect(seen.values).toEqual(values);
    expect((await history(ask(cold()) as never, threadId)).map(({ metadata }) => metadata?.step)).toEqual([9, 0, -1]);
  });
});

describe("the history of an agent (12 rounds, 3 parallel tools)", () => {
  const memory = new MemorySaver();
  const threadId = randomUUID();
  const script = { rounds: 12, parallel: 3 };
  const run = async (saver: unknown, input: unknown, rounds = script.rounds) => {
    const agent = scriptedAgent({ ...script, rounds }, saver);
    await agent.invoke(input as null, durable(threadId));
  };
  const both = async (work: (saver: unknown) => Promise<void>) => {
    await work(memory);
    await work(savers.forAny({ bodies: savers.newReader() }));
  };
  const expectEqual = async () => {
    const expected = (await history(scriptedAgent(script, memory), threadId)).map(comparable);
    const found = (await history(scriptedAgent(script, cold()), threadId)).map(comparable);
    expect(found.length).toBe(expected.length);
    for (const [i, state] of expected.entries()) assert.deepStrictEqual(found[i], state, `state ${i}`);
  };

  it("equals MemorySaver's, message by message", async () => {
    await both((saver) => run(saver, { messages: [new HumanMessage({ content: "hi", id: "h" })] }));
    await expectEqual();
  });

  it("still does when all but the newest checkpoint was moved, and when all was", async () => {
    expect((await move(threadId, { running: true })).checkpoints).toBeGreaterThan(20);
    await expectEqual();
    expect((await move(threadId)).checkpoints).toBe(1);
    await expectEqual();
    const counts = await rowsOf(savers.deps, { tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId });
    expect(counts).toMatchObject({ versions: 0, writes: 0, staged: 0, heads: 0 });
  });

  it("still does when a cold process goes on after the move, forks an old step, and it is moved again", async () => {
    await both((saver) => run(saver, { messages: [new HumanMessage({ content: "more", id: "h2" })] }, 14));
    await expectEqual();
    await both(async (saver) => {
      const agent = scriptedAgent({ ...script, rounds: 3 }, saver);
      const old = (await history(agent, threadId)).find(
        ({ next, metadata }) => next[0] === "tools" && metadata?.step! < 6,
      )!;
      const fork = await agent.updateState(
        old.config,
        { messages: [new HumanMessage({ content: "fork", id: "f" })] },
        "tools",
      );
      await agent.invoke(null, { ...fork, durability: "sync" });
    });
    await expectEqual();
    await move(threadId);
    await expectEqual();
  });
});

/** Without what differs from run to run: ids of checkpoints and tasks, and times. */
function comparable({ values, next, metadata, tasks, parentConfig }: State): unknown {
  const seen = {
    values,
    next,
    tasks,
    step: metadata?.step,
    source: metadata?.source,
    hasParent: parentConfig !== undefined,
  };
  return JSON.parse(
    JSON.stringify(seen, (key, value: unknown) => {
      const isOwnId = key === "id" && typeof value === "string" && value.length > 30;
      return isOwnId || key === "checkpoint_id" ? "*" : value;
    }),
  );
}

describe("other kinds of graphs", () => {
  it("a subgraph in a namespace of its own is read and resumed there, moved or not", async () => {
    const inner = new StateGraph(Log)
      .addNode("s1", () => ({ log: ["s1"] }))
      .addNode("s2", () => ({ log: [`s2:${String(interrupt("inner?"))}`] }))
      .addEdge(START, "s1")
      .addEdge("s1", "s2")
      .compile();
    const outer = (saver: unknown) =>
      new StateGraph(Log)
        .addNode("sub", inner)
        .addEdge(START, "sub")
        .compile({ checkpointer: saver as MemorySaver });
    for (const moved of [false, true]) {
      const threadId = randomUUID();
      await outer(savers.forAny()).invoke({ log: ["in"] }, durable(threadId));
      if (moved) await move(threadId);
      const state = await outer(cold()).getState(durable(threadId), { subgraphs: true });
      expect((state.tasks[0]?.state as State).values).toEqual({ log: ["in", "s1"] });
      const done = await outer(cold()).invoke(new Command({ resume: "yes" }), durable(threadId));
      expect(done.log).toEqual(["in", "in", "s1", "s2:yes"]);
    }
  });

  it("tasks of the functional API are kept one by one, and the previous state", async () => {
    const ran: string[] = [];
    const work = task("work", (name: string) => {
      ran.push(name);
      return Promise.resolve({ name, when: new Date(1), big: 10n });
    });
    const flow = (saver: unknown) =>
      entrypoint({ name: "flow", checkpointer: saver as MemorySaver }, async (input: string) => {
        const before = getPreviousState<string[]>() ?? [];
        const one = await work(`${input}1`);
        const ok: unknown = interrupt("go on?");
        const two = await work(`${input}2`);
        return [...before, one.name, String(ok), two.name, one.when.toISOString(), String(two.big)];
      });
    const threadId = randomUUID();
    for (const [input, before] of [
      ["a", 0],
      ["b", 5],
    ] as const) {
      await flow(savers.forAny()).invoke(input, durable(threadId));
      if (input === "a") await move(threadId);
      const result = await flow(cold()).invoke(new Command({ resume: "yes" }), durable(threadId));
      expect(result.slice(before)).toEqual([`${input}1`, "yes", `${input}2`, "1970-01-01T00:00:00.001Z", "10"]);
    }
    expect(ran).toEqual(["a1", "a2", "b1", "b2"]);
  });
});

describe("the price of a step", () => {
  it("is one statement, and bytes that don't grow with the conversation", async () => {
    const threadId = randomUUID();
    const held = await savers.lease(threadId);
    let commits = 0;
    const counted: Db = {
      ...db,
      query: (text, values) => ((commits += text.includes("new_checkpoints") ? 1 : 0), db.query(text, values)),
    };
    const saver = createTestSavers(counted).forAny();
    const agent = scriptedAgent({ rounds: 40, parallel: 2, answerChars: 1_200, resultChars: 1_200 }, saver);
    const own = randomUUID();
    await agent.invoke({ messages: [new HumanMessage("hi")] }, durable(own));
    const states = await history(agent, own);
    expect(commits).toBeLessThanOrEqual(states.length + 2);
    const { rows } = await db.query<{ step: number; bytes: number }>(
      `select c.step, sum(octet_length(v.data)) as bytes
      from checkpoints c
      cross join lateral unnest(c.channels, c.versions) u(channel, version)
      join channel_versions v on v.thread_id = c.thread_id and v.ns = c.ns and v.channel = u.channel and v.version = u.version
      where c.thread_id = $1
      group by c.step
      order by c.step`,
      [own],
    );
    expect(Math.max(...rows.slice(-20).map(({ bytes }) => bytes))).toBeLessThan(1_000);
    const staged = await db.query<{ bytes: number }>(
      "select sum(octet_length(data)) as bytes from staged_bodies where thread_id = $1",
      [own],
    );
    const conversation = JSON.stringify(states[0]?.values).length;
    expect(staged.rows[0]!.bytes).toBeLessThan(3 * conversation);
    expect(held.attempt).toBe(1);
  });
});
