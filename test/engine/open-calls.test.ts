// G2: tool calls that a run left without an answer are closed by the next message, so that no provider refuses the thread.
import { tool } from "@langchain/core/tools";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { createAgent, humanInTheLoopMiddleware } from "langchain";
import { expect, test } from "vitest";
import { z } from "zod";
import { scriptedModel } from "../../src/testing/scripted-model.js";
import { durableTool } from "../../src/tools.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { door, GO, ledger, messagesOf, runToEnd, takeOver, toolAgent } from "../helpers/tool-agent.js";
import { until } from "../helpers/wait.js";

const numbers = { schema: z.object({ n: z.number() }) };
const HELLO = { input: { messages: [{ type: "human", content: "hello" }] } };

async function begin({ client }: TestEngine, graphId = "agent") {
  const { thread_id: threadId } = await client.threads.create();
  const { run_id: runId } = await client.runs.create(threadId, graphId, { input: GO });
  return { threadId, runId };
}

/** What a thread's messages are, as `type: content`. */
async function talk(engine: TestEngine, threadId: string): Promise<string[]> {
  return (await messagesOf(engine, threadId)).map(({ type, content, tool_calls: calls = [] }) =>
    calls.length === 0 ? `${type}: ${content}` : `${type} calls ${calls.length}`,
  );
}

const OPEN = '"look" has no result: the run was stopped before it was over.';
const IN_DOUBT = '"pay" is in doubt: it was called, and nobody knows whether it was done.';

test("G2: after a cancel in the middle of three calls each is closed with what is known, once, right behind the message", async () => {
  const { opened, open } = door();
  let held = true;
  const look = tool(({ n }: { n: number }) => (n === 2 && held ? opened : `saw ${n}`), {
    ...{ name: "look", description: "looks", ...numbers },
  });
  const paid: number[] = [];
  const pay = durableTool<{ n: number }>(
    async ({ n }) => {
      paid.push(n);
      if (held) await opened;
      return `paid ${n}`;
    },
    { name: "pay", description: "pays", ...numbers, effect: "remote" },
  );
  const calls = [1, 2].map((n) => ({ name: "look", args: { n } }));
  const agent = toolAgent(new ToolNode([look, pay]), [...calls, { name: "pay", args: { n: 3 } }]);
  await withEngine({ graphs: { agent } }, async (engine) => {
    const { threadId, runId } = await begin(engine);
    await until("one to be done and two to be under way", async () => {
      const states = (await ledger(engine)).map(({ status }) => status).sort();
      return states.join() === "started,started,succeeded" && paid.length === 1;
    });
    await engine.client.runs.cancel(threadId, runId, true);
    held = false;
    const { status } = await runToEnd(engine, HELLO, { threadId });
    expect(status).toBe("success");
    const closed = [
      "tool: saw 1",
      `tool: "look" is in doubt: it was called, and nobody knows whether it was done.`,
      `tool: ${IN_DOUBT}`,
    ];
    const first = ["human: go", "ai calls 3", ...closed, "human: hello"];
    expect(await talk(engine, threadId)).toEqual([
      ...first,
      ...["ai calls 3", "tool: saw 1", "tool: saw 2", "tool: paid 3", "ai: done"],
    ]);
    const rows = await ledger(engine, runId);
    expect(rows.map(({ tool: name, status: state }) => `${String(name)} ${String(state)}`).sort()).toEqual([
      "look succeeded",
    ]);
    // Nothing is closed twice, and what is closed stays as it is.
    expect((await runToEnd(engine, HELLO, { threadId })).status).toBe("success");
    expect((await talk(engine, threadId)).slice(0, first.length)).toEqual(first);
    open();
  });
});

test("G2: what tasks had stored when their neighbour was cut off is their answer", async () => {
  const { opened, open } = door();
  const look = tool(({ n }: { n: number }) => (n === 2 ? opened : `saw ${n}`), {
    ...{ name: "look", description: "looks", ...numbers },
  });
  const toolCalls = [1, 2].map((n) => ({ name: "look", args: { n } }));
  const agent = createAgent({ model: scriptedModel([{ toolCalls }, { text: "done" }]), tools: [look] });
  await withEngine({ graphs: { agent } }, async (engine) => {
    const { threadId, runId } = await begin(engine);
    await until("the first to be stored", async () => {
      const { rows } = await engine.deps.db.query(`select 1 from checkpoint_writes
        where channel = 'messages' and checkpoint_id = (select checkpoint_id from checkpoints order by seq desc limit 1)`);
      return rows.length > 0 && (await ledger(engine)).length === 2;
    });
    await engine.client.runs.cancel(threadId, runId, true);
    await engine.deps.db.query("delete from effects");
    expect((await runToEnd(engine, HELLO, { threadId })).status).toBe("success");
    expect(await talk(engine, threadId)).toEqual([
      ...["human: go", "ai calls 2", "tool: saw 1", `tool: ${OPEN}`, "human: hello", "ai: done"],
    ]);
    open();
  });
});

test("G2: a thread whose run was given up, killed in a tool each time, takes the next message", async () => {
  const { opened, open } = door();
  let entered = 0;
  const look = tool(
    ({ n }: { n: number }) => {
      entered += 1;
      return entered <= 3 ? opened : `saw ${n}`;
    },
    { name: "look", description: "looks", ...numbers },
  );
  const agent = toolAgent(new ToolNode([look]), [{ name: "look", args: { n: 1 } }]);
  await withEngine({ graphs: { agent } }, async (engine) => {
    const { threadId, runId } = await begin(engine);
    for (let crash = 1; crash <= 3; crash += 1) {
      await until("the tool", () => entered === crash);
      // From the second crash on a run has a process of its own; here its attempts are all in this one.
      await engine.deps.db.query("update runs set crashes = least(crashes, 0) where run_id = $1 and $2 < 3", [
        runId,
        crash,
      ]);
      if (crash === 3) await engine.deps.db.query("update runs set crashes = 2 where run_id = $1", [runId]);
      await takeOver(engine, runId);
    }
    await until("it to be given up", async () => (await engine.client.runs.get(threadId, runId)).status === "error");
    expect((await runToEnd(engine, HELLO, { threadId })).status).toBe("success");
    expect((await talk(engine, threadId))[2]).toBe(
      `tool: "look" is in doubt: it was called, and nobody knows whether it was done.`,
    );
    open();
  });
});

test("G2: a message while a call waits for a person's approval withdraws the question and closes the call", async () => {
  const look = tool(({ n }: { n: number }) => `saw ${n}`, { name: "look", description: "looks", ...numbers });
  const model = scriptedModel([{ toolCalls: [{ name: "look", args: { n: 1 } }] }, { text: "done" }]);
  const hitl = humanInTheLoopMiddleware({ interruptOn: { look: true } } as never) as never;
  const agent = createAgent({ model, tools: [look], middleware: [hitl] });
  await withEngine({ graphs: { agent } }, async (engine) => {
    const { threadId, status } = await runToEnd(engine, { input: GO });
    expect(status).toBe("interrupted");
    expect((await runToEnd(engine, HELLO, { threadId })).status).toBe("success");
    expect(await talk(engine, threadId)).toEqual([
      ...["human: go", "ai calls 1", `tool: ${OPEN}`, "human: hello", "ai: done"],
    ]);
  });
});

test("G2: calls that the message itself answers, or whose message it rewrites, are left to it", async () => {
  const agent = createAgent({ model: scriptedModel([{ text: "done" }]), tools: [] });
  await withEngine({ graphs: { agent } }, async (engine) => {
    const { thread_id: threadId } = await engine.client.threads.create();
    const ask = (id: string) => ({
      type: "ai",
      id,
      content: "",
      tool_calls: [{ id: `c-${id}`, name: "look", args: {}, type: "tool_call" }],
    });
    const say = async (...messages: object[]) =>
      engine.client.threads.updateState(threadId, { values: { messages }, asNode: "model_request" });
    await runToEnd(engine, { input: { messages: [] } }, { threadId });
    await say(ask("a"));
    const mine = { type: "tool", tool_call_id: "c-a", content: "mine" };
    await runToEnd(engine, { input: { messages: [mine, ...HELLO.input.messages] } }, { threadId });
    await say(ask("b"));
    const other = { type: "ai", id: "b", content: "never mind" };
    await runToEnd(engine, { input: { messages: [other, ...HELLO.input.messages] } }, { threadId });
    expect((await talk(engine, threadId)).slice(1)).toEqual([
      ...["ai calls 1", "tool: mine", "human: hello", "ai: done", "ai: never mind", "human: hello", "ai: done"],
    ]);
  });
});

test("G1: a cancelled run's late call of a tool is refused, and so is what it stores", async () => {
  const { opened, open } = door();
  const paid: number[] = [];
  let refused: unknown;
  const pay = durableTool<{ n: number }>(async ({ n }) => void paid.push(n), {
    ...{ name: "pay", description: "pays", ...numbers, effect: "remote", key: ({ n }) => `order ${n}` },
  });
  let entered = false;
  const look = tool(
    async ({ n }: { n: number }, config) => {
      entered = true;
      await opened; // deaf to the abort
      refused = await pay.invoke({ n }, config).catch((error: unknown) => error);
      return `saw ${n}`;
    },
    { name: "look", description: "looks", ...numbers },
  );
  const agent = toolAgent(new ToolNode([look]), [{ name: "look", args: { n: 1 } }]);
  await withEngine({ graphs: { agent } }, async (engine) => {
    const { threadId, runId } = await begin(engine);
    await until("the tool", () => entered);
    await engine.client.runs.cancel(threadId, runId);
    await until("the end", async () => (await engine.client.runs.get(threadId, runId)).status === "interrupted");
    open();
    await until("the late call", () => refused !== undefined);
    expect(refused).toBeInstanceOf(Error);
    expect(paid).toEqual([]);
    expect(await ledger(engine)).toMatchObject([{ tool: "look", status: "started" }]);
    expect(await talk(engine, threadId)).toEqual(["human: go", "ai calls 1"]);
  });
});
