// A run that was rolled back has answered nothing, whether what it wrote was moved or not: its answer stands at the state of the
// run that asked, and a run without input must not act on it.
import { AIMessage } from "@langchain/core/messages";
import { Annotation, END, interrupt, MessagesDeltaValue, START, StateGraph, StateSchema } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { tickPruner } from "../../src/engine/loops/pruner.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { expectNoDanglingPointer, NOTHING, rowsOf } from "../helpers/moved.js";
import { gateGraph } from "../helpers/scripted-graphs.js";
import { searchTables } from "../helpers/search-tables.js";
import { until } from "../helpers/wait.js";

type Log = Readonly<{ log: string[] }>;
type Asked = Readonly<{ __interrupt__?: { id: string }[] }>;
const keyOf = (threadId: string) => ({ tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId });
const LATER = 3_600_000;

/** The gate as it is, or as a node of a graph. */
function gateIn(where: string, acted: string[]) {
  const gate = gateGraph(acted);
  if (where === "root") return gate;
  const state = Annotation.Root({ log: Annotation<string[]>({ reducer: (_, b) => b, default: () => [] }) });
  return new StateGraph(state).addNode("sub", gate).addEdge(START, "sub").addEdge("sub", END).compile();
}

async function asked({ client }: TestEngine): Promise<string> {
  const { thread_id } = await client.threads.create();
  expect(await client.runs.wait(thread_id, "gate", { input: { log: ["asked"] } })).toHaveProperty("__interrupt__");
  return thread_id;
}

async function answer({ client }: TestEngine, threadId: string, resume: unknown): Promise<string> {
  const { run_id } = await client.runs.create(threadId, "gate", { command: { resume } });
  await client.runs.join(threadId, run_id);
  return run_id;
}

const ask = async ({ client }: TestEngine, threadId: string) =>
  ((await client.runs.wait(threadId, "gate", { input: null })) as Asked).__interrupt__ ?? [];
const logOf = async ({ client }: TestEngine, threadId: string) =>
  (await client.threads.getState<Log>(threadId)).values.log;
const prune = (t: TestEngine) =>
  until("the prune", async () => (await tickPruner(t.deps, { ...t.engine.edits, retention: null })) === 0);

const PLACES = ["root", "subgraph"].flatMap((where) => [
  { where, moved: false },
  { where, moved: true },
]);

test.each(PLACES)(
  "an answer is taken back, and a run without input asks anew: $where, moved: $moved",
  async (place) => {
    const acted: string[] = [];
    const secret = `${"nobody else may know ".repeat(100)}:yes`;
    await withEngine({ graphs: { gate: gateIn(place.where, acted) }, moveAfterMs: LATER }, async (t) => {
      const { client, deps } = t;
      const threadId = await asked(t);
      const before = await client.threads.getState<Log>(threadId);
      const runId = await answer(t, threadId, secret);
      expect(acted).toHaveLength(1);
      if (place.moved) {
        await moveThread(deps, keyOf(threadId));
        expect(await rowsOf(deps, keyOf(threadId))).toEqual(NOTHING);
      }
      const copiedBefore = (await client.threads.copy(threadId)).thread_id;
      const done = await client.threads.getHistory(copiedBefore);
      await client.runs.delete(threadId, runId);
      expect(await client.threads.getState(threadId)).toEqual(before);
      expect(await client.threads.getHistory(copiedBefore)).toEqual(done);
      await client.threads.delete(copiedBefore);
      await prune(t);
      expect(await searchTables(t.db.db, secret)).toEqual([]);
      expect(await client.threads.getState(threadId)).toEqual(before);
      const copiedAfter = (await client.threads.copy(threadId)).thread_id;
      for (const thread of [threadId, copiedAfter]) {
        expect(await ask(t, thread)).toHaveLength(1);
        // Written again with what came since, it has still not been answered.
        await moveThread(deps, keyOf(thread));
        const [question] = await ask(t, thread);
        expect(acted).toHaveLength(1);
        await answer(t, thread, { [question?.id ?? ""]: "no" });
        await moveThread(deps, keyOf(thread));
        expect(await logOf(t, thread)).toEqual(["asked", "q1:no", "acted"]);
        await expectNoDanglingPointer(deps, keyOf(thread));
      }
    });
  },
);

test.each(["gathered", "uploaded"])(
  "an answer that is taken back while it is being moved is not stored: %s",
  async (step) => {
    const acted: string[] = [];
    await withEngine({ graphs: { gate: gateIn("root", acted) }, moveAfterMs: LATER }, async (t) => {
      const { client, deps } = t;
      const threadId = await asked(t);
      // Moved before it is answered, or with the answer.
      if (step === "uploaded") await moveThread(deps, keyOf(threadId));
      const before = await client.threads.getState(threadId);
      const runId = await answer(t, threadId, "yes");
      const reached = async (at: string) => {
        if (at === step && (await client.runs.list(threadId)).length === 2) await client.runs.delete(threadId, runId);
      };
      await moveThread(deps, keyOf(threadId), { hooks: { reached } });
      expect(await client.threads.getState(threadId)).toEqual(before);
      acted.length = 0;
      expect(await ask(t, threadId)).toHaveLength(1);
      expect(acted).toEqual([]);
    });
  },
);

test("of two runs that answered, only the one that is rolled back has not: side by side, moved", async () => {
  const acted: string[] = [];
  const state = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
  const node = (name: string) => () => ({ log: [`${name}:${String(interrupt({ name }))}`] });
  const gate = new StateGraph(state)
    .addNode("left", node("left"))
    .addNode("right", node("right"))
    .addNode("act", ({ log }) => (acted.push(...log.slice(1)), {}))
    .addEdge(START, "left")
    .addEdge(START, "right")
    .addEdge(["left", "right"], "act")
    .addEdge("act", END)
    .compile();
  await withEngine({ graphs: { gate }, moveAfterMs: LATER }, async (t) => {
    const { client, deps } = t;
    const threadId = await asked(t);
    const { tasks } = await client.threads.getState(threadId);
    const idOf = (name: string) => tasks.find((task) => task.name === name)?.interrupts[0]?.id ?? "";
    await answer(t, threadId, { [idOf("left")]: "yes" });
    await moveThread(deps, keyOf(threadId));
    const second = await answer(t, threadId, { [idOf("right")]: "yes" });
    expect(acted).toEqual(["left:yes", "right:yes"]);
    await moveThread(deps, keyOf(threadId));
    await client.runs.delete(threadId, second);
    await prune(t);
    expect(await ask(t, threadId)).toHaveLength(1);
    expect(acted).toHaveLength(2);
    await answer(t, threadId, { [idOf("right")]: "no" });
    expect(acted.slice(2)).toEqual(["left:yes", "right:no"]);
  });
});

test.each([true, false])("a state that stays keeps the answers that it is rebuilt from: moved %s", async (moved) => {
  const node = (name: string) => () => ({ messages: [new AIMessage(`${name}:${String(interrupt(name))}`)] });
  const gate = new StateGraph(new StateSchema({ messages: MessagesDeltaValue }))
    .addNode("left", node("left"))
    .addNode("right", node("right"))
    .addNode("last", node("last"))
    .addEdge(START, "left")
    .addEdge(START, "right")
    .addEdge(["left", "right"], "last")
    .addEdge("last", END)
    .compile();
  await withEngine({ graphs: { gate }, moveAfterMs: LATER }, async (t) => {
    const { client, deps } = t;
    const { thread_id } = await client.threads.create();
    const textsOf = async () => {
      const { values } = await client.threads.getState<{ messages: { content: string }[] }>(thread_id);
      return values.messages.map(({ content }) => content);
    };
    const answerOf = async (name: string) => {
      const { tasks } = await client.threads.getState(thread_id);
      const id = tasks.find((task) => task.name === name)?.interrupts[0]?.id ?? "";
      return answer(t, thread_id, { [id]: "yes" });
    };
    await client.runs.wait(thread_id, "gate", { input: { messages: [{ role: "user", content: "hi" }] } });
    // The second run's state is made from both answers, and the third run's from that.
    const runs = [await answerOf("left"), await answerOf("right"), await answerOf("last")];
    if (moved) await moveThread(deps, keyOf(thread_id));
    expect(await textsOf()).toEqual(["hi", "left:yes", "right:yes", "last:yes"]);
    for (const runId of runs.slice(0, 2)) {
      await client.runs.delete(thread_id, runId);
      await prune(t);
      expect(await textsOf()).toEqual(["hi", "left:yes", "right:yes", "last:yes"]);
    }
    await client.runs.delete(thread_id, runs[2] ?? "");
    expect(await textsOf()).toEqual(["hi", "left:yes", "right:yes"]);
    expect(await ask(t, thread_id)).toHaveLength(1);
    expect(await textsOf()).toEqual(["hi", "left:yes", "right:yes"]);
  });
});
