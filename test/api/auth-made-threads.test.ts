// Threads that nobody asked for by name: made for a follow-up's work, by a cron, or brought over from elsewhere. Each is its person's, and nobody else's.
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import type { LangGraphRunnableConfig, Pregel } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { v7 as uuidv7 } from "uuid";
import type { EngineOptions, TestEngine } from "../helpers/engine.js";
import { withEngine } from "../helpers/engine.js";
import { promisingAgent } from "../helpers/promising.js";
import { gateGraph } from "../helpers/scripted-graphs.js";
import { withStockDatabase } from "../helpers/stock.js";
import { clientAs, gateOf, ownersAuth, sendAs, USER_HEADER } from "../helpers/users.js";
import { until } from "../helpers/wait.js";

/** Promises work when it is written to, and says for whom it works. */
function promising() {
  const model = ({ messages }: { messages: BaseMessage[] }, { configurable = {} }: LangGraphRunnableConfig = {}) => {
    const last = messages.at(-1);
    const who = `for ${String(configurable["langgraph_auth_user_id"])}`;
    if (last?.getType() === "tool") return { messages: [new AIMessage("promised")] };
    if (last?.additional_kwargs["followup"] === true) return { messages: [new AIMessage(`done ${who}`)] };
    const args = { about: "it", instruction: "look again", mode: "work", when: { in: "PT6S" } };
    return { messages: [new AIMessage({ content: "", tool_calls: [{ id: "c1", name: "schedule_followup", args }] })] };
  };
  return promisingAgent(model);
}

const clientsOf = ({ app }: TestEngine) => ({
  ana: clientAs(app, { [USER_HEADER]: "ana" }),
  ben: clientAs(app, { [USER_HEADER]: "ben" }),
});

async function withOwners(options: EngineOptions, work: (t: TestEngine) => Promise<void>): Promise<void> {
  await withEngine({ ...options, auth: gateOf(ownersAuth()) }, work);
}

const workThread = ({ deps, fireTimers }: TestEngine, followups = 1) =>
  until("the work is told", async () => {
    await deps.db.query("update timers set due_at = clock_timestamp() where kind like 'followup%' and status = 'due'");
    await fireTimers();
    const { rows } = await deps.db.query<{ thread_id: string; root: string }>(
      `select r.thread_id, f.thread_id as root
      from followups f
      join runs r on r.run_id = f.run_id
      where f.status = 'produced'`,
    );
    return rows.length === followups ? rows : undefined;
  });

test("the thread of a follow-up's work has the labels of the conversation, and its graph is told who asked", async () => {
  await withOwners({ graphs: { agent: promising() } }, async (t) => {
    const { ana, ben } = clientsOf(t);
    const { thread_id } = await ana.threads.create({ metadata: { topic: "rent" } });
    await ana.runs.wait(thread_id, "agent", { input: { messages: [{ role: "user", content: "look into it" }] } });
    const [work] = await workThread(t);
    const threadId = work?.thread_id ?? "";
    expect([work?.root, threadId === thread_id]).toEqual([thread_id, false]);
    const seen = await ana.threads.get(threadId);
    expect(seen.metadata).toMatchObject({ owner: "ana", topic: "rent", root_thread_id: thread_id, graph_id: "agent" });
    const said = (await ana.threads.getState<{ messages: { content: string }[] }>(threadId)).values.messages.at(-1);
    expect(said?.content).toBe("done for ana");
    expect(await ana.threads.search({ metadata: { root_thread_id: thread_id } })).toHaveLength(1);
    await expect(ben.threads.get(threadId)).rejects.toThrow("404");
    await expect(ben.threads.getState(threadId)).rejects.toThrow("404");
    expect(await ben.threads.search()).toEqual([]);
  });
});

test("work that somebody asks for over the API is done for them", async () => {
  await withOwners({ graphs: { agent: promising() } }, async (t) => {
    const { ana, ben } = clientsOf(t);
    const { thread_id } = await ana.threads.create();
    const asked = { about: "it", instruction: "look", mode: "work", when: { in: "PT6S" }, assistant_id: "agent" };
    const { status } = await sendAs(t.app, "ana")("POST", `/v1/threads/${thread_id}/followups`, asked);
    expect(status).toBe(201);
    const [work] = await workThread(t);
    const { values } = await ana.threads.getState<{ messages: { content: string }[] }>(work?.thread_id ?? "");
    expect(values.messages.at(-1)?.content).toBe("done for ana");
    await expect(ben.threads.get(work?.thread_id ?? "")).rejects.toThrow("404");
  });
});

test("the threads of a cron's runs are of who made the cron", async () => {
  await withOwners({ graphs: { graph: gateGraph([], []) }, movable: true }, async (t) => {
    const { ana, ben } = clientsOf(t);
    await ana.crons.create("graph", { schedule: "*/5 * * * *", input: { log: ["in"] }, onRunCompleted: "keep" });
    await t.advance(6 * 60_000);
    const made = await until("it has run", async () => {
      await t.fireTimers();
      const [thread] = await ana.threads.search({ status: "idle" });
      return thread;
    });
    expect(made.metadata).toMatchObject({ owner: "ana" });
    await expect(ben.threads.get(made.thread_id)).rejects.toThrow("404");
    expect(await ben.threads.search()).toEqual([]);
  });
});

test("a thread that comes over is of whom the application says, and of nobody where it doesn't", async () => {
  await withStockDatabase(async (stock) => {
    const graph = gateGraph([], ["q1"]) as unknown as Pregel<never, never>;
    const there = graph.withConfig({});
    there.checkpointer = stock.saver;
    const [anas, nobodys, unclear] = [uuidv7(), uuidv7(), uuidv7()];
    for (const thread_id of [anas, nobodys, unclear])
      await there.invoke({ log: ["in"] }, { configurable: { thread_id } });
    await stock.change("create table chats (id uuid, person text)", []);
    await stock.change("insert into chats values ($1, 'ana'), ($2, 'ana'), ($2, 'ben')", [anas, unclear]);
    await stock.change(
      `create view perdure_labels as
      select id::text as thread_id, jsonb_build_object('owner', person, 'graph_id', 'another') as metadata from chats`,
      [],
    );
    await withOwners({ graphs: { graph }, adoptFrom: stock.from }, async (t) => {
      const { ana, ben } = clientsOf(t);
      await expect(ben.threads.getState(anas)).rejects.toThrow("404");
      await expect(ben.runs.wait(anas, "graph", { command: { resume: "yes" } })).rejects.toThrow("404");
      expect((await ana.threads.get(anas)).metadata).toMatchObject({ owner: "ana", graph_id: "graph" });
      expect((await ana.threads.getState(anas)).values).toEqual({ log: ["in"] });
      await ana.runs.wait(anas, "graph", { command: { resume: "yes" } });
      for (const client of [ana, ben]) {
        await expect(client.threads.get(nobodys)).rejects.toThrow("404");
        await expect(client.threads.get(unclear)).rejects.toThrow(/422.*perdure_labels has several rows/s);
      }
    });
  });
});

test("a thread that begins with a history is of who brings it", async () => {
  await withOwners({ graphs: { graph: gateGraph([], []) } }, async (t) => {
    const { ana, ben } = clientsOf(t);
    const supersteps = [{ updates: [{ values: { log: ["before"] }, asNode: "act" }] }];
    const { thread_id } = await ana.threads.create({ graphId: "graph", supersteps });
    expect((await ana.threads.getState(thread_id)).values).toEqual({ log: ["before"] });
    await expect(ben.threads.getState(thread_id)).rejects.toThrow("404");
  });
});
