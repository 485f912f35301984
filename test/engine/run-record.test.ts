// The run record, read in the middle of a tool call: every field is there, its URIs lead somewhere, and the call is in it.
import type { RunnableConfig } from "@langchain/core/runnables";
import { tool } from "@langchain/core/tools";
import { createAgent } from "langchain";
import { expect, test } from "vitest";
import { z } from "zod";
import { NO_BUDGET, NO_LIMITS } from "../../src/core/budget.js";
import { scriptedModel } from "../../src/testing/scripted-model.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { door, GO, statusAtEnd, takeOver } from "../helpers/tool-agent.js";
import { until } from "../helpers/wait.js";
import { RECORD_FIELDS } from "../helpers/run-record.js";

type Fields = Readonly<Record<string, unknown>>;
type Listed = Readonly<{ messages: { type: string; uri: string | null }[]; tool_results: { type: string }[] }>;

const FIELDS = [...RECORD_FIELDS, "effects"];

async function recordOf(t: TestEngine, runId: string): Promise<Fields> {
  const answer = await t.app.request(`/v1/runs/${runId}`);
  expect(answer.status).toBe(200);
  return (await answer.json()) as Fields;
}

/** What lies at a URI of an object that lists messages. */
async function listedAt({ deps: { bodies } }: TestEngine, uri: unknown): Promise<Listed> {
  const key =
    String(uri)
      .slice(bodies.uri.length + 1)
      .split("#")[0] ?? "";
  return JSON.parse(Buffer.from(await bodies.read(key)).toString("utf8")) as Listed;
}

test("in the middle of a tool call and after a takeover the record has every field, and says which calls are being made", async () => {
  const { opened, open } = door();
  const seeds: unknown[] = [];
  const look = tool(
    async ({ n }: { n: number }, { configurable }: RunnableConfig) => {
      seeds.push(configurable?.["seed"]);
      if (n === 2) await opened;
      return `saw ${n}`;
    },
    { name: "look", description: "looks", schema: z.object({ n: z.number() }) },
  );
  const toolCalls = [1, 2].map((n) => ({ name: "look", args: { n } }));
  const usage = { input: 40, output: 2 };
  const agent = createAgent({
    model: scriptedModel([
      { toolCalls, usage },
      { text: "done", usage },
    ]),
    tools: [look],
  });
  const limits = { ...NO_BUDGET.limits, run: { ...NO_LIMITS, tokens: 1_000_000 } };
  await withEngine({ graphs: { agent }, policies: { agent: { budget: { ...NO_BUDGET, limits } } } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    const { run_id } = await t.client.runs.create(thread_id, "agent", { input: GO });
    await until("one call to be done", async () => {
      const effects = (await recordOf(t, run_id))["effects"] as Fields[];
      return effects.length === 2 && effects.some(({ status }) => status === "succeeded");
    });
    await until("a part to be moved", async () => {
      await t.move();
      return (await recordOf(t, run_id))["messages_uri"] !== null;
    });
    const record = await recordOf(t, run_id);
    expect(Object.keys(record)).toEqual(expect.arrayContaining(FIELDS));
    expect(record).toMatchObject({
      ...{ run_id, thread_id, current_step: "tool_execution", status: "running", attempt: 1, token_so_far: 42 },
      ...{ seed: seeds[0], plan: [], pending_approval: null, error: null },
    });
    const effects = record["effects"] as Fields[];
    const call = { run_id, tool: "look", kind: "undeclared", policy: "retry", calls: 1 };
    expect(effects).toEqual([expect.objectContaining(call), expect.objectContaining(call)]);
    expect(effects.map(({ status }) => String(status)).sort()).toEqual(["started", "succeeded"]);
    const { messages } = await listedAt(t, record["messages_uri"]);
    // Also those of the state that the run is at, which is moved when the run is past it.
    expect(messages.map(({ type }) => type)).toEqual(["human", "ai"]);
    expect(messages.map(({ uri }) => typeof uri)).toEqual(["string", "string"]);
    expect(await listedAt(t, record["tool_results_uri"])).toMatchObject({ tool_results: [] });

    await takeOver(t, run_id);
    await until("the other attempt to be in it", () => seeds.length === 3);
    expect(await recordOf(t, run_id)).toMatchObject({ attempt: 2, token_so_far: 42, seed: seeds[2] });
    open();
    expect(await statusAtEnd(t, thread_id, run_id)).toBe("success");
    expect(await recordOf(t, run_id)).toMatchObject({ current_step: "finished", token_so_far: 84 });
    expect(new Set(seeds).size).toBe(1);
    const given = { input: GO, config: { configurable: { seed: 7 } } };
    const second = await t.client.runs.create(thread_id, "agent", given);
    expect(await statusAtEnd(t, thread_id, second.run_id)).toBe("success");
    expect(await recordOf(t, second.run_id)).toMatchObject({ seed: 7 });
    expect((await t.app.request(`/v1/runs/${thread_id}`)).status).toBe(404);
  });
});
