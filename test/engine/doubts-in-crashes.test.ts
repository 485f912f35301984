// Several calls of one task in doubt, and the attempt that takes an answer dies: wherever it does, what was said of each call counts, and
// nobody is asked for ever.
import { tool } from "@langchain/core/tools";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { expect, inject, test } from "vitest";
import { z } from "zod";
import { createTestEngine } from "../../src/testing.js";
import { GO, toolAgent } from "../helpers/tool-agent.js";

const reset = (): Error => Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });

/** Cut off the first time, then done. */
function cutOffOnce() {
  const entered: number[] = [];
  const act = tool(
    ({ n }: { n: number }) => {
      entered.push(n);
      if (entered.filter((each) => each === n).length === 1) throw reset();
      return `did ${n}`;
    },
    { name: "act", description: "acts", schema: z.object({ n: z.number() }) },
  );
  return { act, entered };
}

test.each([1, 2, 3, 4, 5, 6, 7])("an attempt that takes an answer dies after its commit %i", async (nth) => {
  const { act, entered } = cutOffOnce();
  const calls = [1, 2, 3].map((n) => ({ name: "act", args: { n } }));
  const engine = await createTestEngine({
    graphs: { agent: toolAgent(new ToolNode([act], { handleToolErrors: false }), calls) },
    policies: { agent: { undeclaredTools: "ask" } },
    databaseUrl: inject("databaseUrl"),
  });
  try {
    const { client } = engine;
    const { thread_id } = await client.threads.create();
    await client.runs.create(thread_id, "agent", { input: GO });
    await engine.idle();
    const asked: unknown[] = [];
    for (let dies: Promise<unknown> | null = null; asked.length < 10; ) {
      const [question] = await engine.questions(thread_id);
      if (question === undefined) break;
      const { n } = (question.value as { args: { n: number } }).args;
      asked.push(n);
      dies ??= engine.crashAt("committed", nth);
      await engine.answer(thread_id, { value: n === 2 ? { type: "done", result: "was done" } : "retry" });
    }
    // Where it died as it made a call again, that one is in doubt anew.
    expect([...new Set(asked)].toSorted()).toEqual([1, 2, 3]);
    expect(asked.length).toBeLessThanOrEqual(4);
    const { values } = await client.threads.getState<{ messages: { type: string; content: string }[] }>(thread_id);
    const told = values.messages.filter(({ type }) => type === "tool").map(({ content }) => content);
    expect(told).toEqual(["did 1", "was done", "did 3"]);
    expect(entered.filter((n) => n === 2)).toHaveLength(1);
  } finally {
    await engine.close();
  }
});
