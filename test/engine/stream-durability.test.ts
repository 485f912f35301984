import { setTimeout as sleep } from "node:timers/promises";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import {
  entrypoint,
  getWriter,
  interrupt,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { expect, it } from "vitest";
import { composeEngine, composeLoops, openParts, prepareEngine } from "../../src/compose.js";
import type { Db, Sql } from "../../src/core/deps.js";
import { createLog } from "../../src/observe/log.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";

const lookup = tool(({ n }: { n: number }) => `found ${n}`, {
  name: "lookup",
  description: "",
  schema: { type: "object", properties: { n: { type: "number" } } },
});

/** A model that streams, three tools at once, a gate beside them. */
const agent = new StateGraph(MessagesAnnotation)
  .addNode("agent", async ({ messages }, config) => {
    const model = new FakeListChatModel({ responses: ["abc"] });
    const { content, id } = await model.invoke(messages, config);
    const tool_calls = [1, 2, 3].map((n) => ({
      name: "lookup",
      id: `call-${n}`,
      args: { n },
      type: "tool_call" as const,
    }));
    return { messages: [new AIMessage({ content, id: id ?? "ai", tool_calls })] };
  })
  .addNode("tools", new ToolNode([lookup]))
  .addNode("gate", () => {
    interrupt("sure?");
    return {};
  })
  .addEdge(START, "agent")
  .addConditionalEdges("agent", ({ messages }: { messages: BaseMessage[] }) => {
    const { tool_calls = [] } = messages.at(-1) as AIMessage;
    return [
      ...tool_calls.map(
        (call) => new Send("tools", { messages: [new AIMessage({ content: "", tool_calls: [call] })] }),
      ),
      "gate",
    ] as string[];
  });

const square = task("square", async (n: number) => {
  getWriter()?.(n);
  return n * n;
});
const functional = entrypoint("functional", async (n: number) => {
  let sum = 0;
  for (let i = 1; i <= n; i++) sum += await square(i);
  return sum;
});

/** An engine whose worker is 300 ms away from the rows of each step, and near to everything else. */
function withSlowSaver(graphs: Record<string, unknown>, work: (engine: TestEngine) => Promise<void>): Promise<void> {
  return withEngine({ graphs, workers: 0 }, async (engine) => {
    const log = createLog("silent");
    const parts = openParts({ databaseUrl: engine.db.url, bodies: "memory:", log, applicationName: "slow" });
    const db: Db = {
      ...parts.deps.db,
      async query(text, values) {
        if (text.includes("insert into checkpoints")) await sleep(300);
        return parts.deps.db.query(text, values);
      },
    };
    const slow = composeEngine({ ...parts, deps: { ...parts.deps, db } }, engine.engine.graphs, {
      databaseUrl: engine.db.url,
      leaseMs: 10_000,
      pollMs: 100,
      moveAfterMs: 60_000,
      maxBlockMs: 60_000,
      previews: true,
      logLevel: "silent",
    });
    await prepareEngine(slow);
    const [worker] = composeLoops(slow, ["worker"], 10);
    worker?.start();
    try {
      await work(engine);
    } finally {
      await worker?.stop();
      await parts.close();
    }
  });
}

async function exists(sql: Sql, query: string, value: unknown): Promise<boolean> {
  return (await sql.query<{ found: boolean }>(`select exists (${query}) as found`, [value])).rows[0]?.found ?? false;
}

const isWritten = (sql: Sql, taskId: unknown) =>
  exists(sql, "select 1 from checkpoint_writes where task_id = $1", taskId);
const isStored = (sql: Sql, id: unknown) => exists(sql, "select 1 from checkpoints where checkpoint_id = $1", id);
const isAsked = (sql: Sql, id: unknown) =>
  exists(sql, "select 1 from approvals where interrupt_id = $1 and status = 'pending'", id);

type Data = Record<string, unknown> & { payload?: Record<string, unknown>; interrupts?: { id: string }[] };

/** What an event shows, and whether it is in the database at the moment it is seen. */
async function shows(sql: Sql, event: string, data: Data): Promise<[what: string, there: boolean][]> {
  const questions = event === "tasks" ? (data.interrupts ?? []) : ((data.__interrupt__ ?? []) as { id: string }[]);
  const seen: [string, boolean][] = [];
  for (const { id } of questions) seen.push([`question in ${event}`, await isAsked(sql, id)]);
  if (event === "tasks" && "result" in data) seen.push(["result of a task", await isWritten(sql, data.id)]);
  if (event === "debug" && data.type === "checkpoint") {
    const { checkpoint_id } = data.payload?.checkpoint as { checkpoint_id: string };
    seen.push(["checkpoint", await isStored(sql, checkpoint_id)]);
  }
  if (event === "messages") {
    const [message, metadata] = data as unknown as [{ type: string }, { langgraph_checkpoint_ns: string }];
    const taskId = metadata.langgraph_checkpoint_ns.split(":").at(-1);
    if (message.type === "tool") seen.push(["tool message", await isWritten(sql, taskId)]);
  }
  if (event === "tools" && data.event === "on_tool_end") {
    const { rows } = await sql.query<{ n: number }>(
      "select count(distinct task_id)::int as n from checkpoint_writes where channel = 'messages'",
    );
    // Besides the input's and the model's, at least one tool's.
    seen.push(["end of a tool", (rows[0]?.n ?? 0) >= 3]);
  }
  if (event === "events" && /^on_(tool|chain)_end$/.test(String(data.event))) {
    const ns = (data.metadata as { langgraph_checkpoint_ns?: string }).langgraph_checkpoint_ns;
    if (ns !== undefined && ns !== "") seen.push(["end in events", await isWritten(sql, ns.split(":").at(-1))]);
  }
  return seen;
}

it.each(["tasks", "debug", "messages-tuple", "tools", "events", "values", "updates"] as const)(
  "mode %s shows nothing before its row is there, though every write takes 300 ms",
  async (mode) => {
    await withSlowSaver({ agent }, async ({ client, deps }) => {
      const { thread_id } = await client.threads.create();
      const input = { messages: [{ type: "human", content: "hi" }] };
      const seen: [string, boolean][] = [];
      let tokensBeforeTheirStep = 0;
      let steps = 0;
      for await (const part of client.runs.stream(thread_id, "agent", { input, streamMode: [mode] })) {
        const { event, data } = part as unknown as { event: string; data: Data };
        if (event === "updates" || event === "values" || event === "tasks") steps++;
        seen.push(...(await shows(deps.db, event, data)));
        if (
          mode === "messages-tuple" &&
          event === "messages" &&
          (data as unknown as { type: string }[])[0]?.type === "ai"
        ) {
          tokensBeforeTheirStep++;
        }
      }
      expect(seen.filter(([, there]) => !there)).toEqual([]);
      const whats = new Set(seen.map(([what]) => what));
      const expected = {
        tasks: ["question in tasks", "result of a task"],
        debug: ["checkpoint"],
        "messages-tuple": ["tool message"],
        tools: ["end of a tool"],
        events: ["end in events"],
        values: ["question in values"],
        updates: ["question in updates"],
      }[mode];
      expect([...whats].sort()).toEqual(expected);
      if (mode === "messages-tuple") expect(tokensBeforeTheirStep).toBe(3);
      else expect(mode === "values" || mode === "updates" || mode === "tasks" ? steps > 0 : true).toBe(true);
    });
  },
);

it("the results of a functional graph's tasks are shown when they are stored", async () => {
  await withSlowSaver({ functional }, async ({ client, deps }) => {
    const { thread_id } = await client.threads.create();
    const results: unknown[] = [];
    for await (const part of client.runs.stream(thread_id, "functional", {
      input: 4 as never,
      streamMode: ["tasks"],
    })) {
      const { data } = part as unknown as { data: Data };
      if (!("result" in data)) continue;
      expect(await isWritten(deps.db, data.id)).toBe(true);
      results.push(data.name);
    }
    expect(results).toEqual(["square", "square", "square", "square", "functional"]);
  });
});
