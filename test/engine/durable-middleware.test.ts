// durableMiddleware: a model is not asked again for what it has answered, and each question to it is within the budget.
import { HumanMessage } from "@langchain/core/messages";
import { createAgent, createMiddleware } from "langchain";
import { expect, test } from "vitest";
import { NO_BUDGET, NO_LIMITS } from "../../src/core/budget.js";
import { scriptedModel } from "../../src/testing/scripted-model.js";
import { durableMiddleware } from "../../src/tools.js";
import { withEngine } from "../helpers/engine.js";
import { door, GO, runToEnd, statusAtEnd, takeOver } from "../helpers/tool-agent.js";
import { until } from "../helpers/wait.js";

const USAGE = { input: 30, output: 12 };
const budget = (tokens: number) => ({
  agent: { budget: { ...NO_BUDGET, limits: { ...NO_BUDGET.limits, run: { ...NO_LIMITS, tokens } } } },
});

/** Hangs behind the model's answer the first time; `hint` is what it adds to the request the second time. */
function hangs(opened: Promise<void>, answers: unknown[], hint?: string) {
  let calls = 0;
  return createMiddleware({
    name: "Hangs",
    wrapModelCall: async (request, handler) => {
      calls += 1;
      const first = calls === 1;
      const messages = first || hint === undefined ? request.messages : [...request.messages, new HumanMessage(hint)];
      const answer = await handler({ ...request, messages });
      answers.push(answer.content);
      if (first) await opened;
      return answer;
    },
  });
}

test.each([
  ["the same request gets the kept answer, whose tokens count once", undefined, 1],
  ["another request is asked", "in short", 2],
])("a model's answer is kept before its node is done; %s", async (_, hint, times) => {
  const { opened, open } = door();
  const answers: unknown[] = [];
  const model = scriptedModel([(_messages, asked) => ({ text: `answer ${asked}`, usage: USAGE })]);
  const agent = createAgent({ model, tools: [], middleware: [hangs(opened, answers, hint), durableMiddleware()] });
  await withEngine({ graphs: { agent }, policies: budget(100_000) }, async (engine) => {
    const { thread_id } = await engine.client.threads.create();
    const { run_id } = await engine.client.runs.create(thread_id, "agent", { input: GO });
    await until("the answer", () => answers.length === 1);
    await takeOver(engine, run_id);
    expect(await statusAtEnd(engine, thread_id, run_id)).toBe("success");
    open();
    expect(model.calls).toBe(times);
    expect(answers).toEqual(["answer 0", `answer ${times - 1}`]);
    const record = await engine.app.request(`/threads/${thread_id}/runs/${run_id}/record`);
    expect(await record.json()).toMatchObject({ token_so_far: times * (USAGE.input + USAGE.output) });
  });
});

test("a model that doesn't fit into the budget is not asked, and a person decides", async () => {
  const model = scriptedModel([{ text: "too dear", usage: USAGE }]);
  const agent = createAgent({ model, tools: [], middleware: [durableMiddleware()] });
  await withEngine({ graphs: { agent }, policies: budget(1) }, async (engine) => {
    const { runId, status } = await runToEnd(engine, { input: GO });
    expect(status).toBe("error");
    expect(model.calls).toBe(0);
    const inbox = await engine.app.request("/v1/runs?needs_attention=true");
    expect(await inbox.json()).toMatchObject([{ run_id: runId }]);
  });
});
