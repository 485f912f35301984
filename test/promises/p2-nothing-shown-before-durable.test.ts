// P2: what a client sees of a step is durable before: with 300 ms before every write of the saver, each step, question and
// tool result that arrives is looked up in Postgres at once, on another connection. Only tokens and custom events are early.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { RunnableLambda } from "@langchain/core/runnables";
import { tool } from "@langchain/core/tools";
import {
  Annotation,
  END,
  entrypoint,
  getWriter,
  interrupt,
  MessagesAnnotation,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { createAgent } from "langchain";
import { expect, test } from "vitest";
import { z } from "zod";
import type { Sql } from "../../src/core/deps.js";
import { beforeCommits } from "../helpers/commits.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";
import { StreamingModel } from "../helpers/streaming-model.js";

const WRITE_MS = 300;
/** What a tool, a node or a word takes: what comes all at once would wait together and hide who is early. */
const WORK_MS = 20;
const MODES = [
  ...["values", "updates", "messages-tuple", "messages", "tasks"],
  ...["checkpoints", "debug", "custom", "tools", "events"],
] as const;

/** What a step made and nobody could know before: to be found in events and in rows, whatever their form. */
const mark = (what: "result" | "question") => `made:${what}:${randomUUID()}`;
const MARK = /made:(?:result|question):[0-9a-f-]{36}/g;

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });
const result = () => sleep(WORK_MS, mark("result"));
const step = async () => ({ log: [await result()] });

const lookup = tool(result, { name: "lookup", description: "", schema: z.object({ n: z.number() }) });
const roundOf = (messages: readonly BaseMessage[]) => messages.filter((message) => message.type === "ai").length;

/** Two calls at once, then an answer; all of it streamed. */
const model = new StreamingModel((messages) => {
  const round = roundOf(messages);
  const calls = [1, 2].map((n) => ({ id: `call-${round}-${n}`, name: "lookup", args: { n } }));
  return { text: `one two three ${round}`, ...(round < 1 ? { calls } : {}) };
}, WORK_MS);
const agent = createAgent({ model, tools: [lookup] });

/** The same in one node, by hand, with a chain beside; what comes next is decided by a function. */
const handmade = new StateGraph(MessagesAnnotation)
  .addNode("loop", async ({ messages }, config) => {
    const answers: BaseMessage[] = [];
    for (;;) {
      const answer = (await model.invoke([...messages, ...answers], config)) as AIMessage;
      answers.push(answer);
      if (!answer.tool_calls?.length) break;
      for (const call of answer.tool_calls) answers.push(await lookup.invoke({ ...call, type: "tool_call" }, config));
      const same = RunnableLambda.from((given: BaseMessage[]) => given);
      await same.pipe(same).invoke(answers, config);
    }
    return { messages: answers };
  })
  .addNode("last", async () => ({ messages: [new AIMessage(await result())] }))
  .addEdge(START, "loop")
  .addConditionalEdges("loop", () => "last")
  .addConditionalEdges("last", () => END);

const inner = new StateGraph(Log)
  .addNode("in1", step)
  .addNode("in2", step)
  .addEdge(START, "in1")
  .addEdge("in1", "in2")
  .addEdge("in2", END)
  .compile();
const nested = new StateGraph(Log)
  .addNode("first", () => {
    getWriter()?.("custom");
    return step();
  })
  .addNode("inner", inner)
  .addNode("beside", step)
  .addNode("last", step)
  .addEdge(START, "first")
  .addConditionalEdges("first", () => ["inner", "beside"])
  .addEdge("inner", "last")
  .addEdge("last", END);

/** Each is given what the one before made. */
const next = task("next", (_before: string) => result());
const functional = entrypoint("functional", async (n: number) => {
  const results = [""];
  for (let i = 0; i < n; i++) results.push(await next(results.at(-1) ?? ""));
  const both = await Promise.all([next(""), next("")]);
  return { results, both, sum: mark("result") };
});

const gate = new StateGraph(Log)
  .addNode("ask", () => ({ log: [String(interrupt(mark("question")))] }))
  .addNode("beside", step)
  .addEdge(START, "ask")
  .addEdge(START, "beside");
const nestedGate = new StateGraph(Log)
  .addNode("first", step)
  .addNode("inner", gate.compile())
  .addEdge(START, "first")
  .addEdge("first", "inner")
  .addEdge("inner", END);

const hello = { messages: [{ type: "human", content: "go" }] };
const graphs = { agent, handmade, nested, functional, gate, nestedGate };
type GraphId = keyof typeof graphs;
const inputs: Record<GraphId, unknown> = {
  agent: hello,
  handmade: hello,
  nested: {},
  functional: 3,
  gate: {},
  nestedGate: {},
};

type Fields = Readonly<Record<string, unknown>>;
type Part = Readonly<{ event: string; data: unknown }>;

/** What is in Postgres of a thread at one moment. */
type Stored = Readonly<{
  /** Tasks with a result. */
  tasks: ReadonlySet<string>;
  checkpoints: readonly Readonly<{ id: string; ns: string }>[];
  questions: number;
  /** Those of the marks asked for that stand in some row. */
  marks: ReadonlySet<string>;
}>;

async function storedNow(sql: Sql, threadId: string, marks: readonly string[]): Promise<Stored> {
  const { rows } = await sql.query<{ tasks: string[]; ids: string[]; spaces: string[]; n: number; marks: string[] }>(
    `select array(select distinct task_id from checkpoint_writes where thread_id = $1) as tasks,
      array(select checkpoint_id::text from checkpoints where thread_id = $1 order by seq) as ids,
      array(select ns from checkpoints where thread_id = $1 order by seq) as spaces,
      (select count(*)::int from approvals where thread_id = $1 and status = 'pending') as n,
      array(
        select m.text
        from unnest($2::text[], $3::bytea[]) m(text, bytes)
        where exists (select 1 from checkpoint_writes where thread_id = $1 and position(m.bytes in data) > 0)
          or exists (select 1 from channel_versions where thread_id = $1 and position(m.bytes in data) > 0)
          or exists (select 1 from staged_bodies where thread_id = $1 and position(m.bytes in data) > 0)
      ) as marks`,
    [threadId, marks, marks.map((mark) => Buffer.from(mark))],
  );
  const { tasks = [], ids = [], spaces = [], n = 0, marks: found = [] } = rows[0] ?? {};
  const checkpoints = ids.map((id, i) => ({ id, ns: spaces[i] ?? "" }));
  return { tasks: new Set(tasks), checkpoints, questions: n, marks: new Set(found) };
}

/** One thing that an event shows, and whether it was stored when it came. */
type Shown = readonly [what: string, there: boolean];

/** Reads the events of one run, in order: they also tell which tasks there are. */
function createReader(): (part: Part, stored: Stored) => Shown[] {
  const tasks: { id: string; place: string }[] = [];
  const counts = new Map<string, number>();
  const count = (name: string): number => {
    counts.set(name, (counts.get(name) ?? 0) + 1);
    return counts.get(name) ?? 0;
  };

  /** The innermost task in which something ran. */
  const inside = (what: string, metadata: unknown, stored: Stored): Shown[] => {
    const ns = (metadata as Fields | undefined)?.langgraph_checkpoint_ns;
    if (typeof ns !== "string" || ns === "") return [];
    return [[what, stored.tasks.has(ns.slice(ns.lastIndexOf(":") + 1))]];
  };

  return ({ event, data }, stored) => {
    const [mode = "", ...path] = event.split("|");
    const ns = path.join("|");
    const fields = data as Fields;
    switch (mode) {
      case "values":
      case "checkpoints": {
        if ("__interrupt__" in fields) return [];
        // One of each for each checkpoint, in order.
        return [[`step in ${mode}`, count(event) <= stored.checkpoints.filter((c) => c.ns === ns).length]];
      }
      case "updates":
        // Without them, what the step made is looked up all the same.
        if (tasks.length === 0) return [];
        return Object.keys(fields)
          .filter((name) => name !== "__interrupt__")
          .map((name) => {
            const ids = tasks.filter(({ place }) => place === `${ns} ${name}`).map(({ id }) => id);
            return ["step in updates", count(`${event} ${name}`) <= ids.filter((id) => stored.tasks.has(id)).length];
          });
      case "tasks":
        if ("result" in fields) return [["result in tasks", stored.tasks.has(String(fields.id))]];
        tasks.push({ id: String(fields.id), place: `${ns} ${String(fields.name)}` });
        return [];
      case "debug": {
        const payload = fields.payload as Fields;
        if (fields.type === "task_result") return [["result in debug", stored.tasks.has(String(payload.id))]];
        if (fields.type !== "checkpoint") return [];
        const { checkpoint_id: id } = payload.checkpoint as Fields;
        return [["checkpoint in debug", stored.checkpoints.some((c) => c.id === id)]];
      }
      case "messages": {
        const [message, metadata] = data as [Fields, Fields];
        const token = "tool_call_chunks" in message;
        if (!token) return inside(`whole ${String(message.type)} message`, metadata, stored);
        return inside("", metadata, stored).map(([, there]) => [there ? "late token" : "early token", true]);
      }
      case "events": {
        const kind = String(fields.event);
        return /_(end|error)$/.test(kind) ? inside(kind, fields.metadata, stored) : [];
      }
      default:
        return [];
    }
  };
}

/** Every mark of an event is stored; what carries a question can be answered besides. */
function marksOf(marks: readonly string[], stored: Stored): Shown[] {
  return marks.flatMap((mark): Shown[] =>
    mark.startsWith("made:question")
      ? [["question", stored.marks.has(mark) && stored.questions > 0]]
      : [["result", stored.marks.has(mark)]],
  );
}

/** Streams one run; returns what it showed, after nothing of it was early. */
async function watch(t: TestEngine, graphId: GraphId, modes: readonly string[], streamSubgraphs: boolean) {
  const { thread_id } = await t.client.threads.create();
  const read = createReader();
  const whats = new Set<string>();
  const early: string[] = [];
  const payload = { input: inputs[graphId] as never, streamMode: [...modes] as never, streamSubgraphs };
  for await (const part of t.client.runs.stream(thread_id, graphId, payload)) {
    const { event, data } = part as unknown as Part;
    const marks = [...new Set(JSON.stringify(data).match(MARK))];
    const stored = await storedNow(t.db.db, thread_id, marks);
    for (const [what, there] of [...read({ event, data }, stored), ...marksOf(marks, stored)]) {
      whats.add(what);
      const { event: kind = "", name = "" } = data as Record<string, string>;
      if (!there) early.push(`${what}: ${event} ${kind} ${name}`);
    }
  }
  expect(early, `${graphId} in ${modes.join()}, subgraphs ${streamSubgraphs}`).toEqual([]);
  const [run] = await t.client.runs.list(thread_id);
  expect(run?.status).toBe(/gate$/i.test(graphId) ? "interrupted" : "success");
  return [...whats];
}

/** What one mode waits for must not hide that another doesn't; with "events" everything comes by another way. */
const PLANS = [...MODES.map((mode) => [mode]), MODES, MODES.filter((mode) => mode !== "events")];
const TOOLS = ["early token", "whole tool message", "on_tool_end", "on_chat_model_end"];
const SHOWN: Readonly<Record<GraphId, readonly string[]>> = {
  agent: TOOLS,
  handmade: [...TOOLS, "whole ai message"],
  nested: [],
  functional: [],
  gate: ["question"],
  nestedGate: ["question"],
};

test.each(Object.keys(graphs) as GraphId[])(
  "graph %s, in each mode: a step, question or tool result is in Postgres when a client sees it",
  async (graphId) => {
    await withEngine({ graphs, concurrency: 30 }, async (t) => {
      beforeCommits(t.deps.db, () => sleep(WRITE_MS));
      const withSubgraphs = graphId.startsWith("nested") ? [true, false] : [true];
      const watches = PLANS.flatMap((modes) => withSubgraphs.map((subgraphs) => watch(t, graphId, modes, subgraphs)));
      const shown = new Set((await Promise.all(watches)).flat());
      shown.delete("late token");
      const steps = ["step in values", "step in updates", "step in checkpoints", "checkpoint in debug"];
      const results = ["result", "result in tasks", "result in debug", "on_chain_end"];
      expect([...shown].sort()).toEqual([...steps, ...results, ...SHOWN[graphId]].sort());
    });
  },
  120_000,
);

const names = (n: number) => Array.from({ length: n }, (_, i) => `s${i + 1}`);

test("one failing commit is tried again: the run succeeds and its history is complete", async () => {
  for (const code of ["08006", "40001", "53300", "XX000"]) {
    const entered: string[] = [];
    await withEngine({ graphs: { steps: stepsGraph(5, (node) => entered.push(node)) } }, async ({ client, deps }) => {
      let commits = 0;
      beforeCommits(deps.db, () => {
        if (++commits === 4) throw Object.assign(new Error("no"), { code });
      });
      const { thread_id } = await client.threads.create();
      await client.runs.wait(thread_id, "steps", { input: {} });
      expect(entered).toEqual(names(5));
      const history = await client.threads.getHistory<{ log: string[] }>(thread_id, { limit: 100 });
      expect(history.map(({ values }) => values.log?.length ?? 0)).toEqual([5, 4, 3, 2, 1, 0, 0]);
    });
  }
});

test("commits that fail always end the run at that step: one more node at most, and nobody saw what isn't stored", async () => {
  const entered: string[] = [];
  await withEngine({ graphs: { steps: stepsGraph(5, (node) => entered.push(node)) } }, async ({ client, deps }) => {
    let commits = 0;
    beforeCommits(deps.db, () => {
      if (++commits > 3) throw Object.assign(new Error("no"), { code: "XX000" });
    });
    const { thread_id } = await client.threads.create();
    const parts: Part[] = [];
    const streamMode = ["values", "updates", "tasks", "debug", "checkpoints"] as const;
    const stream = client.runs.stream(thread_id, "steps", { input: {}, streamMode: [...streamMode] });
    for await (const part of stream) parts.push(part);
    const [run] = await client.runs.list(thread_id);
    expect(run?.status).toBe("error");
    expect(parts.at(-1)?.event).toBe("error");
    const state = await client.threads.getState<{ log: string[] }>(thread_id);
    const stored = state.values.log;
    expect(entered.length).toBeLessThanOrEqual(stored.length + 1);
    // It doesn't look finished.
    expect(state.next).toEqual([`s${stored.length + 1}`]);
    expect((await client.threads.get(thread_id)).status).toBe("error");
    const seen = JSON.stringify(parts.filter(({ event }) => event === "updates" || event === "values"));
    for (const node of names(5).filter((name) => !stored.includes(name))) expect(seen).not.toContain(`"${node}"`);
    // It goes on where it stopped once commits work again.
    commits = Number.NEGATIVE_INFINITY;
    const { log } = (await client.runs.wait(thread_id, "steps", { input: null })) as { log: string[] };
    expect(log).toEqual(names(5));
  });
});
