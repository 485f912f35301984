// Questions and answers as Agent Chat UI and Agent Inbox write them, over HTTP, to agents that ask in either casing.
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import type { Thread } from "@langchain/langgraph-sdk";
import { createAgent, humanInTheLoopMiddleware, tool } from "langchain";
import { expect, test } from "vitest";
import { z } from "zod";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { StreamingModel } from "../helpers/streaming-model.js";

const paid: number[] = [];
const pay = tool(
  ({ amount }: { amount: number }) => {
    paid.push(amount);
    return `paid ${amount}`;
  },
  { name: "pay", description: "Pays", schema: z.object({ amount: z.number() }) },
);
const CALL = { id: "call_1", name: "pay", args: { amount: 40 } };
/** Asks as LangChain.js does. */
const agent = createAgent({
  model: new StreamingModel((messages) =>
    messages.at(-1)?.getType() === "human" ? { text: "", calls: [CALL] } : { text: "done" },
  ),
  tools: [pay],
  // Its types don't know exact optional properties.
  middleware: [humanInTheLoopMiddleware({ interruptOn: { pay: true } } as never) as never],
});

const State = Annotation.Root({ answer: Annotation<unknown>() });
const asking = (question: unknown) =>
  new StateGraph(State)
    .addNode("ask", () => ({ answer: interrupt(question) }))
    .addEdge(START, "ask")
    .addEdge("ask", END)
    .compile();
/** Asks as LangChain for Python does. */
const python = asking({
  action_requests: [{ name: "pay", args: { amount: 40 } }],
  review_configs: [{ action_name: "pay", allowed_decisions: ["approve", "edit", "reject"] }],
});
/** Asks as Agent Inbox documents it. */
const inbox = asking([
  {
    action_request: { action: "pay", args: { amount: 40 } },
    config: { allow_ignore: true, allow_respond: true, allow_edit: true, allow_accept: true },
    description: "Pay 40 €?",
  },
]);

const graphs = { agent, python, inbox };
const GO = { messages: [{ role: "user", content: "pay 40" }] };

/** What both clients read of a question. */
const ACTION = { name: "pay", args: { amount: 40 }, arguments: { amount: 40 } };
const CONFIG = {
  ...{ actionName: "pay", action_name: "pay" },
  ...{ allowedDecisions: ["approve", "edit", "reject"], allowed_decisions: ["approve", "edit", "reject"] },
};
const SHOWN = {
  actionRequests: [expect.objectContaining(ACTION)],
  action_requests: [expect.objectContaining(ACTION)],
  reviewConfigs: [expect.objectContaining(CONFIG)],
  review_configs: [expect.objectContaining(CONFIG)],
};

async function ask({ client }: TestEngine, graph: keyof typeof graphs): Promise<string> {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, graph, { input: graph === "agent" ? GO : {} });
  return thread_id;
}

const questionOf = ({ interrupts }: Thread): unknown => Object.values(interrupts).flat()[0]?.value;

/** What came of it: the tool's calls, and what the thread says. */
async function outcome({ client }: TestEngine, threadId: string): Promise<unknown> {
  const { status } = await client.threads.get(threadId);
  return { status, paid: paid.splice(0) };
}

test.each(["agent", "python"] as const)(
  "%s's question has the names of every client wherever it is read",
  async (graph) => {
    await withEngine({ graphs }, async (t) => {
      const { thread_id } = await t.client.threads.create();
      const streamed: unknown[] = [];
      const input = graph === "agent" ? GO : {};
      for await (const { event, data } of t.client.runs.stream(thread_id, graph, { input, streamMode: "values" })) {
        const { __interrupt__: asked } = data as { __interrupt__?: { value: unknown }[] };
        if (event === "values" && asked !== undefined) streamed.push(asked[0]?.value);
      }
      expect(streamed).toEqual([expect.objectContaining(SHOWN)]);
      expect(questionOf(await t.client.threads.get(thread_id))).toMatchObject(SHOWN);
      const [found] = await t.client.threads.search({ status: "interrupted" });
      expect(questionOf(found as Thread)).toMatchObject(SHOWN);
      const { tasks } = await t.client.threads.getState(thread_id);
      expect(tasks[0]?.interrupts[0]?.value).toMatchObject(SHOWN);
      const [head] = await t.client.threads.getHistory(thread_id, { limit: 10 });
      expect(head?.tasks[0]?.interrupts[0]?.value).toMatchObject(SHOWN);
    });
  },
);

/** As the client sends it, and what the tool was called with then. */
const ANSWERS = [
  ["Agent Chat UI approves", { decisions: [{ type: "approve" }] }, [40]],
  [
    "Agent Chat UI edits",
    { decisions: [{ type: "edit", edited_action: { name: "pay", args: { amount: 30 } } }] },
    [30],
  ],
  ["Agent Chat UI rejects", { decisions: [{ type: "reject", message: "too much" }] }, []],
  [
    "@langchain/react edits",
    {
      decisions: [
        {
          type: "edit",
          editedAction: { name: "pay", args: { amount: 20 } },
          edited_action: { name: "pay", args: { amount: 20 } },
        },
      ],
    },
    [20],
  ],
  ["Agent Inbox accepts", [{ type: "accept", args: null }], [40]],
  ["Agent Inbox edits", [{ type: "edit", args: { action: "pay", args: { amount: 10 } } }], [10]],
  ["Agent Inbox responds", [{ type: "response", args: "too much" }], []],
] as const;

test("each client's answer to LangChain's middleware does what it says there", async () => {
  await withEngine({ graphs }, async (t) => {
    for (const [who, resume, calls] of ANSWERS) {
      const threadId = await ask(t, "agent");
      // Both send an empty input along.
      for await (const _ of t.client.runs.stream(threadId, "agent", { input: {}, command: { resume } }));
      expect([who, await outcome(t, threadId)]).toEqual([who, { status: "idle", paid: calls }]);
    }
    // In the background, with the mode that Agent Inbox asks for.
    const threadId = await ask(t, "agent");
    const command = { resume: [{ type: "accept", args: null }] };
    const run = await t.client.runs.create(threadId, "agent", { command, streamMode: "events" });
    await t.client.runs.join(threadId, run.run_id);
    expect(await outcome(t, threadId)).toEqual({ status: "idle", paid: [40] });
  });
});

test("a question in snake case gets its answer in snake case, and Agent Inbox's own question its own", async () => {
  await withEngine({ graphs }, async (t) => {
    const edited = { name: "pay", args: { amount: 30 } };
    for (const resume of [
      { decisions: [{ type: "edit", edited_action: edited }] },
      [{ type: "edit", args: { action: "pay", args: { amount: 30 } } }],
    ]) {
      const threadId = await ask(t, "python");
      const ended = await t.client.runs.wait(threadId, "python", { command: { resume } });
      expect(ended).toMatchObject({ answer: { decisions: [{ type: "edit", edited_action: edited }] } });
    }
    const threadId = await ask(t, "inbox");
    expect(questionOf(await t.client.threads.get(threadId))).toMatchObject([{ config: { allow_ignore: true } }]);
    const resume = [{ type: "response", args: "later" }];
    expect(await t.client.runs.wait(threadId, "inbox", { command: { resume } })).toEqual({ answer: resume });
  });
});

test.each(["agent", "python", "inbox"] as const)(
  '%s: "ignore" and "mark as resolved" end it without an answer',
  async (graph) => {
    await withEngine({ graphs }, async (t) => {
      const ignored = await ask(t, graph);
      await t.client.threads.updateState(ignored, { values: null, asNode: END });
      const resolved = await ask(t, graph);
      await t.client.runs.wait(resolved, graph, { input: {}, command: { goto: END } });
      for (const threadId of [ignored, resolved]) {
        expect(await outcome(t, threadId)).toEqual({ status: "idle", paid: [] });
        const thread = await t.client.threads.get(threadId);
        expect(Object.values(thread.interrupts).flat()).toEqual([]);
        expect((await t.client.threads.getState(threadId)).next).toEqual([]);
      }
      expect(await t.client.threads.search({ status: "interrupted" })).toEqual([]);
    });
  },
);
