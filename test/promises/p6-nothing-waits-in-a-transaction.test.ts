// P6, P15: while a model, a tool or the object store is waited for, no transaction is open: nothing is locked, no vacuum is
// held up, and no connection is kept from others.
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { ChatAnthropic } from "@langchain/anthropic";
import { tool } from "@langchain/core/tools";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { afterEach, expect, test, vi } from "vitest";
import { z } from "zod";
import { step } from "../../src/tools.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { type Provider, startProvider } from "../helpers/provider.js";
import { size, SOAK_MS } from "../helpers/soak.js";
import { startStubS3 } from "../helpers/stub-s3.js";
import { until } from "../helpers/wait.js";

/** How long the model, the tool, the step and each request to the store take. */
const SLOW_MS = size(1_500, 60_000);
const MOST_MS = 1_000;

afterEach(() => vi.unstubAllEnvs());

const slowly = () => new Promise((resolve) => setTimeout(resolve, SLOW_MS));

/** A model that is asked, a stock tool that it "wants", a step of our own, and an answer that is too large for Postgres. */
function slowGraph({ url }: Provider) {
  const model = new ChatAnthropic({
    ...{ model: "claude-haiku-4-5", apiKey: "none", anthropicApiUrl: url, maxRetries: 0 },
    maxTokens: 200,
  });
  const look = tool(async () => (await slowly(), "found"), {
    name: "look",
    description: "looks",
    schema: z.object({}),
  });
  return new StateGraph(MessagesAnnotation)
    .addNode("ask", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
    .addNode("want", () => ({
      messages: [new AIMessage({ content: "", tool_calls: [{ id: "call_1", name: "look", args: {} }] })],
    }))
    .addNode("tools", new ToolNode([look]))
    .addNode("file", async () => ({
      messages: [new HumanMessage(await step("file", async () => (await slowly(), "x".repeat(1_500_000))))],
    }))
    .addEdge(START, "ask")
    .addEdge("ask", "want")
    .addEdge("want", "tools")
    .addEdge("tools", "file")
    .addEdge("file", END)
    .compile();
}

/** Samples the oldest open transaction of this database until it is stopped; answers how old the oldest ever was, in ms. */
function watchTransactions({ db }: TestEngine) {
  let oldestMs = 0;
  let samples = 0;
  const sample = async () => {
    const { rows } = await db.db.query<{ ms: number | null }>(
      `select max(extract(epoch from clock_timestamp() - xact_start))::float8 * 1000 as ms from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
    );
    oldestMs = Math.max(oldestMs, rows[0]?.ms ?? 0);
    samples += 1;
  };
  const timer = setInterval(() => void sample().catch(() => {}), 100);
  return {
    stop() {
      clearInterval(timer);
      expect(samples).toBeGreaterThan(SLOW_MS / 1_000);
      return oldestMs;
    },
  };
}

test(
  `a model, a tool, a step and a store that take ${SLOW_MS / 1_000} s each: no transaction is open for a second`,
  async () => {
    const [s3, provider] = [await startStubS3(), await startProvider()];
    vi.stubEnv("AWS_ENDPOINT_URL_S3", s3.endpoint);
    vi.stubEnv("AWS_REGION", "us-east-1");
    vi.stubEnv("AWS_ACCESS_KEY_ID", "key");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret");
    try {
      await withEngine({ graphs: { slow: slowGraph(provider) }, bodies: "s3://bucket" }, async (t) => {
        [provider, s3].forEach((each) => each.slow(SLOW_MS));
        const watch = watchTransactions(t);
        const { thread_id } = await t.client.threads.create();
        const { run_id } = await t.client.runs.create(thread_id, "slow", { input: { messages: ["hello"] } });
        await t.client.runs.join(thread_id, run_id);
        await t.deps.db.query("update timers set due_at = now() where kind = 'move' and status = 'due'");
        await until(
          "everything is moved",
          async () => {
            await t.move();
            return (await t.deps.db.query("select 1 from packs where status = 'stored'")).rows.length > 0;
          },
          { timeoutMs: SOAK_MS },
        );
        // Read by who hasn't seen it: the large body from the store too.
        const state = await t.client.threads.getState<{ messages: { content: string }[] }>(thread_id);
        expect(state.values.messages.map(({ content }) => content.length)).toEqual([5, 8, 0, 5, 1_500_000]);
        expect(watch.stop()).toBeLessThan(MOST_MS);
        expect((await t.client.runs.get(thread_id, run_id)).status).toBe("success");
      });
    } finally {
      await Promise.all([s3.close(), provider.close()]);
    }
  },
  SOAK_MS,
);
