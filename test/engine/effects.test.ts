// P8: a declared side effect is called at most once per intent, and what nobody knows is asked.
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { Annotation, END, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { expect, test } from "vitest";
import { z } from "zod";
import { listEvents } from "../../src/runs/events.js";
import { durableTool, NotSent, step, toolsNode } from "../../src/tools.js";
import { withEngine, type TestEngine } from "../helpers/engine.js";
import { until } from "../helpers/wait.js";

type Call = Readonly<{ key: string; amount: number }>;
type PayOptions = Partial<Parameters<typeof durableTool<{ amount: number }>>[1]>;

/** A tool that notes its calls; `act` is what the other side does. */
function payTool(calls: Call[], options: PayOptions = {}, act: (n: number) => unknown = () => "paid") {
  return durableTool<{ amount: number }>(
    async ({ amount }, { key }) => {
      calls.push({ key, amount });
      return act(calls.length);
    },
    { name: "pay", description: "pays", schema: z.object({ amount: z.number() }), effect: "remote", ...options },
  );
}

let ids = 0;

function callsOf(amounts: readonly number[]): AIMessage {
  const tool_calls = amounts.map((amount) => ({
    name: "pay",
    args: { amount },
    id: `call_${(ids += 1)}`,
    type: "tool_call" as const,
  }));
  return new AIMessage({ content: "", tool_calls });
}

/** Calls `tools` once for each message "pay", in one ToolNode. */
function agent(tools: ConstructorParameters<typeof ToolNode>[0], node: unknown = new ToolNode(tools), amounts = [5]) {
  return new StateGraph(MessagesAnnotation)
    .addNode("model", ({ messages }) => {
      const last = messages.at(-1) as BaseMessage;
      return { messages: [last.getType() === "human" ? callsOf(amounts) : new AIMessage("done")] };
    })
    .addNode("tools", node as ToolNode)
    .addEdge(START, "model")
    .addConditionalEdges("model", ({ messages }) =>
      ((messages.at(-1) as AIMessage).tool_calls ?? []).length > 0 ? "tools" : END,
    )
    .addEdge("tools", "model")
    .compile();
}

const GO = { messages: [{ type: "human", content: "go" }] };

async function run(engine: TestEngine, input: Record<string, unknown> | null = GO, config: object = {}) {
  const { thread_id } = await engine.client.threads.create();
  return finish(engine, thread_id, { input, config });
}

async function finish(engine: TestEngine, threadId: string, payload: object) {
  const { run_id: runId } = await engine.client.runs.create(threadId, "agent", payload);
  await until(
    "the run to end",
    async () => !["pending", "running"].includes((await engine.client.runs.get(threadId, runId)).status),
  );
  const { status } = await engine.client.runs.get(threadId, runId);
  return { threadId, runId, status };
}

async function effects(engine: TestEngine) {
  const { rows } = await engine.deps.db.query<Record<string, unknown>>(
    "select key, status, attempts, kind, resolution, result, error_code from effects where kind <> 'none' order by created_at",
  );
  return rows;
}

async function toolTexts(engine: TestEngine, threadId: string): Promise<string[]> {
  const { values } = await engine.client.threads.getState<{ messages: { type: string; content: string }[] }>(threadId);
  return values.messages.filter(({ type }) => type === "tool").map(({ content }) => content);
}

async function answer(engine: TestEngine, threadId: string, value: unknown) {
  const { interrupts } = await engine.client.threads.get(threadId);
  const [question] = Object.values(interrupts ?? {}).flat();
  const resume = { [question!.id as string]: value };
  const ended = await finish(engine, threadId, { command: { resume } });
  return { ...ended, question: question!.value as Record<string, unknown> };
}

test("an effect is written down before it is called and after, in the run's log too, and its result leaves Postgres", async () => {
  const calls: Call[] = [];
  await withEngine(
    { graphs: { agent: agent([payTool(calls, {}, () => ({ paid: new Date(0), receipt: "R".repeat(2_000) }))]) } },
    async (engine) => {
      const { threadId, runId, status } = await run(engine);
      expect(status).toBe("success");
      expect(calls).toEqual([{ key: expect.stringMatching(/^[0-9a-f]{64}$/), amount: 5 }]);
      expect(await effects(engine)).toMatchObject([
        { key: calls[0]!.key, status: "succeeded", attempts: 1, kind: "remote" },
      ]);
      const log = await listEvents(engine.deps.db, { tenantId: "default" as never, runId: runId as never });
      expect(log.map(({ type }) => type).filter((type) => type.startsWith("effect."))).toEqual([
        "effect.started",
        "effect.succeeded",
      ]);
      for (const query of [`thread_id=${threadId}`, `run_id=${runId}`]) {
        const listed = await engine.app.request(`/v1/effects?${query}`);
        expect(await listed.json()).toMatchObject([{ key: calls[0]!.key, tool: "pay", status: "succeeded", calls: 1 }]);
      }
      expect((await engine.app.request("/v1/effects?run_id=x")).status).toBe(422);
      while ((await engine.move()) > 0);
      expect(await effects(engine)).toMatchObject([{ status: "succeeded", result: null }]);
      // Replayed from before the call: the recorded result comes back, nothing is called.
      const before = (await engine.client.threads.getHistory(threadId)).find(({ next }) => next[0] === "tools")!;
      const texts = await toolTexts(engine, threadId);
      const again = await finish(engine, threadId, { input: null, checkpoint: before.checkpoint });
      expect(again.status).toBe("success");
      expect(calls).toHaveLength(1);
      expect(await toolTexts(engine, threadId)).toEqual(texts);
    },
  );
});

test("C2: a call that was not sent is made again, and its result is what a replay gets", async () => {
  const calls: Call[] = [];
  const act = (n: number) => {
    if (n === 1) throw new NotSent("the bank is closed");
    return "paid";
  };
  const graph = agent([payTool(calls, {}, act)], new ToolNode([payTool(calls, {}, act)], { handleToolErrors: false }));
  await withEngine({ graphs: { agent: graph } }, async (engine) => {
    const first = await run(engine);
    expect(first.status).toBe("error");
    expect(await effects(engine)).toMatchObject([{ status: "failed", error_code: "NotSent", attempts: 1 }]);
    expect((await finish(engine, first.threadId, { input: null })).status).toBe("success");
    expect(new Set(calls.map(({ key }) => key)).size).toBe(1);
    expect(calls).toHaveLength(2);
    expect(await effects(engine)).toMatchObject([{ status: "succeeded", attempts: 2 }]);
  });
});

test.each([
  ["done", 1, `"pay" was done.`],
  ["retry", 2, "paid"],
  ["abort", 1, `"pay" was stopped by a person. Whether it was done before isn't known.`],
])("a call that failed and may have been done is asked about; the answer %s", async (said, times, told) => {
  const calls: Call[] = [];
  const act = (n: number) => {
    if (n === 1) throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
    return "paid";
  };
  await withEngine({ graphs: { agent: agent([payTool(calls, {}, act)]) } }, async (engine) => {
    const { threadId, status } = await run(engine);
    expect(status).toBe("interrupted");
    expect(await effects(engine)).toMatchObject([{ status: "unknown", error_code: "ECONNRESET" }]);
    const ended = await answer(engine, threadId, said);
    expect(ended.question).toMatchObject({
      kind: "unknown_effect",
      tool: "pay",
      args: { amount: 5 },
      key: calls[0]!.key,
      options: ["retry", "done", "abort"],
    });
    expect(ended.status).toBe("success");
    expect(calls).toHaveLength(times);
    expect(await toolTexts(engine, threadId)).toEqual([told]);
    expect(await effects(engine)).toMatchObject([{ resolution: { by: "person", how: said } }]);
  });
});

test("what a lookup finds is the result, and nothing is asked", async () => {
  const calls: Call[] = [];
  const fail = () => {
    throw new Error("500");
  };
  const found = payTool(calls, { onUnknown: "lookup", lookup: async () => ({ done: true, result: "found" }) }, fail);
  await withEngine({ graphs: { agent: agent([found]) } }, async (engine) => {
    const { threadId, status } = await run(engine);
    expect(status).toBe("success");
    expect(calls).toHaveLength(1);
    expect(await toolTexts(engine, threadId)).toEqual(["found"]);
  });
});

test("with onUnknown fail the run ends with a code, and no tool node takes it for an answer", async () => {
  const calls: Call[] = [];
  const fail = () => {
    throw new Error("500");
  };
  await withEngine({ graphs: { agent: agent([payTool(calls, { onUnknown: "fail" }, fail)]) } }, async (engine) => {
    const { threadId, runId, status } = await run(engine);
    expect(status).toBe("error");
    const { rows } = await engine.deps.db.query("select error_code from runs where run_id = $1", [runId]);
    expect(rows).toEqual([{ error_code: "effect_unknown" }]);
    expect(await toolTexts(engine, threadId)).toEqual([]);
  });
});

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

test.each([
  ["the same arguments get the same result", [3, 3], "success"],
  ["other arguments get an error", [3, 4], "error"],
])("C4: two branches that ask for one effect at once make one call; %s", async (_, amounts, wanted) => {
  const calls: Call[] = [];
  const pay = payTool(
    calls,
    { key: () => "order-1" },
    () => new Promise((resolve) => setTimeout(resolve, 200, "paid")),
  );
  const graph = new StateGraph(Log)
    .addNode("branch", async ({ amount }: { amount: number }) => ({ log: [String(await pay.invoke({ amount }))] }), {
      input: Annotation.Root({ amount: Annotation<number> }),
    } as never)
    .addConditionalEdges(START, () => amounts.map((amount) => new Send("branch", { amount })))
    .compile();
  await withEngine({ graphs: { agent: graph } }, async (engine) => {
    const { threadId, runId, status } = await run(engine, {});
    expect(status).toBe(wanted);
    expect(calls).toHaveLength(1);
    const { values } = await engine.client.threads.getState<{ log?: string[] }>(threadId);
    if (wanted === "success") expect(values.log).toEqual(["paid", "paid"]);
    const { rows } = await engine.deps.db.query<{ code: string | null }>(
      "select error_code as code from runs where run_id = $1",
      [runId],
    );
    expect(rows[0]?.code).toBe(wanted === "success" ? null : "effect_conflict");
  });
});

test("C5: a fork with other arguments is refused, and done only in a new epoch that a person approves", async () => {
  const calls: Call[] = [];
  await withEngine({ graphs: { agent: agent([payTool(calls, {}, (n) => `paid ${n}`)]) } }, async (engine) => {
    const { threadId } = await run(engine);
    const history = await engine.client.threads.getHistory<{
      messages: { id: string; type: string; tool_calls: { id: string }[] }[];
    }>(threadId);
    const before = history.find(({ next }) => next[0] === "tools")!;
    const asking = before.values.messages.at(-1)!;
    const edited = {
      ...asking,
      tool_calls: [{ name: "pay", args: { amount: 500 }, id: asking.tool_calls[0]!.id, type: "tool_call" }],
    };
    const { checkpoint } = (await engine.client.threads.updateState(threadId, {
      values: { messages: [edited] },
      checkpoint: before.checkpoint,
      asNode: "model",
    })) as unknown as { checkpoint: object };
    const refused = await finish(engine, threadId, { input: null, checkpoint });
    expect(refused.status).toBe("error");
    expect(calls).toHaveLength(1);
    const asked = await finish(engine, threadId, {
      input: null,
      checkpoint,
      config: { configurable: { effect_epoch: 1 } },
    });
    expect(asked.status).toBe("interrupted");
    const { interrupts } = await engine.client.threads.get(threadId);
    const [question] = Object.values(interrupts ?? {}).flat();
    expect(question?.value).toMatchObject({ kind: "approve_effect", args: { amount: 500 } });
    const done = await finish(engine, threadId, {
      command: { resume: { [question!.id as string]: "approve" } },
      config: { configurable: { effect_epoch: 1 } },
    });
    expect(done.status).toBe("success");
    expect(calls.map(({ amount }) => amount)).toEqual([5, 500]);
    expect(await toolTexts(engine, threadId)).toEqual(["paid 2"]);
  });
});

test("the same irreversible call under a new id is asked about", async () => {
  const calls: Call[] = [];
  await withEngine(
    { graphs: { agent: agent([payTool(calls, { reversibility: 0 }, (n) => `paid ${n}`)]) } },
    async (engine) => {
      const { threadId } = await run(engine);
      expect((await finish(engine, threadId, { input: GO })).status).toBe("interrupted");
      const skipped = await answer(engine, threadId, "skip");
      expect(skipped.question).toMatchObject({ kind: "repeated_effect", earlier_key: calls[0]!.key });
      expect(calls).toHaveLength(1);
      expect(await toolTexts(engine, threadId)).toEqual(["paid 1", "paid 1"]);
      expect((await finish(engine, threadId, { input: GO })).status).toBe("interrupted");
      expect((await answer(engine, threadId, "repeat")).status).toBe("success");
      expect(calls).toHaveLength(2);
    },
  );
});

test("a local effect and its ledger row are one transaction, in which nothing else may be called", async () => {
  const other = payTool([], { key: () => "other" });
  const book = durableTool<{ amount: number }>(
    async ({ amount }, { tx, config }) => {
      await tx!.query("insert into public.bookings (amount) values ($1)", [amount]);
      if (amount === 7) throw new Error("no");
      if (amount === 8) await other.invoke({ amount }, config as never);
      return "booked";
    },
    { name: "pay", description: "books", schema: z.object({ amount: z.number() }), effect: "local" },
  );
  const graph = agent([book], new ToolNode([book], { handleToolErrors: false }));
  const bad = agent([book], new ToolNode([book], { handleToolErrors: false }), [7]);
  const nested = agent([book], new ToolNode([book], { handleToolErrors: false }), [8]);
  const graphs = { agent: graph, bad, nested };
  await withEngine({ graphs }, async (engine) => {
    await engine.deps.db.query("create table public.bookings (amount int)");
    expect((await run(engine)).status).toBe("success");
    for (const [name, code] of [
      ["bad", "graph_error"],
      ["nested", "effect_refused"],
    ] as const) {
      const { thread_id } = await engine.client.threads.create();
      const { run_id } = await engine.client.runs.create(thread_id, name, { input: GO });
      await until("the run to fail", async () => (await engine.client.runs.get(thread_id, run_id)).status === "error");
      const { rows } = await engine.deps.db.query("select error_code from runs where run_id = $1", [run_id]);
      expect(rows).toEqual([{ error_code: code }]);
    }
    const { rows } = await engine.deps.db.query("select amount from public.bookings");
    expect(rows).toEqual([{ amount: 5 }]);
    expect(await effects(engine)).toMatchObject([{ kind: "local", status: "succeeded" }]);
  });
});

test("a step is done once, though its node is entered again", async () => {
  const done: string[] = [];
  let fail = true;
  const graph = new StateGraph(Log)
    .addNode("work", async () => {
      const page = await step("fetch", () => {
        done.push("fetch");
        return { at: new Date(5) };
      });
      if (fail) throw new Error("later");
      return { log: [String(page.at.getTime())] };
    })
    .addEdge(START, "work")
    .compile();
  await withEngine({ graphs: { agent: graph } }, async (engine) => {
    const { threadId, status } = await run(engine, {});
    expect(status).toBe("error");
    fail = false;
    expect((await finish(engine, threadId, { input: null })).status).toBe("success");
    expect(done).toEqual(["fetch"]);
    const { values } = await engine.client.threads.getState<{ log: string[] }>(threadId);
    expect(values.log).toEqual(["5"]);
  });
});

test("B4: three calls in toolsNode are three tasks: each question has its own id, what is done stays done", async () => {
  const calls: Call[] = [];
  const fails = (n: number) => {
    if (n <= 3 && calls[n - 1]!.amount !== 1) throw new Error("500");
    return `paid ${calls.at(-1)!.amount}`;
  };
  const pay = payTool(calls, {}, fails);
  await withEngine({ graphs: { agent: agent([pay], toolsNode([pay]), [1, 2, 3]) } }, async (engine) => {
    const { threadId, status } = await run(engine);
    expect(status).toBe("interrupted");
    const { interrupts } = await engine.client.threads.get(threadId);
    const open = Object.values(interrupts ?? {}).flat();
    expect(open.map(({ value }) => (value as { args: { amount: number } }).args.amount).sort()).toEqual([2, 3]);
    expect(new Set(open.map(({ id }) => id)).size).toBe(2);
    const resume = Object.fromEntries(
      open.map(({ id, value }) => [id, (value as { args: { amount: number } }).args.amount === 2 ? "retry" : "done"]),
    );
    expect((await finish(engine, threadId, { command: { resume } })).status).toBe("success");
    expect(calls.map(({ amount }) => amount).sort()).toEqual([1, 2, 2, 3]);
    expect(await toolTexts(engine, threadId)).toEqual(["paid 1", "paid 2", `"pay" was done.`]);
  });
});

test("outside of perdure a durable tool is a tool", async () => {
  const calls: Call[] = [];
  expect(await payTool(calls).invoke({ amount: 1 })).toBe("paid");
  const { messages } = await agent([payTool(calls)]).invoke({ messages: [new HumanMessage("go")] });
  expect(messages.at(-2)?.content).toBe("paid");
  expect(calls).toHaveLength(2);
});
