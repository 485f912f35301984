// A project may have a copy of perdure of its own: its tools and the engine that runs them then share no module.
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { expect, test } from "vitest";
import { z } from "zod";
import type * as errors from "../../src/core/errors.js";
import { isEngineError } from "../../src/core/errors.js";
import type * as tools from "../../src/tools.js";
import { withEngine } from "../helpers/engine.js";
import { GO, toolAgent } from "../helpers/tool-agent.js";
import { until } from "../helpers/wait.js";

/** What was built; the engine here is of the sources. */
const COPY = new URL("../../dist/", import.meta.url).href;

test("a durable tool of another copy, in a stock ToolNode, asks when it is in doubt and takes the answer", async () => {
  const { durableTool } = (await import(/* @vite-ignore */ `${COPY}tools.js`)) as typeof tools;
  const calls: string[] = [];
  const options = {
    name: "pay",
    description: "pays",
    schema: z.object({}),
    effect: "remote",
    reversibility: 1,
  } as const;
  const pay = durableTool((_, { key }) => {
    calls.push(key);
    // As when the connection breaks after the act.
    throw Object.assign(new Error("reset"), { code: "UND_ERR_SOCKET" });
  }, options);
  const agent = toolAgent(new ToolNode([pay]), [{ name: "pay", args: {} }]);
  await withEngine({ graphs: { agent } }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    await t.client.runs.create(thread_id, "agent", { input: GO });
    const state = async () => (await t.client.threads.get(thread_id)).status;
    await until("the question", async () => (await state()) === "interrupted");
    await t.client.runs.create(thread_id, "agent", { command: { resume: "done" } });
    await until("the end", async () => (await state()) === "idle");
    expect(calls).toHaveLength(1);
  });
});

test("an error of another copy is known by its code", async () => {
  const { EngineError } = (await import(/* @vite-ignore */ `${COPY}core/errors.js`)) as typeof errors;
  const error: unknown = new EngineError("effect_refused", "no");
  expect([isEngineError(error), isEngineError(error, "effect_refused"), isEngineError(error, "internal")]).toEqual([
    true,
    true,
    false,
  ]);
  expect(isEngineError(Object.assign(new Error("no"), { name: "EngineError" }))).toBe(false);
});
