// Threads that an application has in the tables of LangGraph's PostgresSaver, written there by real graphs, and what becomes of
// them here: nothing is changed there, everything comes over, and they go on.
import { HumanMessage } from "@langchain/core/messages";
import {
  Annotation,
  interrupt,
  MessagesDeltaValue,
  type Pregel,
  Send,
  START,
  StateGraph,
  StateSchema,
} from "@langchain/langgraph";
import { v5 as uuidv5, v7 as uuidv7 } from "uuid";
import { describe, expect, it } from "vitest";
import { systemAssistantId } from "../../src/assistants/queries.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { adoptThread, tryAdoption } from "../../src/engine/adopt/adopt.js";
import { beginAdoption } from "../../src/engine/commands/adopt-thread.js";
import { deleteOldEdits } from "../../src/runs/expire.js";
import { findThread, touchThread } from "../../src/engine/adopt/on-touch.js";
import { ADOPTED_THREADS } from "../../src/engine/adopt/thread-id.js";
import { createCombiner } from "../../src/engine/commit.js";
import { readSaver } from "../../src/engine/state.js";
import { scriptedAgent } from "../helpers/agents.js";
import { EngineError } from "../../src/core/errors.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { objectsOf } from "../helpers/moved.js";
import { type EngineOptions, type TestEngine, withEngine } from "../helpers/engine.js";
import { gateGraph } from "../helpers/scripted-graphs.js";
import { type StockDatabase, withStockDatabase } from "../helpers/stock.js";

type Graph = Pregel<never, never>;
type Site = TestEngine & Readonly<{ stock: StockDatabase; there: Graph; graph: Graph }>;

/** A graph on the stock saver, as its application has it, and an engine with the same graph. */
async function withBoth(
  made: unknown,
  work: (site: Site) => Promise<void>,
  options: Partial<EngineOptions> | ((stock: StockDatabase) => Partial<EngineOptions>) = {},
): Promise<void> {
  await withStockDatabase(async (stock) => {
    const graph = made as Graph;
    const there = onSaver(graph, stock.saver);
    const more = typeof options === "function" ? options(stock) : options;
    await withEngine({ graphs: { graph }, ...more }, (t) => work({ ...t, stock, there, graph }));
  });
}

function onSaver(graph: Graph, saver: unknown): Graph {
  const copy = graph.withConfig({});
  copy.checkpointer = saver as never;
  return copy;
}

const at = (threadId: string, more: object = {}) => ({ configurable: { thread_id: threadId, ...more } });
const options = { tenantId: DEFAULT_TENANT, graphId: "graph", verify: true, waitMs: 20_000 };
const adopt = ({ engine, stock }: Site, id: string) => adoptThread(engine, stock.source, id, options);
const run = (graph: Graph, input: unknown, id: string) => graph.invoke(input, at(id)) as Promise<unknown>;

/** What a graph's history holds, without classes and without what names the thread. */
async function historyOf(graph: Graph, threadId: string): Promise<{ id: string; values: object }[]> {
  const found: unknown[] = [];
  for await (const state of graph.getStateHistory(at(threadId))) {
    const { values, next, parentConfig, metadata, tasks, createdAt } = state;
    found.push({
      id: state.config.configurable?.["checkpoint_id"],
      parent: parentConfig?.configurable?.["checkpoint_id"],
      ...{ values, next, metadata, createdAt },
      tasks: tasks.map(({ name, id, interrupts }) => ({ name, id, interrupts })),
    });
  }
  return JSON.parse(JSON.stringify(found)) as { id: string; values: object }[];
}

/** The same through our saver, with the graph itself: what the wire shows is rendered. */
async function historyHere({ engine, graph }: Site, threadId: string) {
  return historyOf(onSaver(graph, readSaver(engine, DEFAULT_TENANT)), threadId);
}

const rowsOf = async ({ db }: Site, threadId: string) => {
  const tables = ["threads", "runs", "checkpoints", "channel_versions", "checkpoint_writes", "staged_bodies", "packs"];
  const counts = tables.map(async (table) => {
    const { rows } = await db.db.query<{ n: number }>(`select count(*) as n from ${table} where thread_id = $1`, [
      threadId,
    ]);
    return rows[0]!.n;
  });
  return (await Promise.all(counts)).reduce((sum, n) => sum + n, 0);
};

describe("an adopted thread", () => {
  it("keeps its whole history, goes on with a new run, and nothing is written where it was", async () => {
    await withBoth(scriptedAgent({ rounds: 3, parallel: 2 }, undefined), async (site) => {
      const { client, stock, there } = site;
      const threadId = uuidv7();
      await run(there, { messages: [new HumanMessage("go")] }, threadId);
      const before = await historyOf(there, threadId);
      const fingerprint = await stock.fingerprint();

      const adopted = await adopt(site, threadId);
      expect(adopted).toMatchObject({ outcome: "adopted", threadId, error: null });
      expect(adopted.copied).toMatchObject({ checkpoints: before.length, equal: before.length, differences: [] });
      expect(await stock.fingerprint()).toBe(fingerprint);
      expect(await historyHere(site, threadId)).toEqual(before);
      const [newest] = await client.threads.getHistory(threadId, { limit: 1 });
      const thread = await client.threads.get(threadId);
      expect(thread).toMatchObject({ status: "idle", metadata: { source_thread_id: threadId, graph_id: "graph" } });
      expect(new Date(thread.updated_at)).toEqual(new Date(newest!.created_at!));
      expect(new Date(thread.created_at).getTime()).toBeLessThan(new Date(thread.updated_at).getTime());

      const input = { messages: [{ role: "user", content: "more" }] };
      type Messages = { messages: { content: string }[] };
      const after = (await client.runs.wait(threadId, "graph", { input })) as Messages;
      const { messages } = newest!.values as Messages;
      expect(after.messages.slice(0, messages.length)).toEqual(messages);
      expect(after.messages.length).toBe(messages.length + 2);
      expect(await site.move()).toBeGreaterThan(0);
      expect((await historyHere(site, threadId)).slice(-before.length)).toEqual(before);
      expect(await adopt(site, threadId)).toMatchObject({ outcome: "already", copied: null });
    });
  });

  it("asks what it asked, and goes on with the answer", async () => {
    const acted: string[] = [];
    await withBoth(gateGraph(acted, ["q1", "q2"]), async (site) => {
      const { client, db } = site;
      const threadId = uuidv7();
      await run(site.there, { log: ["in"] }, threadId);
      expect((await adopt(site, threadId)).copied).toMatchObject({ differences: [] });
      const thread = await client.threads.get(threadId);
      expect(thread.status).toBe("interrupted");
      expect(Object.values(thread.interrupts)).toEqual([[expect.objectContaining({ value: { question: "q1" } })]]);
      const { rows } = await db.db.query("select node, status, checkpoint_id from approvals");
      const [head] = await historyOf(site.there, threadId);
      expect(rows).toEqual([{ node: "q1", status: "pending", checkpoint_id: head!.id }]);
      await client.runs.wait(threadId, "graph", { command: { resume: "yes" } });
      await expect(client.runs.wait(threadId, "graph", { command: { resume: { unknown: "yes" } } })).rejects.toThrow();
      const [id] = Object.values((await client.threads.get(threadId)).interrupts).flatMap((asked) =>
        asked.map((i) => i.id!),
      );
      await client.runs.wait(threadId, "graph", { command: { resume: { [id!]: "yes" } } });
      expect(acted).toEqual(["q1:yes", "q2:yes"]);
    });
  });

  it("keeps its branches, as the stock saver had left them, and keeps new ones apart", async () => {
    await withBoth(gateGraph([], ["q1"]), async (site) => {
      const { client, there } = site;
      const threadId = uuidv7();
      await run(there, { log: ["in"] }, threadId);
      const [asked] = await historyOf(there, threadId);
      await there.updateState(at(threadId, { checkpoint_id: asked!.id }), { log: ["a"] }, "act");
      await there.updateState(at(threadId, { checkpoint_id: asked!.id }), { log: ["b"] }, "act");
      const before = await historyOf(there, threadId);
      expect((await adopt(site, threadId)).copied).toMatchObject({ differences: [], equal: before.length });
      expect(await historyHere(site, threadId)).toEqual(before);
      for (const word of ["c", "d"]) {
        await client.threads.updateState(threadId, {
          checkpointId: asked!.id,
          values: { log: [word] },
          asNode: "act",
        });
        expect((await client.threads.getState<{ log: string[] }>(threadId)).values.log).toEqual(["in", word]);
      }
      expect((await historyHere(site, threadId)).slice(-before.length)).toEqual(before);
    });
  });

  it("keeps the states of its subgraphs, and a question that was asked in one of many at once", async () => {
    await withBoth(teamGraph(), async (site) => {
      const { client, db } = site;
      const threadId = uuidv7();
      await run(site.there, { names: ["ann", "bob", "eve"] }, threadId);
      const before = await historyOf(site.there, threadId);
      const adopted = await adopt(site, threadId);
      expect(adopted.copied).toMatchObject({ differences: [] });
      const { rows } = await db.db.query<{ ns: string }>("select distinct ns from checkpoints");
      expect(rows).toHaveLength(4);
      expect(await historyHere(site, threadId)).toEqual(before);
      const state = await client.threads.getState(threadId, undefined, { subgraphs: true });
      const ids = state.tasks.flatMap((task) => task.interrupts.map(({ id }) => id!));
      expect(ids).toHaveLength(2);
      const resume = Object.fromEntries(ids.map((id) => [id, "fine"]));
      await client.runs.wait(threadId, "graph", { command: { resume } });
      const { values } = await client.threads.getState<{ said: string[] }>(threadId);
      expect(values.said).toEqual(["ann: fine", "bob: nothing asked", "eve: fine"]);
    });
  });

  it("keeps a delta channel, whose state is the writes of all steps", async () => {
    const stateSchema = new StateSchema({ messages: MessagesDeltaValue });
    await withBoth(scriptedAgent({ rounds: 3, parallel: 3, stateSchema }, undefined), async (site) => {
      const threadId = uuidv7();
      await run(site.there, { messages: [new HumanMessage("go")] }, threadId);
      const before = await historyOf(site.there, threadId);
      expect((await adopt(site, threadId)).copied).toMatchObject({ differences: [] });
      expect(await historyHere(site, threadId)).toEqual(before);
      expect((before[0]!.values as { messages: unknown[] }).messages.length).toBe(14);
      const input = { messages: [{ role: "user", content: "more" }] };
      const after = (await site.client.runs.wait(threadId, "graph", { input })) as { messages: unknown[] };
      expect(after.messages).toHaveLength(16);
    });
  });
});

describe("what can't come over as it is", () => {
  it("is named, thread by thread, and stops no other; nothing of a thread that failed is left", async () => {
    await withBoth(gateGraph([], ["q1"]), async (site) => {
      const { stock, there } = site;
      const [good, python, strange, moved] = [uuidv7(), uuidv7(), "user-42", uuidv7()] as const;
      for (const id of [good, python, strange, moved]) await run(there, { log: ["in", "x".repeat(2_000)] }, id);
      await stock.change(
        `update checkpoint_blobs set type = 'msgpack'
        where thread_id = $1 and channel = 'log' and version = (select max(version) from checkpoint_blobs where thread_id = $1)`,
        [python],
      );
      const foreign = { lc: 1, type: "constructor", id: ["langchain_core", "prompts", "PromptTemplate"], kwargs: {} };
      await stock.change(
        `update checkpoint_blobs set blob = convert_to($2, 'UTF8') where thread_id = $1 and channel = 'log' and type = 'json'`,
        [strange, JSON.stringify(["in", foreign])],
      );
      await stock.change("update checkpoints set checkpoint_id = 'c' || checkpoint_id where thread_id = $1", [moved]);
      const fingerprint = await stock.fingerprint();

      expect(await adopt(site, good)).toMatchObject({ outcome: "adopted", copied: { differences: [] } });
      for (const [id, message] of [
        [python, /Checkpoint .*: The stored value of log is of type "msgpack"/],
        [moved, /has the id "c.*no UUID/],
      ] as const) {
        const failed = await adopt(site, id);
        expect(failed).toMatchObject({ outcome: "failed", error: { code: "value_unsupported" } });
        expect(failed.error?.message).toMatch(message);
        expect(await rowsOf(site, failed.threadId)).toBe(0);
      }
      const dry = await tryAdoption(site.engine, stock.source, strange, options);
      expect(await rowsOf(site, dry.threadId)).toBe(0);
      const kept = await adopt(site, strange);
      const what = "keeps log[1], a langchain_core.prompts.PromptTemplate, as plain data";
      expect(kept.copied?.differences).toContainEqual(expect.objectContaining({ channel: "log", what }));
      expect(kept.copied).toEqual(dry.copied);
      const { differences, equal, checkpoints } = kept.copied!;
      expect(new Set(differences.map((one) => one.checkpointId)).size).toBe(checkpoints - equal);
      expect(await stock.fingerprint()).toBe(fingerprint);

      expect(kept.threadId).toBe(uuidv5(strange, ADOPTED_THREADS));
      const found = await site.client.threads.search({ metadata: { source_thread_id: strange } });
      expect(found.map((thread) => thread.thread_id)).toEqual([kept.threadId]);
      const { values } = await site.client.threads.getState<{ log: unknown[] }>(kept.threadId);
      expect(values.log[1]).toEqual(foreign);
    });
  });

  it("leaves no object either, when the store is away or the process dies as it is undone", async () => {
    await withBoth(gateGraph([], ["q1"]), async (site) => {
      const { deps, db } = site;
      const threadId = uuidv7();
      await run(site.there, { log: ["in", "x".repeat(2_000_000)] }, threadId);
      // It fails when all was stored already.
      await db.db.query("alter table threads add constraint hidden check (ephemeral)");
      const { delete: remove } = deps.bodies;
      const away = () => Promise.reject(new EngineError("unavailable", "away"));
      Object.assign(deps.bodies, { delete: away });
      expect(await adopt(site, threadId)).toMatchObject({ outcome: "failed", error: { code: "internal" } });
      Object.assign(deps.bodies, { delete: remove });
      const key = { tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId };
      expect(await objectsOf(deps, key)).toHaveLength(1);
      await sweepOrphans(deps);
      expect(await objectsOf(deps, key)).toEqual([]);
      expect(await rowsOf(site, threadId)).toBe(0);
    });
  });

  it("is a thread that is written to meanwhile, an id that is another thread's here, a deleted one, a wrong graph", async () => {
    await withBoth(gateGraph([], ["q1"]), async (site) => {
      const { stock, there, engine, client } = site;
      const threadId = uuidv7();
      await run(there, { log: ["in"] }, threadId);
      const writing = {
        ...stock.source,
        look: ((work) => stock.source.look(work).finally(writeOnce)) as typeof stock.source.look,
      };
      let wrote: Promise<unknown> | undefined;
      const writeOnce = () => (wrote ??= there.updateState(at(threadId), { log: ["late"] }, "act"));
      const failed = await adoptThread(engine, writing, threadId, options);
      expect(failed).toMatchObject({ outcome: "failed", error: { code: "conflict" } });
      expect(await rowsOf(site, threadId)).toBe(0);

      const { thread_id: taken } = await client.threads.create();
      await run(there, { log: ["in"] }, taken);
      expect(await adopt(site, taken)).toMatchObject({ outcome: "failed", error: { code: "conflict" } });
      expect(await adoptThread(engine, stock.source, threadId, { ...options, graphId: "grpah" })).toMatchObject({
        outcome: "failed",
        error: { code: "not_found", message: expect.stringContaining('did you mean "graph"') as unknown },
      });
      expect(await adopt(site, threadId)).toMatchObject({ outcome: "adopted" });
      await client.threads.delete(threadId);
      expect(await adopt(site, threadId)).toMatchObject({ outcome: "deleted" });
      expect(await adopt(site, uuidv7())).toMatchObject({ outcome: "failed", error: { code: "not_found" } });
    });
  });

  it("is a question without an id, which is said", async () => {
    await withBoth(gateGraph([], ["q1"]), async (site) => {
      const threadId = uuidv7();
      await run(site.there, { log: ["in"] }, threadId);
      const old = JSON.stringify([{ value: "q?", when: "during", resumable: true, ns: ["q1:x"] }]);
      await site.stock.change(
        "update checkpoint_writes set blob = convert_to($2, 'UTF8') where thread_id = $1 and channel = '__interrupt__'",
        [threadId, old],
      );
      const { copied } = await adopt(site, threadId);
      expect(copied?.differences).toEqual([
        expect.objectContaining({
          channel: "__interrupt__",
          what: expect.stringContaining("without an id") as unknown,
        }),
      ]);
      expect((await site.client.threads.get(threadId)).status).toBe("interrupted");
    });
  });
});

it("a thread whose adoption died before it stored anything can still be adopted, much later", async () => {
  await withBoth(gateGraph([], ["q1"]), async (site) => {
    const { deps, engine, stock, db } = site;
    const threadId = uuidv7() as ThreadId;
    await run(site.there, { log: ["in"] }, threadId);
    const from = { schema: stock.source.schema, thread_id: threadId };
    const assistantId = systemAssistantId("graph");
    const adoption = { ...engine.edits, tenantId: DEFAULT_TENANT, threadId, from, graphId: "graph", assistantId };
    expect(await beginAdoption(deps, adoption)).toMatchObject({ kind: "lease" });
    await expect(site.client.threads.get(threadId)).rejects.toThrow("404");
    await db.db.query("update runs set lease_expires_at = now() - interval '1 s' where thread_id = $1", [threadId]);
    expect(await site.sweep()).toBe(1);
    await deleteOldEdits(db.db, DEFAULT_TENANT, 0);
    expect(await adopt(site, threadId)).toMatchObject({ outcome: "adopted", copied: { differences: [] } });
  });
});

describe("checkpoints of before version 4", () => {
  it("keep the packets that were writes of their parents, and go on with them", async () => {
    await withBoth(teamGraph(["member"]), async (site) => {
      const { stock, client } = site;
      const threadId = uuidv7();
      await run(site.there, { names: ["bob", "bob"] }, threadId);
      // As LangGraph stored it then: the packets among the writes of the parent only.
      await stock.change("delete from checkpoint_blobs where thread_id = $1 and channel = '__pregel_tasks'", [
        threadId,
      ]);
      await stock.change(
        `update checkpoints
        set checkpoint = jsonb_set(checkpoint, '{v}', '3') #- '{channel_versions,__pregel_tasks}',
          metadata = metadata || '{"writes": {"start": {"secret": "content"}}}'
        where thread_id = $1`,
        [threadId],
      );
      const before = await historyOf(site.there, threadId);
      expect(before[0]).toMatchObject({ next: ["member", "member"] });
      expect((await adopt(site, threadId)).copied).toMatchObject({ differences: [] });
      expect(await historyHere(site, threadId)).toEqual(before);
      const { rows } = await site.db.db.query("select 1 from checkpoints where metadata::text like '%content%'");
      expect(rows).toEqual([]);
      await client.runs.wait(threadId, "graph", { input: null });
      const { values } = await client.threads.getState<{ said: string[] }>(threadId);
      expect(values.said).toEqual(["bob: nothing asked", "bob: nothing asked"]);
    });
  });
});

describe("a thread that is touched", () => {
  const lazily = (stock: StockDatabase) => ({ adoptFrom: stock.from });

  it("comes over before a run is made on it or its state is read, once, whoever asks", async () => {
    const acted: string[] = [];
    await withBoth(
      gateGraph(acted, ["q1"]),
      async (site) => {
        const { client, there, stock } = site;
        const ids = Array.from({ length: 4 }, () => uuidv7());
        for (const id of ids) await run(there, { log: ["in"] }, id);
        const fingerprint = await stock.fingerprint();
        const [answered, read, made, labelled] = ids as [string, string, string, string];
        await client.runs.wait(answered, "graph", { command: { resume: "yes" } });
        expect(acted).toEqual(["q1:yes"]);
        expect((await client.threads.getState(read)).values).toEqual({ log: ["in"] });
        const thread = await client.threads.create({ threadId: made, ifExists: "do_nothing" });
        expect(thread.status).toBe("interrupted");
        await expect(client.threads.create({ threadId: made })).rejects.toThrow("409");
        await client.threads.update(labelled, { metadata: { seen: true } });
        expect((await client.threads.get(labelled)).metadata).toMatchObject({ seen: true, graph_id: "graph" });
        await expect(client.threads.get(uuidv7())).rejects.toThrow("404");
        await client.threads.delete(read);
        await expect(client.threads.getState(read)).rejects.toThrow("404");
        expect(await stock.fingerprint()).toBe(fingerprint);
      },
      lazily,
    );
  });

  it("comes over once when many processes touch it at once", async () => {
    await withBoth(
      gateGraph([], ["q1"]),
      async (site) => {
        const threadId = uuidv7();
        await run(site.there, { log: ["in"] }, threadId);
        const others = Array.from({ length: 6 }, (_, n) => ({
          ...site.engine,
          edits: { ...site.engine.edits, owner: `other ${n}`, combiner: createCombiner(site.deps, `other ${n}`) },
        }));
        const one = await Promise.all([
          ...others.map((engine) => findThread(engine, { tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId })),
          site.client.threads.get(threadId),
        ]);
        expect(new Set(one.map((thread) => thread?.status))).toEqual(new Set(["interrupted"]));
        const { rows } = await site.db.db.query("select kind, status from runs where thread_id = $1", [threadId]);
        expect(rows).toEqual([{ kind: "edit", status: "success" }]);
      },
      lazily,
    );
  });

  it("that can't come over is refused with the reason, and a source without the tables too", async () => {
    await withBoth(
      gateGraph([], ["q1"]),
      async (site) => {
        const threadId = uuidv7();
        await run(site.there, { log: ["in"] }, threadId);
        await site.stock.change("update checkpoint_blobs set type = 'msgpack' where type = 'json'", []);
        await expect(site.client.threads.getState(threadId)).rejects.toThrow(/422.*can't be adopted.*msgpack/s);
        expect(await rowsOf(site, threadId)).toBe(0);
      },
      lazily,
    );
    await withBoth(
      gateGraph([], ["q1"]),
      async (site) => {
        await expect(
          touchThread(site.engine, { tenantId: DEFAULT_TENANT, threadId: uuidv7() as ThreadId }, null),
        ).rejects.toThrow(
          /Schema "public" doesn't hold the tables of LangGraph's PostgresSaver: checkpoints.thread_id is missing/,
        );
      },
      (stock) => ({ adoptFrom: stock.url }),
    );
  });
});

/** A subgraph for each name; it asks all but bob. */
function teamGraph(interruptBefore: readonly string[] = []) {
  const list = Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] });
  const member = new StateGraph(Annotation.Root({ name: Annotation<string>(), said: list }))
    .addNode("think", () => ({}))
    .addNode("say", ({ name }) => {
      const answer = name === "bob" ? "nothing asked" : String(interrupt({ to: name }));
      return { said: [`${name}: ${answer}`] };
    })
    .addEdge(START, "think")
    .addEdge("think", "say")
    .compile();
  return new StateGraph(Annotation.Root({ names: Annotation<string[]>(), said: list }))
    .addNode("member", member as never)
    .addConditionalEdges(START, ({ names }) => names.map((name) => new Send("member", { name, said: [] })))
    .compile({ interruptBefore: interruptBefore as never });
}
