// What a durable tool may say of itself: who must approve it, how long it may take, and how it is undone.
import { tool } from "@langchain/core/tools";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { expect, test } from "vitest";
import { z } from "zod";
import { scriptedModel } from "../../src/testing/scripted-model.js";
import { durableTool } from "../../src/tools.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import {
  door,
  GO,
  ledger,
  openQuestions,
  runToEnd,
  statusAtEnd,
  takeOver,
  toolAgent,
  toolTexts,
} from "../helpers/tool-agent.js";
import { until } from "../helpers/wait.js";

type Options = Partial<Parameters<typeof durableTool<{ n: number }>>[1]>;

function payTool(act: (n: number, signal: AbortSignal) => unknown, options: Options = {}) {
  return durableTool<{ n: number }>(async ({ n }, { signal }) => act(n, signal), {
    ...{ name: "pay", description: "pays", schema: z.object({ n: z.number() }), effect: "remote" },
    ...options,
  });
}

const payments = (...numbers: readonly number[]) => numbers.map((n) => ({ name: "pay", args: { n } }));

async function answer(engine: TestEngine, threadId: string, said: unknown) {
  const [question, ...others] = await openQuestions(engine, threadId);
  expect(others).toEqual([]);
  const { status } = await runToEnd(engine, { command: { resume: { [question!.id]: said } } }, { threadId });
  return { status, question: question!.value };
}

test("tier approval: two calls in one stock ToolNode are approved one by one, and only what was approved is done", async () => {
  const paid: number[] = [];
  const pay = payTool((n) => `paid ${paid.push(n) && n}`, {
    tier: "approval",
    reversibility: 0,
    failureCost: 1,
    dedupeWindowMs: 0,
  });
  const look = tool(({ n }: { n: number }) => `saw ${n}`, {
    ...{ name: "look", description: "looks", schema: z.object({ n: z.number() }) },
  });
  const calls = [...payments(1, 2), { name: "look", args: { n: 3 } }, ...payments(4)];
  await withEngine({ graphs: { agent: toolAgent(new ToolNode([pay, look]), calls) } }, async (engine) => {
    let { threadId, status } = await runToEnd(engine, { input: GO });
    const asked: number[] = [];
    while (status === "interrupted" && asked.length < 4) {
      expect(paid).toEqual(asked.filter((n) => n !== 2));
      const [open] = await openQuestions(engine, threadId);
      const { n } = open!.value.args as { n: number };
      asked.push(n);
      const done = await answer(engine, threadId, n === 2 ? "reject" : { type: "approve" });
      expect(done.question).toMatchObject({ kind: "approve_effect", tool: "pay", failure_cost: 1, reversibility: 0 });
      ({ status } = done);
    }
    expect(status).toBe("success");
    expect(asked.toSorted()).toEqual([1, 2, 4]);
    expect(await toolTexts(engine, threadId)).toEqual([
      "paid 1",
      `"pay" was not approved, and not done.`,
      "saw 3",
      "paid 4",
    ]);
  });
});

test("tier forbidden: the run ends with a code, and nothing is called", async () => {
  const paid: number[] = [];
  const pay = payTool((n) => paid.push(n), { tier: "forbidden" });
  await withEngine({ graphs: { agent: toolAgent(new ToolNode([pay]), payments(1)) } }, async (engine) => {
    const { runId, status } = await runToEnd(engine, { input: GO });
    expect([status, paid]).toEqual(["error", []]);
    const { rows } = await engine.deps.db.query("select error_code from runs where run_id = $1", [runId]);
    expect(rows).toEqual([{ error_code: "effect_refused" }]);
  });
});

test("a call that takes longer than its timeoutMs is cut off, and is in doubt", async () => {
  const signals: AbortSignal[] = [];
  const pay = payTool((_, signal) => new Promise(() => signals.push(signal)), { timeoutMs: 50 });
  await withEngine({ graphs: { agent: toolAgent(new ToolNode([pay]), payments(1)) } }, async (engine) => {
    const { threadId, status } = await runToEnd(engine, { input: GO });
    expect(status).toBe("interrupted");
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect(await ledger(engine)).toMatchObject([{ status: "unknown", error_code: "timeout" }]);
    const done = await answer(engine, threadId, { type: "done", result: "paid at last" });
    expect(done).toMatchObject({ status: "success", question: { kind: "unknown_effect" } });
    expect(await toolTexts(engine, threadId)).toEqual(["paid at last"]);
  });
});

test("a call that a person aborts is undone, once, with a key of its own, and is not done again in a replay", async () => {
  const undone: string[] = [];
  const paid: number[] = [];
  const pay = payTool(
    (n) => {
      paid.push(n);
      throw new Error("500");
    },
    { compensate: async (_, { key }) => void undone.push(key) },
  );
  await withEngine({ graphs: { agent: toolAgent(new ToolNode([pay]), payments(1)) } }, async (engine) => {
    const { threadId } = await runToEnd(engine, { input: GO });
    const [row] = await ledger(engine);
    expect((await answer(engine, threadId, "abort")).status).toBe("success");
    expect(undone).toEqual([`comp_${String(row!.key)}`]);
    expect(await toolTexts(engine, threadId)).toEqual([
      `"pay" was stopped by a person. What may have been done before was undone.`,
    ]);
    expect(await ledger(engine)).toMatchObject([
      { tool: "pay", status: "failed", error_code: "compensated" },
      { tool: "pay.compensate", status: "succeeded" },
    ]);
    const before = (await engine.client.threads.getHistory(threadId)).find(({ next }) => next[0] === "tools")!;
    expect((await runToEnd(engine, { input: null, checkpoint: before.checkpoint }, { threadId })).status).toBe("error");
    expect([paid, undone.length]).toEqual([[1], 1]);
  });
});

test("an undoing that fails is in doubt itself, and is asked about beside calls that go on", async () => {
  let tries = 0;
  const pay = payTool(
    (n) => {
      if (n === 1) throw new Error("500");
      return `paid ${n}`;
    },
    {
      compensate: async () => {
        tries += 1;
        if (tries === 1) throw new Error("502");
      },
    },
  );
  await withEngine({ graphs: { agent: toolAgent(new ToolNode([pay]), payments(1, 2)) } }, async (engine) => {
    const { threadId } = await runToEnd(engine, { input: GO });
    expect((await answer(engine, threadId, "abort")).status).toBe("interrupted");
    const again = await answer(engine, threadId, "retry");
    expect(again).toMatchObject({ status: "success", question: { kind: "unknown_effect", tool: "pay.compensate" } });
    expect(tries).toBe(2);
    expect(await toolTexts(engine, threadId)).toEqual([
      `"pay" was stopped by a person. What may have been done before was undone.`,
      "paid 2",
    ]);
  });
});

test("several declared calls of one stock ToolNode in doubt: each is asked about, and each answer goes to its own", async () => {
  const { opened, open } = door();
  const paid: number[] = [];
  const pay = payTool((n) => {
    paid.push(n);
    return paid.length <= 3 ? opened : `paid ${n}`;
  });
  await withEngine({ graphs: { agent: toolAgent(new ToolNode([pay]), payments(1, 2, 3)) } }, async (engine) => {
    const { thread_id: threadId } = await engine.client.threads.create();
    const { run_id } = await engine.client.runs.create(threadId, "agent", { input: GO });
    await until("all to be called", () => paid.length === 3);
    await takeOver(engine, run_id);
    let status = await statusAtEnd(engine, threadId, run_id);
    for (let questions = 0; status === "interrupted" && questions < 3; questions += 1) {
      const [question] = await openQuestions(engine, threadId);
      const { n } = question!.value.args as { n: number };
      ({ status } = await answer(engine, threadId, { 1: "retry", 2: "abort", 3: { type: "done", result: "seen" } }[n]));
    }
    open();
    expect(status).toBe("success");
    expect(paid.toSorted()).toEqual([1, 1, 2, 3]);
    const aborted = `"pay" was stopped by a person. Whether it was done before isn't known.`;
    expect(await toolTexts(engine, threadId)).toEqual(["paid 1", aborted, "seen"]);
  });
});

test("a worker that lost its run while it paid can't say that it did, nor keep what it did locally", async () => {
  const { opened, open } = door();
  const over: string[] = [];
  const hang = async (name: string) => {
    await opened;
    over.push(name);
    return name;
  };
  const pay = payTool(() => hang("remote"));
  const book = durableTool<{ n: number }>(
    async ({ n }, { tx }) => {
      await tx!.query("insert into public.bookings (n) values ($1)", [n]);
      return over.length === 0 ? hang("local") : "booked";
    },
    { name: "book", description: "books", schema: z.object({ n: z.number() }), effect: "local" },
  );
  const calls = [...payments(1), { name: "book", args: { n: 2 } }];
  await withEngine({ graphs: { agent: toolAgent(new ToolNode([pay, book]), calls) } }, async (engine) => {
    await engine.deps.db.query("create table public.bookings (n int)");
    const { thread_id: threadId } = await engine.client.threads.create();
    const { run_id } = await engine.client.runs.create(threadId, "agent", { input: GO });
    await until("the payment to begin", async () => (await ledger(engine)).length === 1);
    await takeOver(engine, run_id);
    await until("another attempt", async () => {
      const { rows } = await engine.deps.db.query<{ attempt: number }>("select attempt from runs");
      return rows[0]?.attempt === 2;
    });
    open();
    await until("the worker that lost it to wake", () => over.length >= 2);
    expect(await statusAtEnd(engine, threadId, run_id)).toBe("interrupted");
    const { question, status } = await answer(engine, threadId, "done");
    expect([question.tool, status]).toEqual(["pay", "success"]);
    const { rows } = await engine.deps.db.query("select n from public.bookings");
    expect(rows).toEqual([{ n: 2 }]);
    expect(await ledger(engine)).toMatchObject([
      { tool: "pay", status: "succeeded", resolution: { by: "person", how: "done" } },
      { tool: "book", status: "succeeded", attempts: 1 },
    ]);
  });
});

test("a model that is called inside a local effect's transaction is refused, and nothing of it stays", async () => {
  const model = scriptedModel([{ text: "no" }]);
  const book = durableTool<{ n: number }>(
    async ({ n }, { tx }) => {
      await tx!.query("insert into public.bookings (n) values ($1)", [n]);
      return model.invoke("may I?");
    },
    { name: "pay", description: "books", schema: z.object({ n: z.number() }), effect: "local" },
  );
  const node = new ToolNode([book], { handleToolErrors: false });
  await withEngine({ graphs: { agent: toolAgent(node, payments(1)) } }, async (engine) => {
    await engine.deps.db.query("create table public.bookings (n int)");
    const { runId, status } = await runToEnd(engine, { input: GO });
    expect([status, model.calls]).toEqual(["error", 0]);
    const { rows } = await engine.deps.db.query("select error_code from runs where run_id = $1", [runId]);
    expect(rows).toEqual([{ error_code: "effect_refused" }]);
    expect((await engine.deps.db.query("select n from public.bookings")).rows).toEqual([]);
  });
});
