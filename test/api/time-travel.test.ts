// Going back over HTTP: a replay asks again and enters nothing before its checkpoint, branches don't see each other.
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import type { Client, ThreadState } from "@langchain/langgraph-sdk";
import { beforeEach, expect, test } from "vitest";
import { sharedEngine } from "./shared.js";

type Log = { log: string[] };
const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** Which nodes were entered, in order. */
let entered: string[] = [];
const enter = (name: string) => {
  entered.push(name);
  return { log: [name] };
};
const ask = () => {
  const answer = String(interrupt({ question: "go on?" }));
  entered.push(`asked:${answer}`);
  return { log: [answer] };
};

const gate = new StateGraph(State)
  .addNode("a", () => enter("a"))
  .addNode("gate", ask)
  .addNode("b", () => enter("b"))
  .addEdge(START, "a")
  .addEdge("a", "gate")
  .addEdge("gate", "b")
  .addEdge("b", END)
  .compile();

const parent = new StateGraph(State)
  .addNode("first", () => enter("first"))
  .addNode("inner", gate)
  .addEdge(START, "first")
  .addEdge("first", "inner")
  .addEdge("inner", END)
  .compile();

const shared = sharedEngine({ graphs: { gate, parent } });
beforeEach(() => {
  entered = [];
});

async function answered(client: Client, graphId: string, answer: string): Promise<string> {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, graphId, { input: {} });
  await client.runs.wait(thread_id, graphId, { command: { resume: answer } });
  return thread_id;
}

const questions = (state: ThreadState) => state.tasks.flatMap((task) => task.interrupts);

test("a replay from before the gate asks again under a fresh id; the old branch keeps its answer", async () => {
  const { client } = shared();
  const id = await answered(client, "gate", "yes");
  const oldHead = (await client.threads.getState<Log>(id)).checkpoint;
  const history = await client.threads.getHistory<Log>(id);
  const before = history.find((state) => state.next.includes("gate"));
  const oldQuestion = before && questions(before)[0];
  entered = [];
  await client.runs.wait(id, "gate", { input: null, checkpoint: before!.checkpoint });
  const waiting = await client.threads.getState<Log>(id);
  expect(entered).toEqual([]);
  expect(questions(waiting)).toHaveLength(1);
  expect(questions(waiting)[0]?.id).not.toBe(oldQuestion?.id);
  expect((await client.threads.get(id)).status).toBe("interrupted");
  await client.runs.wait(id, "gate", { command: { resume: { [questions(waiting)[0]!.id!]: "no" } } });
  expect(entered).toEqual(["asked:no", "b"]);
  expect((await client.threads.getState<Log>(id)).values.log).toEqual(["a", "no", "b"]);
  expect((await client.threads.getState<Log>(id, oldHead)).values.log).toEqual(["a", "yes", "b"]);
});

test("while a subgraph waits, going on from its own checkpoint enters no step before it", async () => {
  const { client } = shared();
  const { thread_id: id } = await client.threads.create();
  await client.runs.wait(id, "parent", { input: {} });
  const at = await client.threads.getState<Log>(id, undefined, { subgraphs: true });
  const inner = at.tasks[0]!.state!;
  expect(inner.next).toEqual(["gate"]);
  entered = [];
  await client.runs.wait(id, "parent", { input: null, checkpoint: inner.checkpoint });
  expect(entered).toEqual([]);
  const [question, ...others] = questions(await client.threads.getState<Log>(id));
  expect(others).toEqual([]);
  await client.runs.wait(id, "parent", { command: { resume: { [question!.id!]: "no" } } });
  expect(entered).toEqual(["asked:no", "b"]);
});

test("an edit inside a subgraph is what it goes on with", async () => {
  const { client } = shared();
  const { thread_id: id } = await client.threads.create();
  await client.runs.wait(id, "parent", { input: {} });
  const at = await client.threads.getState<Log>(id, undefined, { subgraphs: true });
  const inner = at.tasks[0]!.state!.checkpoint;
  await client.threads.updateState(id, { values: { log: ["edited"] }, checkpoint: inner, asNode: "gate" });
  entered = [];
  await client.runs.wait(id, "parent", { input: null });
  expect(entered).toEqual(["b"]);
  expect((await client.threads.getState<Log>(id)).values.log).toEqual(
    expect.arrayContaining(["first", "a", "edited", "b"]),
  );
});
