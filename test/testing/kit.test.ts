// What users test their agents with: a clock that moves, crashes where they are wanted, models that say what was written down.
import { tool } from "@langchain/core/tools";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { createAgent } from "langchain";
import { expect, inject, test } from "vitest";
import { z } from "zod";
import { approve } from "../../src/engine/approve.js";
import { sleepFor, sleepUntil } from "../../src/engine/sleep.js";
import { createTestEngine, scriptedModel, type TestEngine, type TestEngineOptions } from "../../src/testing.js";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

async function withKit(
  graphs: TestEngineOptions["graphs"],
  work: (engine: TestEngine) => Promise<void>,
): Promise<void> {
  const engine = await createTestEngine({ graphs, databaseUrl: inject("databaseUrl") });
  try {
    await work(engine);
  } finally {
    await engine.close();
  }
}

function steps(...nodes: ((log: string[]) => unknown)[]) {
  const graph = new StateGraph(Log);
  let last: string = START;
  const loose = graph as unknown as {
    addNode(name: string, run: (state: { log: string[] }) => unknown): unknown;
    addEdge(from: string, to: string): unknown;
  };
  for (const [i, node] of nodes.entries()) {
    loose.addNode(`s${i}`, async ({ log }) => ({ log: [String((await node(log)) ?? `s${i}`)] }));
    loose.addEdge(last, `s${i}`);
    last = `s${i}`;
  }
  loose.addEdge(last, END);
  return graph.compile();
}

async function start({ client }: TestEngine, graph = "graph") {
  const { thread_id } = await client.threads.create();
  const { run_id } = await client.runs.create(thread_id, graph, { input: { log: [] } });
  const log = async () => ((await client.threads.getState(thread_id)).values as { log?: string[] }).log ?? [];
  return { thread_id, run_id, log };
}

test("six weeks go by in moments: what sleeps, by an instant or for a time, wakes in its order, and not before", async () => {
  const graph = steps(
    () => sleepFor(3 * 86_400_000),
    () => sleepUntil(new Date(Date.now() + 35 * 86_400_000)),
  );
  await withKit({ graph }, async (engine) => {
    const before = await engine.clock.now();
    const { log } = await start(engine);
    await engine.idle();
    expect(await log()).toEqual([]);
    await engine.clock.advance("2d");
    expect(await log()).toEqual([]);
    await engine.clock.advance("2d");
    expect(await log()).toEqual(["s0"]);
    await engine.clock.advance("38d");
    expect(await log()).toEqual(["s0", "s1"]);
    const passedMs = (await engine.clock.now()).getTime() - before.getTime();
    expect(passedMs).toBeGreaterThanOrEqual(42 * 86_400_000);
    expect(passedMs).toBeLessThan(42 * 86_400_000 + 60_000);
  });
});

test("a question that nobody answers is closed when its time is over", async () => {
  const graph = steps(() => (approve({ question: "Pay?", deadline: "6w" }).approved ? "paid" : "not paid"));
  await withKit({ graph }, async (engine) => {
    const { thread_id, log } = await start(engine);
    await engine.idle();
    await engine.clock.advance("5w");
    expect(await engine.questions(thread_id)).toMatchObject([{ value: { question: "Pay?" } }]);
    await engine.clock.advance("1w");
    expect(await engine.questions(thread_id)).toEqual([]);
    expect(await log()).toEqual(["not paid"]);
  });
});

test("questions are answered in the shape they take, by whom the test says", async () => {
  const graph = steps(
    () => approve({ question: "Pay?", deciders: { roles: ["finance"] } }).approved,
    () => interrupt("Sure?"),
  );
  await withKit({ graph }, async (engine) => {
    const { thread_id, log } = await start(engine);
    await engine.idle();
    await expect(engine.answer(thread_id, "approve", { person: "ann" })).rejects.toThrow("403");
    await engine.answer(thread_id, "approve", { person: "ann", roles: ["finance"] });
    await engine.answer(thread_id, { value: "very" });
    expect(await log()).toEqual(["true", "very"]);
    await expect(engine.answer(thread_id, "approve")).rejects.toThrow("asks nothing");
  });
});

test.for(["claimed", "committed", "settling"] as const)(
  "an attempt that dies %s goes on in another; finished nodes are not entered again",
  async (point) => {
    const entered: string[] = [];
    const graph = steps(...["a", "b", "c"].map((name) => () => (entered.push(name), name)));
    await withKit({ graph }, async (engine) => {
      const died = engine.crashAt(point, point === "committed" ? 2 : 1);
      const { run_id, log } = await start(engine);
      expect(await died).toEqual({ runId: run_id, attempt: 1 });
      await engine.idle();
      expect(await log()).toEqual(["a", "b", "c"]);
      expect(entered).toHaveLength(new Set(entered).size);
      const events = await engine.events(run_id);
      expect(events.filter(({ type }) => type === "run.claimed")).toHaveLength(2);
      // Who had stored something has made progress, and is no danger to others.
      const crashes = events.find(({ type }) => type === "run.lease_lost")?.payload.crashes;
      expect(crashes).toBe(point === "settling" ? 0 : 1);
    });
  },
);

test("a scripted model answers by its place in the conversation, counts what it was asked, and fails where it is told to", async () => {
  const looked: string[] = [];
  const lookup = tool(({ q }: { q: string }) => (looked.push(q), `found ${q}`), {
    ...{ name: "lookup", description: "looks something up", schema: z.object({ q: z.string() }) },
  });
  const model = scriptedModel([
    { toolCalls: [{ name: "lookup", args: { q: "x" } }], usage: { input: 10, output: 2 } },
    (messages, asked) => (asked === 0 ? new Error("overloaded") : { text: `so: ${messages.at(-1)?.text}` }),
  ]);
  const agent = createAgent({ model, tools: [lookup] });
  await withKit({ agent }, async (engine) => {
    const { thread_id } = await engine.client.threads.create();
    const input = { messages: [{ role: "user", content: "what is x?" }] };
    await expect(engine.client.runs.wait(thread_id, "agent", { input })).rejects.toThrow("overloaded");
    const ended = await engine.client.runs.wait(thread_id, "agent", { input: null });
    const { messages } = ended as { messages: { content: string; usage_metadata?: unknown }[] };
    expect(messages.at(-1)?.content).toBe("so: found x");
    expect(messages[1]?.usage_metadata).toMatchObject({ input_tokens: 10, output_tokens: 2, total_tokens: 12 });
    expect(looked).toEqual(["x"]);
    expect(model.calls).toBe(3);
  });
});

test("a length of time that can't be meant is refused", async () => {
  await withKit({ graph: steps(() => "a") }, async (engine) => {
    await expect(engine.clock.advance("next week")).rejects.toThrow('"6w"');
    await expect(engine.clock.advance(-1)).rejects.toThrow("no length of time");
  });
});
