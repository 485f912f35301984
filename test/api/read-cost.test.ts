// What reading a thread costs: statements and bytes that don't grow with how long it is, and no body where none is shown.
import type { Client } from "@langchain/langgraph-sdk";
import { Annotation, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { AIMessage } from "@langchain/core/messages";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import { createBodyReader } from "../../src/checkpoint/body-reader.js";
import { createPackReader } from "../../src/checkpoint/pack-reader.js";
import type { BodyStore, Db } from "../../src/core/deps.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";

const MESSAGE_CHARS = 3_000;
const State = Annotation.Root({ ...MessagesAnnotation.spec, n: Annotation<number>() });

/** Says something new `n` times, one message a step. */
const talker = new StateGraph(State)
  .addNode("say", ({ messages }) => ({ messages: [new AIMessage(`${messages.length} `.repeat(MESSAGE_CHARS / 4))] }))
  .addEdge(START, "say")
  .addConditionalEdges("say", ({ messages, n }) => (messages.length < n ? "say" : "__end__"))
  .compile();

type Cost = { statements: number; rowBytes: number; objects: number };

/** The API of another process, which has read nothing yet, and what it reads. */
function coldApi({ engine }: TestEngine): { cost: Cost; ask: (path: string, body?: object) => Promise<unknown> } {
  const cost: Cost = { statements: 0, rowBytes: 0, objects: 0 };
  const query: Db["query"] = async (text, values, options) => {
    cost.statements += 1;
    const result = await engine.deps.db.query(text, values, options);
    for (const row of result.rows as object[]) {
      for (const value of Object.values(row)) if (Buffer.isBuffer(value)) cost.rowBytes += value.length;
    }
    return result as never;
  };
  const read: BodyStore["read"] = (key, range) => {
    cost.objects += 1;
    return engine.deps.bodies.read(key, range);
  };
  const db = { ...engine.deps.db, query };
  const bodies = { ...engine.deps.bodies, read };
  const bodyReader = createBodyReader({ sql: db, bodies, packs: createPackReader(bodies), cacheBytes: 64 << 20 });
  const app = createApp({ ...engine, deps: { ...engine.deps, db, bodies }, bodyReader });
  const ask = async (path: string, body?: object) => {
    const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    const response = await app.request(path, init);
    expect(response.status).toBe(200);
    return response.json();
  };
  return { cost, ask };
}

async function talk(client: Client, n: number): Promise<string> {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "talker", { input: { n }, config: { recursion_limit: n + 10 } });
  return thread_id;
}

/** State and history are right, and cost this. */
async function costs(t: TestEngine, threadId: string, n: number): Promise<{ state: Cost; history: Cost }> {
  const one = coldApi(t);
  const state = (await one.ask(`/threads/${threadId}/state`)) as { values: { messages: unknown[] } };
  expect(state.values.messages).toHaveLength(n);
  const many = coldApi(t);
  const history = (await many.ask(`/threads/${threadId}/history`, { limit: 100 })) as (typeof state)[];
  expect(history.map(({ values }) => values.messages.length).slice(0, 3)).toEqual([n, n - 1, n - 2]);
  expect(history).toHaveLength(Math.min(n + 2, 100));
  return { state: one.cost, history: many.cost };
}

test("a long thread is read with the statements of a short one, and what its checkpoints share is read once", () =>
  withEngine({ graphs: { talker } }, async (t) => {
    const short = await talk(t.client, 12);
    const long = await talk(t.client, 110);
    const unique = 110 * MESSAGE_CHARS;

    const staged = { short: await costs(t, short, 12), long: await costs(t, long, 110) };
    expect(staged.long.state.statements).toBe(staged.short.state.statements);
    expect(staged.long.history.statements).toBe(staged.short.history.statements);
    expect(staged.long.state.statements).toBeLessThanOrEqual(3);
    expect(staged.long.history.statements).toBeLessThanOrEqual(3);
    expect(staged.long.state.rowBytes).toBeLessThan(1.3 * unique);
    expect(staged.long.history.rowBytes).toBeLessThan(1.6 * unique);

    while ((await t.move()) > 0);
    const moved = { short: await costs(t, short, 12), long: await costs(t, long, 110) };
    // A level more of its tree is a statement more.
    expect(moved.long.state.statements).toBeLessThanOrEqual(moved.short.state.statements + 2);
    expect(moved.long.history.statements).toBeLessThanOrEqual(moved.short.history.statements + 2);
    expect(moved.long.history.statements).toBeLessThanOrEqual(9);
    expect(moved.long.history.objects).toBeLessThanOrEqual(4);
    expect(moved.long.history.rowBytes).toBeLessThan(0.2 * unique);
  }));

test("a list of threads without their values reads no checkpoint and no body", () =>
  withEngine({ graphs: { talker } }, async (t) => {
    const id = await talk(t.client, 12);
    await talk(t.client, 12);
    const labels = ["thread_id", "status", "metadata", "created_at", "updated_at", "config"];
    for (const moved of [false, true]) {
      while (moved && (await t.move()) > 0);
      const { cost, ask } = coldApi(t);
      const found = (await ask("/threads/search", { select: labels })) as { thread_id: string }[];
      expect(found).toHaveLength(2);
      expect(found.map(({ thread_id }) => thread_id)).toContain(id);
      expect(cost).toEqual({ statements: 2, rowBytes: 0, objects: 0 });
    }
  }));
