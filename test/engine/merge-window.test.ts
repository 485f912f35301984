// K11: messages that come in a burst are one run's input: in their order, none lost, each request with that run's answer.
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { createApp } from "../../src/api/app.js";
import { createAcceptor } from "../../src/engine/commands/accept-run.js";
import { createSlots } from "../../src/engine/slots.js";
import { approve } from "../../src/index.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { until } from "../helpers/wait.js";

/** Tests close windows themselves: how long a request takes here says nothing. */
const WINDOW_MS = 600_000;

type Entered = { texts: string[]; running: number; most: number };

/** Answers with what it was told; `held` keeps it in its node. */
function chatGraph(entered: Entered[], held: () => Promise<void> = () => Promise.resolve()) {
  let running = 0;
  return new StateGraph(MessagesAnnotation)
    .addNode("answer", async ({ messages }) => {
      const seen = { texts: messages.map(({ text }) => text), running: (running += 1), most: running };
      entered.push(seen);
      await held();
      running -= 1;
      return { messages: [{ role: "assistant", content: `answer ${entered.length}` }] };
    })
    .addEdge(START, "answer")
    .addEdge("answer", END)
    .compile();
}

type Options = Readonly<{ graph: unknown; approvals?: Parameters<typeof withEngine>[0]["approvals"] }>;

async function withWindow(
  { graph, approvals }: Options,
  work: (t: TestEngine, threadId: string) => Promise<void>,
): Promise<void> {
  const policies = { graph: { mergeWindowMs: WINDOW_MS } };
  await withEngine({ graphs: { graph }, policies, ...(approvals && { approvals }) }, async (t) => {
    await work(t, (await t.client.threads.create()).thread_id);
  });
}

/** As if their time had come. */
async function closeWindows(t: TestEngine): Promise<void> {
  await t.db.db.query(
    `update runs
    set merge_until = clock_timestamp(), available_at = case when available_at is not null then clock_timestamp() end
    where merge_until > clock_timestamp()`,
  );
  await t.db.db.query("update timers set due_at = clock_timestamp() where kind = 'run.release' and status = 'due'");
  await t.fireTimers();
}

const message = (id: string) => ({ role: "user", content: id, id });
type Asked = Readonly<{
  how?: string;
  key?: string;
  headers?: Record<string, string>;
  more?: object;
  app?: TestEngine["app"];
}>;

async function say({ app }: TestEngine, threadId: string, id: string, asked: Asked = {}) {
  const { how = "", key, headers = {}, more = {} } = asked;
  const response = await (asked.app ?? app).request(`/threads/${threadId}/runs${how}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers, ...(key && { "idempotency-key": key }) },
    body: JSON.stringify({ assistant_id: "graph", input: { messages: [message(id)] }, ...more }),
  });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  const replayed = response.headers.get("idempotent-replayed") === "true";
  return { run: response.headers.get("content-location")?.split("/").at(-1), text, replayed };
}

const rest = ({ client }: TestEngine, threadId: string) =>
  until("the thread to be idle", async () => (await client.threads.get(threadId)).status === "idle");
const runs = async ({ client }: TestEngine, threadId: string) => (await client.runs.list(threadId)).reverse();
const asks = (run: unknown) =>
  (run as { kwargs: { input: { messages: { id: string }[] } } }).kwargs.input.messages.map(({ id }) => id);

const heads = async ({ db }: TestEngine) => {
  const { rows } = await db.db.query<{ request: Buffer }>("select request from runs where head");
  return rows.map(({ request }) => asks({ kwargs: JSON.parse(request.toString("utf8")) as object }));
};

test("five messages over two APIs are one run with all of them, once, and all five get its answer", async () => {
  const entered: Entered[] = [];
  await withWindow({ graph: chatGraph(entered) }, async (t, threadId) => {
    const other = createApp({ ...t.engine, acceptRun: createAcceptor(t.deps, createSlots()) });
    const ways = ["/wait", "", "/stream", "/wait", ""];
    const asked = Promise.all(
      ways.map((how, i) => say(t, threadId, `m${i}`, { how, app: i % 2 === 0 ? t.app : other })),
    );
    await until("all to be accepted", async () => {
      const { rows } = await t.db.db.query<{ merged: number }>("select merged from runs");
      return rows[0]?.merged === 4;
    });
    await closeWindows(t);
    const answers = await asked;
    await rest(t, threadId);
    const all = await runs(t, threadId);
    expect(all).toHaveLength(1);
    expect(new Set(answers.map(({ run }) => run))).toEqual(new Set([all[0]?.run_id]));
    expect(entered.map(({ texts }) => [...texts].sort())).toEqual([["m0", "m1", "m2", "m3", "m4"]]);
    // In the order in which they were accepted, with the ids they came with.
    expect(asks(all[0])).toEqual(entered[0]?.texts);
    for (const i of [0, 3]) expect(JSON.parse(answers[i]!.text)).toMatchObject({ messages: { length: 6 } });
    expect(answers[2]?.text).toContain("answer 1");
    const { rows } = await t.db.db.query<{ type: string }>("select type from events where run_id = $1 order by seq", [
      all[0]?.run_id,
    ]);
    expect(rows.filter(({ type }) => type === "run.merged")).toHaveLength(4);
  });
});

test("one after the other they stay in order; what comes after the window, or while it runs, is the next run's", async () => {
  const entered: Entered[] = [];
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  await withWindow({ graph: chatGraph(entered, () => held) }, async (t, threadId) => {
    for (const id of ["a", "b", "c"]) await say(t, threadId, id);
    await closeWindows(t);
    await until("it to run", () => entered.length === 1);
    for (const id of ["d", "e"]) await say(t, threadId, id);
    const late = await say(t, threadId, "f", { more: { multitask_strategy: "enqueue", metadata: { other: true } } });
    release();
    // The place of what waits is kept, although its window is open when the run before it ends.
    await until("the first to end", async () => (await runs(t, threadId))[0]?.status === "success");
    expect(await heads(t)).toEqual([["d", "e"]]);
    await closeWindows(t);
    await rest(t, threadId);
    const all = await runs(t, threadId);
    expect(all.map(asks)).toEqual([["a", "b", "c"], ["d", "e"], ["f"]]);
    expect(all[2]?.run_id).toBe(late.run);
    expect(entered.map(({ texts }) => texts.filter((text) => text.length === 1).join(""))).toEqual([
      "abc",
      "abcde",
      "abcdef",
    ]);
    expect(Math.max(...entered.map(({ most }) => most))).toBe(1);
  });
});

test("a repeated request with its key joins nothing twice, before and after the run", async () => {
  const entered: Entered[] = [];
  await withWindow({ graph: chatGraph(entered) }, async (t, threadId) => {
    const asked = ["a", "b", "b", "a", "c"];
    const answers = [];
    for (const id of asked) answers.push(await say(t, threadId, id, { key: `key-${id}` }));
    expect(answers.map(({ replayed }) => replayed)).toEqual([false, false, true, true, false]);
    await closeWindows(t);
    await rest(t, threadId);
    expect(entered[0]?.texts).toEqual(["a", "b", "c"]);
    const again = await say(t, threadId, "b", { key: "key-b" });
    expect(again).toMatchObject({ run: answers[0]?.run, replayed: true });
    expect(await runs(t, threadId)).toHaveLength(1);
  });
});

test.each<[string, object]>([
  ["configuration", { config: { configurable: { language: "de" } } }],
  ["metadata", { metadata: { source: "mail" } }],
  ["another key of the input", { input: { messages: [message("b")], urgent: true } }],
  ["a breakpoint", { interrupt_before: ["answer"] }],
  ["what is streamed", { stream_mode: ["updates"] }],
])("what differs in more than its messages has a run of its own: %s", async (_what, more) => {
  await withWindow({ graph: chatGraph([]) }, async (t, threadId) => {
    const first = await say(t, threadId, "a", { headers: { "x-request-id": "1" } });
    const same = await say(t, threadId, "a2", { headers: { "x-request-id": "2" } });
    const other = await say(t, threadId, "b", { more });
    const after = await say(t, threadId, "c");
    expect(same.run).toBe(first.run);
    // It would overtake what came before it.
    expect(new Set([first.run, other.run, after.run]).size).toBe(3);
  });
});

test("a client that goes away takes its run along only while nobody else's messages are in it", async () => {
  const entered: Entered[] = [];
  await withWindow({ graph: chatGraph(entered) }, async (t, threadId) => {
    const leave = async (id: string): Promise<() => Promise<void>> => {
      const response = await t.app.request(`/threads/${threadId}/runs/stream`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ assistant_id: "graph", input: { messages: [message(id)] }, on_disconnect: "cancel" }),
      });
      const reader = response.body?.getReader();
      return async () => reader?.cancel();
    };
    await (await leave("alone"))();
    await until("it to be cancelled", async () => (await runs(t, threadId))[0]?.status === "interrupted");
    const leaves = await leave("a");
    const joined = await say(t, threadId, "b");
    await leaves();
    await closeWindows(t);
    await until("it to end", async () => (await t.client.runs.get(threadId, joined.run ?? "")).status === "success");
    expect(entered.map(({ texts }) => texts)).toEqual([["a", "b"]]);
  });
});

test("a run that is cancelled within its window takes no more in, and one that waits for an answer keeps waiting", async () => {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("ask", ({ messages }) => ({
      messages:
        messages.length > 1 ? [] : [{ role: "assistant", content: String(approve({ question: "go on?" }).approved) }],
    }))
    .addEdge(START, "ask")
    .addEdge("ask", END)
    .compile();
  await withWindow({ graph, approvals: { onMessage: "queue" } }, async (t, threadId) => {
    const cancelled = await say(t, threadId, "never");
    await t.client.runs.cancel(threadId, cancelled.run ?? "");
    const first = await say(t, threadId, "a");
    expect(first.run).not.toBe(cancelled.run);
    await closeWindows(t);
    await until("the question", async () => (await t.client.threads.get(threadId)).status === "interrupted");
    const queued = await say(t, threadId, "b");
    expect((await say(t, threadId, "c")).run).toBe(queued.run);
    await closeWindows(t);
    expect((await t.client.runs.get(threadId, queued.run ?? "")).status).toBe("pending");
    await t.client.runs.wait(threadId, "graph", { command: { resume: true } });
    await until("its turn", async () => (await t.client.runs.get(threadId, queued.run ?? "")).status === "success");
    const { values } = await t.client.threads.getState<{ messages: { content: string }[] }>(threadId);
    expect(values.messages.map(({ content }) => content)).toEqual(["a", "true", "b", "c"]);
  });
});
