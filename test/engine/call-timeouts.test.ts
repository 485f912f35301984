// Calls that take longer than their class may are cut off, and tried again; those that end in time are left alone.
import { tool } from "@langchain/core/tools";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { z } from "zod";
import { DEFAULT_POLICY } from "../../src/core/policy.js";
import { askingGraph, HELLO } from "../helpers/asking-graph.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { startProvider } from "../helpers/provider.js";
import { StreamingModel } from "../helpers/streaming-model.js";
import { until } from "../helpers/wait.js";

const NONE = DEFAULT_POLICY.timeouts;
type Row = { status: string; waits_for: string | null; failures: number; error_code: string | null };

async function last({ db }: TestEngine): Promise<Row | undefined> {
  return (await db.db.query<Row>("select status, waits_for, failures, error_code from runs order by seq desc limit 1"))
    .rows[0];
}

/** Once the run has failed for the first time it goes on at once. */
async function goOn(t: TestEngine): Promise<void> {
  await until("a failure", async () => (await last(t))?.waits_for === "timer");
  await t.db.db.query("update timers set due_at = now() where status = 'due' and kind = 'run.release'");
  await t.fireTimers();
}

test("a model that answers too late is asked again; its late answer changes nothing", async () => {
  const provider = await startProvider();
  const entered: string[] = [];
  const graph = askingGraph(provider.url, (node) => entered.push(node));
  const policies = { graph: { timeouts: { ...NONE, modelMs: 300 } } };
  await withEngine({ graphs: { graph }, policies }, async (t) => {
    provider.slow(3_000);
    const { thread_id } = await t.client.threads.create();
    const { run_id } = await t.client.runs.create(thread_id, "graph", { input: HELLO });
    await until("a failure", async () => (await last(t))?.failures === 1);
    provider.slow(0);
    await goOn(t);
    const { messages } = (await t.client.runs.join(thread_id, run_id)) as { messages: unknown[] };
    expect(messages).toHaveLength(2);
    expect(entered).toEqual(["before", "ask", "ask", "after"]);
    expect(await last(t)).toMatchObject({ status: "success", failures: 1 });
  });
  await provider.close();
});

test("a tool that never ends and hears no signal is cut off, and the run says so at its cap", async () => {
  const hang = tool(() => new Promise<string>(() => {}), { name: "hang", description: "hangs", schema: z.object({}) });
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("act", async () => {
      await hang.invoke({});
      return {};
    })
    .addEdge(START, "act")
    .addEdge("act", END)
    .compile();
  const policies = { graph: { maxAttempts: 2, timeouts: { ...NONE, toolMs: 100 } } };
  await withEngine({ graphs: { graph }, policies, concurrency: 1 }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const { run_id } = await t.client.runs.create(thread_id, "graph", { input: HELLO });
    await goOn(t);
    const result = await t.client.runs.join(thread_id, run_id);
    expect(result).toEqual({ __error__: { error: "CallTimeout", message: expect.stringContaining("hang") as string } });
    expect(await last(t)).toMatchObject({ status: "error", waits_for: "person", error_code: "tool_timeout" });
  });
});

test("a model that falls silent between two tokens is cut off, one that keeps talking for longer isn't", async () => {
  let silent = true;
  const slow = new StreamingModel(() => ({ text: "one two three" }), 400);
  const steady = new StreamingModel(() => ({ text: "a b c d e f g h" }), 60);
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("talk", async ({ messages }) => ({ messages: [await (silent ? slow : steady).invoke(messages)] }))
    .addEdge(START, "talk")
    .addEdge("talk", END)
    .compile();
  const policies = { graph: { timeouts: { ...NONE, betweenTokensMs: 200 } } };
  await withEngine({ graphs: { graph }, policies }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const input = { input: HELLO, streamMode: ["messages" as const] };
    const { run_id } = await t.client.runs.create(thread_id, "graph", input);
    await until("a failure", async () => (await last(t))?.failures === 1);
    silent = false;
    await goOn(t);
    const { messages } = (await t.client.runs.join(thread_id, run_id)) as { messages: { content: string }[] };
    expect(messages.map(({ content }) => content)).toEqual(["hello", "a b c d e f g h"]);
  });
});
