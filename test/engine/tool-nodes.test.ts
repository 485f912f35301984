// Stock tool nodes, unchanged: each call is written down by itself and finds its key in its config, and what a graph's author doesn't
// say of a tool langgraph.json does.
import { createRequire } from "node:module";
import { tool } from "@langchain/core/tools";
import type { RunnableConfig } from "@langchain/core/runnables";
import { RunnableLambda } from "@langchain/core/runnables";
import { interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type * as prebuilt from "@langchain/langgraph/prebuilt";
import { createReactAgent, ToolNode } from "@langchain/langgraph/prebuilt";
import { createAgent, createMiddleware } from "langchain";
import { expect, test } from "vitest";
import { z } from "zod";
import { listEvents } from "../../src/runs/events.js";
import { DEFAULT_TENANT, type RunId } from "../../src/core/ids.js";
import { wholeLog } from "../../src/engine/run-log.js";
import { tellStory } from "../../src/engine/run-story.js";
import { getRun } from "../../src/runs/runs.js";
import { unwrittenTools } from "../../src/engine/check-parked.js";
import { scriptedModel } from "../../src/testing/scripted-model.js";
import { durableMiddleware, durableTool, toolsNode } from "../../src/tools.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { until } from "../helpers/wait.js";
import {
  door,
  GO,
  ledger,
  openQuestions,
  type PlannedCall,
  runToEnd,
  statusAtEnd,
  takeOver,
  toolAgent,
  toolTexts,
} from "../helpers/tool-agent.js";

type Entered = { n: number; key: unknown };

/** An undeclared tool that notes who entered it. */
function numberTool(entered: Entered[], act: (n: number) => unknown = (n) => `did ${n}`, name = "act") {
  return tool(
    async ({ n }: { n: number }, config: RunnableConfig) => {
      entered.push({ n, key: config.configurable?.["idempotency_key"] });
      return act(n);
    },
    { name, description: "acts", schema: z.object({ n: z.number() }) },
  );
}

const acts = (...numbers: readonly number[]): PlannedCall[] => numbers.map((n) => ({ name: "act", args: { n } }));
const numbersOf = (entered: readonly Entered[]) => entered.map(({ n }) => n).sort();

/** What a run's story says of its tools. */
async function storyOf({ deps }: TestEngine, id: string): Promise<string[]> {
  const run = (await getRun(deps.db, { tenantId: DEFAULT_TENANT, runId: id as RunId }))!;
  const { lines } = tellStory(run, await wholeLog(deps.db, run), { now: new Date(), open: [] });
  return lines.map((line) => line.slice(31)).filter((line) => /\bact\b/.test(line));
}

/** What a CommonJS project loads: classes of its own. */
const copy = createRequire(import.meta.url)("@langchain/langgraph/prebuilt") as typeof prebuilt;

const nodes: readonly (readonly [string, (act: ReturnType<typeof numberTool>) => unknown])[] = [
  ["LangGraph's ToolNode", (act) => toolAgent(new ToolNode([act]), acts(1, 2))],
  ["one with a config of its own", (act) => toolAgent(new ToolNode([act]).withConfig({ tags: ["x"] }), acts(1, 2))],
  [
    "one in a sequence",
    (act) => toolAgent(RunnableLambda.from((state: object) => state).pipe(new ToolNode([act]) as never), acts(1, 2)),
  ],
  ["perdure's toolsNode", (act) => toolAgent(toolsNode([act]), acts(1, 2))],
  ["createReactAgent", (act) => createReactAgent({ llm: model(), tools: [act] })],
  ["createReactAgent, calls in one task", (act) => createReactAgent({ llm: model(), tools: [act], version: "v1" })],
  ["a ToolNode of another copy of LangGraph", (act) => toolAgent(new copy.ToolNode([act]), acts(1, 2))],
  ["another copy of LangGraph", (act) => copy.createReactAgent({ llm: model(), tools: [act], version: "v1" })],
  ["createAgent", (act) => createAgent({ model: model(), tools: [act] })],
  ["createAgent, calls in one task", (act) => createAgent({ model: model(), tools: [act], version: "v1" })],
  [
    "createAgent with durableMiddleware",
    (act) => createAgent({ model: model(), tools: [act], middleware: [durableMiddleware()] }),
  ],
  [
    "createAgent with a tool that middleware brings",
    (act) => createAgent({ model: model(), middleware: [bringing(act)] }),
  ],
  [
    "a subgraph",
    (act) =>
      new StateGraph(MessagesAnnotation)
        .addNode("inner", createAgent({ model: model(), tools: [act] }).graph)
        .addEdge(START, "inner")
        .compile(),
  ],
];
const model = () => scriptedModel([{ toolCalls: [...acts(1, 2)] }, { text: "done" }]);

/** Middleware with a tool that the agent learns of when it runs. */
const bringing = (act: ReturnType<typeof numberTool>) =>
  createMiddleware({
    name: "bringing",
    tools: [tool(() => "", { name: "other", description: "isn't called", schema: z.object({}) })],
    wrapModelCall: (request, handler) => handler({ ...request, tools: [...request.tools, act] }),
    wrapToolCall: (request, handler) => handler(request.toolCall.name === "act" ? { ...request, tool: act } : request),
  });

test("each call of a stock tool node, wherever it is in a graph, is written down under the key that its tool finds", async () => {
  const entered = new Map(nodes.map(([name]): [string, Entered[]] => [name, []]));
  const graphs = Object.fromEntries(nodes.map(([name, make]) => [name, make(numberTool(entered.get(name) ?? []))]));
  await withEngine({ graphs }, async (engine) => {
    for (const [name, calls] of entered) {
      const { threadId, runId, status } = await runToEnd(engine, { input: GO }, { graphId: name });
      expect(status, name).toBe("success");
      expect(numbersOf(calls), name).toEqual([1, 2]);
      expect(await toolTexts(engine, threadId), name).toEqual(["did 1", "did 2"]);
      const rows = await ledger(engine, runId);
      const row = { tool: "act", kind: "undeclared", policy: "retry", status: "succeeded", attempts: 1 };
      expect(rows, name).toMatchObject([row, row]);
      expect(new Set(rows.map(({ key }) => key)), name).toEqual(new Set(calls.map(({ key }) => key)));
      const log = await listEvents(engine.deps.db, { tenantId: "default" as never, runId: runId as never });
      const types = log.map(({ type }) => type).filter((type) => type.startsWith("effect."));
      const both = ["effect.started", "effect.started", "effect.succeeded", "effect.succeeded"];
      expect(types.sort(), name).toEqual(both);
    }
  });
});

test("a call that was cut off is made again, with its key; those beside it that finished are not entered again", async () => {
  const entered: Entered[] = [];
  const { opened, open } = door();
  let woke = false;
  const act = numberTool(entered, (n) => {
    if (n === 2) throw new Error("no such thing");
    return n === 3 && numbersOf(entered).filter((each) => each === 3).length === 1
      ? opened.then(() => (woke = true))
      : `did ${n}`;
  });
  const agent = toolAgent(new ToolNode([act]), acts(1, 2, 3));
  await withEngine({ graphs: { agent } }, async (engine) => {
    const { thread_id } = await engine.client.threads.create();
    const { run_id } = await engine.client.runs.create(thread_id, "agent", { input: GO });
    await until("two to be done", async () => {
      const rows = await ledger(engine);
      return rows.filter(({ status }) => status === "succeeded").length === 2 && rows.length === 3;
    });
    await takeOver(engine, run_id);
    expect(await statusAtEnd(engine, thread_id, run_id)).toBe("success");
    expect(numbersOf(entered)).toEqual([1, 2, 3, 3]);
    const cutOff = entered.filter(({ n }) => n === 3);
    expect(new Set(cutOff.map(({ key }) => key)).size).toBe(1);
    const told = ["did 1", expect.stringContaining("no such thing"), "did 3"];
    expect(await toolTexts(engine, thread_id)).toEqual(told);
    // The worker that was cut off wakes up: nothing of what it does is taken.
    open();
    await until("it to wake", () => woke);
    const rows = await ledger(engine);
    expect(rows.map(({ status }) => status)).toEqual(["succeeded", "succeeded", "succeeded"]);
    expect(rows.map(({ attempts }) => attempts).sort()).toEqual([1, 1, 2]);
    expect(await toolTexts(engine, thread_id)).toEqual(told);
  });
});

test.each([
  ["retry", 2, "did 1"],
  ["done", 1, `"act" was done.`],
  ["abort", 1, `"act" was stopped by a person. Whether it was done before isn't known.`],
])('with undeclaredTools "ask" a call that was cut off is asked about; the answer %s', async (said, times, told) => {
  const entered: Entered[] = [];
  const { opened, open } = door();
  const act = numberTool(entered, (n) => (entered.length === 1 ? opened : `did ${n}`));
  const agent = createAgent({ model: scriptedModel([{ toolCalls: [...acts(1)] }, { text: "done" }]), tools: [act] });
  const policies = { agent: { undeclaredTools: "ask" } } as const;
  await withEngine({ graphs: { agent }, policies }, async (engine) => {
    const { thread_id } = await engine.client.threads.create();
    const { run_id } = await engine.client.runs.create(thread_id, "agent", { input: GO });
    await until("the tool", () => entered.length === 1);
    await takeOver(engine, run_id);
    expect(await statusAtEnd(engine, thread_id, run_id)).toBe("interrupted");
    open();
    const [question] = await openQuestions(engine, thread_id);
    expect(question!.value).toMatchObject({
      kind: "unknown_effect",
      tool: "act",
      args: { n: 1 },
      key: entered[0]!.key,
    });
    const answered = { command: { resume: { [question!.id]: said } } };
    const { runId, status } = await runToEnd(engine, answered, { threadId: thread_id });
    expect(status).toBe("success");
    expect(await storyOf(engine, run_id)).toEqual([
      "calls act",
      "act is in doubt: nobody knows whether it was done (worker_lost)",
    ]);
    if (said === "retry") {
      expect(await storyOf(engine, runId)).toEqual([
        "the doubt about act is settled by person: retry",
        ...["calls act, time 2", "act is done"],
      ]);
    }
    expect(entered).toHaveLength(times);
    expect(await toolTexts(engine, thread_id)).toEqual([told]);
    expect(await ledger(engine)).toMatchObject([{ kind: "undeclared", resolution: { by: "person", how: said } }]);
  });
});

test("several calls of one stock ToolNode in doubt are asked about one after the other, each with its own question", async () => {
  const entered: Entered[] = [];
  const { opened, open } = door();
  const act = numberTool(entered, (n) => (numbersOf(entered).length <= 3 ? opened : `did ${n}`));
  const agent = toolAgent(new ToolNode([act]), acts(1, 2, 3));
  const policies = { agent: { undeclaredTools: "ask" } } as const;
  await withEngine({ graphs: { agent }, policies }, async (engine) => {
    const { thread_id: threadId } = await engine.client.threads.create();
    const { run_id } = await engine.client.runs.create(threadId, "agent", { input: GO });
    await until("the tools", () => entered.length === 3);
    await takeOver(engine, run_id);
    expect(await statusAtEnd(engine, threadId, run_id)).toBe("interrupted");
    open();
    const asked = new Set<string>();
    for (let left = 3; left > 0; left -= 1) {
      const [question, ...others] = await openQuestions(engine, threadId);
      expect(others).toEqual([]);
      const { n } = question!.value.args as { n: number };
      asked.add(`${question!.id} ${n}`);
      const answer = n === 2 ? { type: "done", result: "seen at the bank" } : "retry";
      const { status } = await runToEnd(engine, { command: { resume: { [question!.id]: answer } } }, { threadId });
      expect(status).toBe(left === 1 ? "success" : "interrupted");
    }
    expect(asked.size).toBe(3);
    expect(numbersOf(entered)).toEqual([1, 1, 2, 3, 3]);
    expect(await toolTexts(engine, threadId)).toEqual(["did 1", "seen at the bank", "did 3"]);
  });
});

test("B4: two tools of one ToolNode that ask get their own answers, and the one beside them is entered once", async () => {
  const entered: Entered[] = [];
  const act = numberTool(entered);
  const asks = (name: string) =>
    tool(
      ({ n }: { n: number }) => `${name} ${n}: ${String(interrupt(`first ${n}`))} ${String(interrupt(`second ${n}`))}`,
      {
        ...{ name, description: "asks", schema: z.object({ n: z.number() }) },
      },
    );
  const calls = [...acts(1), { name: "ask", args: { n: 2 } }, { name: "ask", args: { n: 3 } }];
  const agent = toolAgent(new ToolNode([act, asks("ask")]), calls);
  await withEngine({ graphs: { agent } }, async (engine) => {
    let { threadId, status } = await runToEnd(engine, { input: GO });
    const ids = new Set<string>();
    for (let questions = 0; status === "interrupted"; questions += 1) {
      expect(questions).toBeLessThan(4);
      const [question, ...others] = await openQuestions(engine, threadId);
      expect(others).toEqual([]);
      ids.add(question!.id);
      const resume = { [question!.id]: `<${String(question!.value)}>` };
      ({ status } = await runToEnd(engine, { command: { resume } }, { threadId }));
    }
    expect(status).toBe("success");
    expect(ids.size).toBe(4);
    expect(numbersOf(entered)).toEqual([1]);
    expect(await toolTexts(engine, threadId)).toEqual([
      "did 1",
      "ask 2: <first 2> <second 2>",
      "ask 3: <first 3> <second 3>",
    ]);
    expect(await ledger(engine)).toMatchObject(calls.map(() => ({ status: "succeeded" })));
  });
});

test("a graph that a tool calls keeps its own questions, beside another that does the same", async () => {
  const inner = (name: string) =>
    new StateGraph(MessagesAnnotation)
      .addNode("work", () => ({ messages: [{ role: "ai", content: `${name}:${String(interrupt(name))}` }] }))
      .addEdge(START, "work")
      .compile();
  const agents = [inner("one"), inner("two")];
  let began = 0;
  const ask = tool(
    async ({ n }: { n: number }) => {
      began += 1;
      const { messages } = await agents[n]!.invoke({ messages: [] });
      return String(messages.at(-1)?.content);
    },
    { name: "ask", description: "asks", schema: z.object({ n: z.number() }) },
  );
  const agent = toolAgent(
    new ToolNode([ask]),
    [0, 1].map((n) => ({ name: "ask", args: { n } })),
  );
  await withEngine({ graphs: { agent } }, async (engine) => {
    let { threadId, status } = await runToEnd(engine, { input: GO });
    for (let turns = 0; status === "interrupted" && turns < 3; turns += 1) {
      const open = await openQuestions(engine, threadId);
      const resume = Object.fromEntries(open.map(({ id, value }) => [id, `yes ${String(value)}`]));
      ({ status } = await runToEnd(engine, { command: { resume } }, { threadId }));
    }
    expect(status).toBe("success");
    expect(began).toBeGreaterThanOrEqual(3);
    expect(await toolTexts(engine, threadId)).toEqual(["one:yes one", "two:yes two"]);
  });
});

test("a fork makes the calls of tools that declare nothing again, as LangGraph does; with ask it gets what was recorded", async () => {
  const calls: Readonly<Record<string, Entered[]>> = { agent: [], asking: [] };
  const graphs = Object.fromEntries(
    Object.entries(calls).map(([id, entered]) => [
      id,
      toolAgent(new ToolNode([numberTool(entered, () => `time ${entered.length}`)]), acts(1)),
    ]),
  );
  await withEngine({ graphs, policies: { asking: { undeclaredTools: "ask" } } }, async (engine) => {
    for (const [graphId, { times, told }] of Object.entries({
      agent: { times: 2, told: "time 2" },
      asking: { times: 1, told: "time 1" },
    })) {
      const { threadId } = await runToEnd(engine, { input: GO }, { graphId });
      const before = (await engine.client.threads.getHistory(threadId)).find(({ next }) => next[0] === "tools")!;
      const again = await runToEnd(engine, { input: null, checkpoint: before.checkpoint }, { graphId, threadId });
      expect(again.status).toBe("success");
      expect(calls[graphId]).toHaveLength(times);
      expect(new Set(calls[graphId]!.map(({ key }) => key)).size).toBe(1);
      expect(await toolTexts(engine, threadId)).toEqual([told]);
    }
  });
});

test("calls of a message to which the model gave one id are all made, as LangGraph makes them", async () => {
  const entered: Entered[] = [];
  const toolCalls = acts(1, 2, 3).map((call) => ({ ...call, id: "call" }));
  const agent = createAgent({
    model: scriptedModel([{ toolCalls }, { text: "done" }]),
    ...{ tools: [numberTool(entered)], version: "v1" as const },
  });
  await withEngine({ graphs: { agent } }, async (engine) => {
    expect((await runToEnd(engine, { input: GO })).status).toBe("success");
    expect(numbersOf(entered)).toEqual([1, 2, 3]);
  });
});

test("an effect that an undeclared tool makes is its own, asks its own question, and is done once", async () => {
  const paid: number[] = [];
  const pay = durableTool<{ n: number }>(async ({ n }) => void paid.push(n), {
    ...{ name: "pay", description: "pays", schema: z.object({ n: z.number() }), effect: "remote", tier: "approval" },
  });
  const entered: Entered[] = [];
  const order = tool(
    async ({ n }: { n: number }, config: RunnableConfig) => {
      entered.push({ n, key: null });
      await pay.invoke({ n: 5 }, config);
      return `ordered ${n}`;
    },
    { name: "order", description: "orders", schema: z.object({ n: z.number() }) },
  );
  const agent = toolAgent(
    new ToolNode([order]),
    [1, 2].map((n) => ({ name: "order", args: { n } })),
  );
  await withEngine({ graphs: { agent } }, async (engine) => {
    let { threadId, status } = await runToEnd(engine, { input: GO });
    for (let turns = 0; turns < 2; turns += 1) {
      expect(status).toBe("interrupted");
      expect(paid).toHaveLength(turns);
      const [question] = await openQuestions(engine, threadId);
      expect(question!.value).toMatchObject({ kind: "approve_effect", tool: "pay" });
      ({ status } = await runToEnd(engine, { command: { resume: { [question!.id]: "approve" } } }, { threadId }));
    }
    expect(status).toBe("success");
    expect(paid).toEqual([5, 5]);
    expect(await toolTexts(engine, threadId)).toEqual(["ordered 1", "ordered 2"]);
  });
});

test("a tool may call a declared one of its own name: it is done once, also when the tool is called again in a fork", async () => {
  const paid: number[] = [];
  const schema = z.object({ n: z.number() });
  const pay = durableTool<{ n: number }>(async ({ n }) => `paid ${paid.push(n)}`, {
    ...{ name: "pay", description: "pays", schema, effect: "remote" },
  });
  let entered = 0;
  const around = tool(
    async (args: { n: number }, config: RunnableConfig) => {
      entered += 1;
      return pay.invoke(args, config);
    },
    { name: "pay", description: "pays, and counts", schema },
  );
  const graphs = {
    stock: toolAgent(new ToolNode([around]), [{ name: "pay", args: { n: 5 } }]),
    own: toolAgent(toolsNode([around]), [{ name: "pay", args: { n: 5 } }]),
  };
  await withEngine({ graphs }, async (engine) => {
    for (const graphId of Object.keys(graphs)) {
      [entered, paid.length] = [0, 0];
      const { threadId, status } = await runToEnd(engine, { input: GO }, { graphId });
      expect(status).toBe("success");
      const before = (await engine.client.threads.getHistory(threadId)).find(({ next }) => next[0] === "tools")!;
      await runToEnd(engine, { input: null, checkpoint: before.checkpoint }, { graphId, threadId });
      expect(entered).toBe(2);
      expect(paid).toEqual([5]);
      expect(await toolTexts(engine, threadId)).toEqual(["paid 1"]);
    }
  });
});

test("two calls of one ToolNode that are one intent ask once, are done once, and get one result", async () => {
  const paid: number[] = [];
  const pay = durableTool<{ n: number }>(async ({ n }) => `paid ${paid.push(n)}`, {
    ...{ name: "pay", description: "pays", schema: z.object({ n: z.number() }), effect: "remote", tier: "approval" },
    key: ({ n }) => `order ${n}`,
  });
  const agent = toolAgent(
    new ToolNode([pay, numberTool([])]),
    [7, 7].map((n) => ({ name: "pay", args: { n } })).concat(acts(1) as never),
  );
  await withEngine({ graphs: { agent } }, async (engine) => {
    const { threadId } = await runToEnd(engine, { input: GO });
    const [question, ...others] = await openQuestions(engine, threadId);
    expect(others).toEqual([]);
    const { status } = await runToEnd(engine, { command: { resume: { [question!.id]: "approve" } } }, { threadId });
    expect(status).toBe("success");
    expect(paid).toEqual([7]);
    expect(await toolTexts(engine, threadId)).toEqual(["paid 1", "paid 1", "did 1"]);
  });
});

test("two calls of one intent in createAgent's tasks show one question, which both tasks wait for", async () => {
  const paid: number[] = [];
  const pay = durableTool<{ n: number }>(async ({ n }) => `paid ${paid.push(n)}`, {
    ...{ name: "pay", description: "pays", schema: z.object({ n: z.number() }), effect: "remote", tier: "approval" },
    key: ({ n }) => `order ${n}`,
  });
  const calls = [7, 7].map((n) => ({ name: "pay", args: { n } }));
  const agent = createAgent({ model: scriptedModel([{ toolCalls: calls }, { text: "done" }]), tools: [pay] });
  await withEngine({ graphs: { agent } }, async ({ client }) => {
    const { thread_id } = await client.threads.create();
    const shown: unknown[] = [];
    for await (const { event, data } of client.runs.stream(thread_id, "agent", { input: GO, streamMode: "values" }))
      if (event === "values" && "__interrupt__" in data) shown.push(data.__interrupt__);
    const asked = (await client.threads.getState(thread_id)) as unknown as {
      interrupts: { id: string }[];
      tasks: { interrupts: { id: string }[] }[];
    };
    const [{ id } = { id: "" }] = asked.interrupts;
    expect(asked.interrupts).toMatchObject([{ id }]);
    expect(shown).toMatchObject([[{ id }]]);
    expect(asked.tasks.flatMap(({ interrupts }) => interrupts)).toMatchObject([{ id }, { id }]);
    await client.runs.wait(thread_id, "agent", { command: { resume: { [id]: "approve" } } });
    expect((await client.threads.get(thread_id)).status).toBe("idle");
    expect(paid).toEqual([7]);
  });
});

test("a check names the tools of nodes that can't be wrapped, and not those that are", async () => {
  const act = numberTool([]);
  const paying = durableTool(async () => "paid", {
    ...{ name: "pay", description: "pays", schema: z.object({}), effect: "remote" },
  });
  const own = Object.assign(
    RunnableLambda.from(() => ({ messages: [] })),
    { tools: [act, paying] },
  );
  const frozen = Object.freeze(new ToolNode([numberTool([], undefined, "look")]));
  const graphs = {
    own: toolAgent(own, []),
    frozen: toolAgent(frozen, []),
    stock: toolAgent(new ToolNode([act]), []),
    tasks: toolAgent(toolsNode([act]), []),
  };
  await withEngine({ graphs, workers: 0 }, async ({ engine }) => {
    expect(await unwrittenTools(engine)).toEqual([
      { graphId: "own", tool: "act" },
      { graphId: "frozen", tool: "look" },
    ]);
  });
});
