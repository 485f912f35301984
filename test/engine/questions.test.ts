// Which questions a run leaves open: in one node after another, side by side, in subgraphs, and when the thread goes elsewhere.
import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { sleepFor } from "../../src/engine/sleep.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { gateGraph, stepsGraph } from "../helpers/scripted-graphs.js";
import { until } from "../helpers/wait.js";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

type Approval = Readonly<{ approval_id: string; interrupt_id: string; node: string; status: string; run_id: string }>;

async function approvals({ db }: TestEngine, threadId: string): Promise<Approval[]> {
  const { rows } = await db.db.query<Approval>(
    "select approval_id, interrupt_id, node, status, run_id from approvals where thread_id = $1 order by asked_at, node",
    [threadId],
  );
  return rows;
}

const pending = async (t: TestEngine, threadId: string) =>
  (await approvals(t, threadId)).filter(({ status }) => status === "pending");

async function resume(t: TestEngine, threadId: string, resume: unknown, more: object = {}): Promise<Response> {
  const response = await t.app.request(`/threads/${threadId}/runs/wait`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: "graph", command: { resume }, ...more }),
  });
  return response;
}

const threadStatus = async ({ client }: TestEngine, threadId: string) => (await client.threads.get(threadId)).status;

async function asked(t: TestEngine): Promise<string> {
  const { thread_id } = await t.client.threads.create();
  await t.client.runs.wait(thread_id, "graph", { input: { log: [] } });
  return thread_id;
}

test("a node that asks twice waits twice: each answer is taken by its own question", async () => {
  const graph = new StateGraph(Log)
    .addNode("ask", () => ({ log: [`${interrupt("first?")}, ${interrupt("second?")}`] }))
    .addEdge(START, "ask")
    .addEdge("ask", END)
    .compile();
  await withEngine({ graphs: { graph } }, async (t) => {
    const threadId = await asked(t);
    const [first] = await pending(t, threadId);
    expect(await (await resume(t, threadId, { [first!.interrupt_id]: "one" })).json()).toMatchObject({
      __interrupt__: [{ value: "second?" }],
    });
    expect(await threadStatus(t, threadId)).toBe("interrupted");
    const state = await t.client.threads.getState(threadId);
    expect(state.next).toEqual(["ask"]);
    expect(state.tasks).toMatchObject([{ name: "ask", interrupts: [{ value: "second?" }] }]);
    const [second, ...others] = await pending(t, threadId);
    expect(others).toEqual([]);
    expect(second?.interrupt_id).not.toBe(first?.interrupt_id);
    expect((await resume(t, threadId, { [first!.interrupt_id]: "again" })).status).toBe(409);
    expect(await (await resume(t, threadId, { [second!.interrupt_id]: "two" })).json()).toEqual({
      log: ["one, two"],
    });
    expect(await threadStatus(t, threadId)).toBe("idle");
  });
});

/** Two gates side by side. Left leaves nothing but a goto, which no channel shows as its result. */
function twoGates(acted: string[]) {
  return new StateGraph(Log)
    .addNode(
      "left",
      () => {
        acted.push(`left ${String(interrupt("refund 5?"))}`);
        return new Command({ goto: "end" });
      },
      { ends: ["end"] },
    )
    .addNode("right", () => {
      acted.push(`right ${String(interrupt("delete account?"))}`);
      return { log: ["right"] };
    })
    .addNode("end", () => ({ log: ["end"] }))
    .addEdge(START, "left")
    .addEdge(START, "right")
    .compile();
}

test("of two questions side by side the answer to one leaves the other open under its id, and neither is asked again", async () => {
  const acted: string[] = [];
  await withEngine({ graphs: { graph: twoGates(acted) } }, async (t) => {
    const threadId = await asked(t);
    const [left, right] = await approvals(t, threadId);
    const plain = await resume(t, threadId, "yes");
    expect(plain.status).toBe(409);
    expect(await plain.text()).toMatch(new RegExp(`${left!.interrupt_id}.*${right!.interrupt_id}`));
    expect(acted).toEqual([]);

    const partial = await (await resume(t, threadId, { [left!.interrupt_id]: "yes" })).json();
    expect(partial).toEqual({ __interrupt__: [{ id: right!.interrupt_id, value: "delete account?" }] });
    expect(acted).toEqual(["left yes"]);
    expect(await threadStatus(t, threadId)).toBe("interrupted");
    expect(await approvals(t, threadId)).toMatchObject([
      { node: "left", status: "decided" },
      { node: "right", status: "pending", approval_id: right!.approval_id, interrupt_id: right!.interrupt_id },
    ]);
    const shown = Object.values((await t.client.threads.get(threadId)).interrupts).flat();
    expect(shown).toEqual([{ id: right!.interrupt_id, value: "delete account?" }]);
    expect((await resume(t, threadId, { [left!.interrupt_id]: "no" })).status).toBe(409);

    await (await resume(t, threadId, { [right!.interrupt_id]: "no" })).text();
    expect(acted).toEqual(["left yes", "right no"]);
    expect(await threadStatus(t, threadId)).toBe("idle");
    expect(await pending(t, threadId)).toEqual([]);
  });
});

test("an id that was cut short or mistyped, or anything beside the ids, answers nothing", async () => {
  await withEngine({ graphs: { graph: gateGraph([]) } }, async (t) => {
    const threadId = await asked(t);
    const [question] = await pending(t, threadId);
    const id = question!.interrupt_id;
    const wrong = [id.slice(0, 31), id.slice(0, 8), `${id}0`, id.toUpperCase()].map((key) => ({ [key]: "yes" }));
    for (const answer of [...wrong, { [id]: "yes", note: "hurry" }]) {
      const response = await resume(t, threadId, answer);
      expect(response.status, JSON.stringify(answer)).toBe(409);
      expect(await response.text()).toContain(`pending: ${id}`);
    }
    expect(await pending(t, threadId)).toHaveLength(1);
    const { rows } = await t.db.db.query("select 1 from runs where kind = 'run'");
    expect(rows).toHaveLength(1);
    // What only looks a little like it is an answer.
    expect((await resume(t, threadId, { "10420001": "yes" })).status).toBe(200);
  });
});

test("whoever answers a closed question is told what became of that one", async () => {
  await withEngine({ graphs: { graph: twoGates([]) } }, async (t) => {
    const threadId = await asked(t);
    const [left, right] = await pending(t, threadId);
    await resume(t, threadId, { [left!.interrupt_id]: "yes" });
    await resume(t, threadId, { [right!.interrupt_id]: "no" });
    const again = await (await resume(t, threadId, { [left!.interrupt_id]: "no" })).text();
    expect(again).toContain(`Interrupt ${left!.interrupt_id} was decided (yes) by api at 2`);
    expect(again).not.toContain(right!.interrupt_id);
    const other = await asked(t);
    const [open] = await pending(t, other);
    await t.client.runs.wait(other, "graph", { input: { log: ["something else"] } });
    const late = await (await resume(t, other, { [open!.interrupt_id]: "yes" })).text();
    expect(late).toMatch(new RegExp(`Interrupt ${open!.interrupt_id} was withdrawn at .*superseded`));
  });
});

test("both of two questions can be answered at once, by two people or in one request", async () => {
  const acted: string[] = [];
  await withEngine({ graphs: { graph: twoGates(acted) } }, async (t) => {
    const ofTwo = await asked(t);
    const [left, right] = await approvals(t, ofTwo);
    const both = await Promise.all(
      [left, right].map((question) => resume(t, ofTwo, { [question!.interrupt_id]: "yes" })),
    );
    expect(both.map(({ status }) => status)).toEqual([200, 200]);
    await Promise.all(both.map((response) => response.text()));
    await until("both acts", async () => acted.length === 2 && (await threadStatus(t, ofTwo)) === "idle");
    expect([...acted].sort()).toEqual(["left yes", "right yes"]);

    const ofOne = await asked(t);
    const [l, r] = await approvals(t, ofOne);
    await (await resume(t, ofOne, { [l!.interrupt_id]: "yes", [r!.interrupt_id]: "no" })).text();
    expect(acted.slice(2).sort()).toEqual(["left yes", "right no"]);
    expect(await threadStatus(t, ofOne)).toBe("idle");
  });
});

test("two gates in a subgraph, answered with the head's checkpoint id: each has its answer, no step is entered again", async () => {
  const entered: string[] = [];
  const sub = new StateGraph(Log)
    .addNode("step", () => {
      entered.push("step");
      return { log: ["step"] };
    })
    .addNode("gate1", () => ({ log: [`1:${String(interrupt("one?"))}`] }))
    .addNode("gate2", () => ({ log: [`2:${String(interrupt("two?"))}`] }))
    .addEdge(START, "step")
    .addEdge("step", "gate1")
    .addEdge("gate1", "gate2")
    .addEdge("gate2", END)
    .compile();
  const graph = new StateGraph(Log).addNode("sub", sub).addEdge(START, "sub").addEdge("sub", END).compile();
  await withEngine({ graphs: { graph } }, async (t) => {
    const threadId = await asked(t);
    for (const answer of ["a", "b"]) {
      const { checkpoint } = await t.client.threads.getState(threadId);
      const response = await resume(t, threadId, answer, { checkpoint_id: checkpoint.checkpoint_id });
      expect(response.status).toBe(200);
      await response.text();
    }
    const { values } = await t.client.threads.getState<{ log: string[] }>(threadId);
    expect(values.log).toEqual(["step", "1:a", "2:b"]);
    expect(entered).toEqual(["step"]);
  });
});

test("a new message withdraws the open question: its id is answered no more, and the old act never happens", async () => {
  const acted: string[] = [];
  await withEngine({ graphs: { graph: gateGraph(acted) } }, async (t) => {
    const threadId = await asked(t);
    const [old] = await pending(t, threadId);
    await t.client.runs.wait(threadId, "graph", { input: { log: ["make it 10"] } });
    expect(await approvals(t, threadId)).toMatchObject([{ status: "withdrawn" }, { status: "pending" }]);
    const late = await resume(t, threadId, { [old!.interrupt_id]: "yes" });
    expect(late.status).toBe(409);
    expect(acted).toEqual([]);
    const [asking] = await pending(t, threadId);
    await (await resume(t, threadId, { [asking!.interrupt_id]: "yes" })).text();
    expect(acted).toEqual(["q1:yes"]);
  });
});

test("a run that sleeps on its thread keeps its place: what was asked before it is not answered", async () => {
  const doors: (() => void)[] = [];
  const graph = new StateGraph(Log)
    .addNode("wait", async ({ log }) => {
      if (log.includes("sleepy")) await sleepFor(60_000);
      else await new Promise<void>((resolve) => doors.push(resolve));
      return {};
    })
    .addNode("ask", () => ({ log: [String(interrupt("sure?"))] }))
    .addEdge(START, "wait")
    .addEdge("wait", "ask")
    .addEdge("ask", END)
    .compile();
  await withEngine({ graphs: { graph } }, async (t) => {
    const { thread_id: threadId } = await t.client.threads.create();
    const run = async (log: string) =>
      (await t.client.runs.create(threadId, "graph", { input: { log: [log] } })).run_id;
    const first = await run("quick");
    const second = await run("sleepy");
    await until("the first to be in the middle", () => doors.length === 1);
    doors[0]?.();
    await t.client.runs.join(threadId, first);
    // A run that waits for its turn is "pending" too: the second has begun when it has withdrawn the question.
    await until("the second to begin", async () => (await pending(t, threadId)).length === 0);
    await until("the second to sleep", async () => (await t.client.runs.get(threadId, second)).status === "pending");
    const [question] = await approvals(t, threadId);
    const refused = await resume(t, threadId, { [question!.interrupt_id]: "yes" });
    expect(refused.status).toBe(409);
    expect(await pending(t, threadId)).toEqual([]);
  });
});

test("a question that an input accepted before will overtake is not answered, unless that input is cancelled in time", async () => {
  const acted: string[] = [];
  const doors: (() => void)[] = [];
  const graph = new StateGraph(Log)
    .addNode("wait", async ({ log }) => {
      if (log.length > 0) await new Promise<void>((resolve) => doors.push(resolve));
      return {};
    })
    .addNode("ask", () => {
      acted.push(String(interrupt("sure?")));
      return {};
    })
    .addEdge(START, "wait")
    .addEdge("wait", "ask")
    .addEdge("ask", END)
    .compile();
  await withEngine({ graphs: { graph }, concurrency: 1 }, async (t) => {
    const [{ thread_id: threadId }, elsewhere] = [await t.client.threads.create(), await t.client.threads.create()];
    const run = async (log: string, on = threadId) =>
      (await t.client.runs.create(on, "graph", { input: { log: [log] } })).run_id;
    const first = await run("first");
    await run("elsewhere", elsewhere.thread_id);
    const [second, third] = [await run("second"), await run("third")];
    await until("the first to be in the middle", () => doors.length === 1);
    doors.shift()?.();
    await t.client.runs.join(threadId, first);
    await until("the only slot to be taken elsewhere", () => doors.length === 1);
    const [question] = await pending(t, threadId);
    const refused = await resume(t, threadId, { [question!.interrupt_id]: "yes" });
    expect(refused.status).toBe(409);
    expect(await refused.text()).toContain(second);

    await t.client.runs.cancel(threadId, second);
    expect(await pending(t, threadId)).toEqual([question]);
    doors[0]?.();
    await until("the third run to be in the middle", () => doors.length === 2);
    await t.client.runs.cancel(threadId, third);
    doors[1]?.();
    expect(await pending(t, threadId)).toEqual([]);
    expect(await threadStatus(t, threadId)).toBe("idle");
    expect(acted).toEqual([]);
  });
});

test("cancelling the run that waits withdraws its questions, also when another answered some of them before", async () => {
  const acted: string[] = [];
  await withEngine({ graphs: { graph: twoGates(acted) } }, async (t) => {
    const threadId = await asked(t);
    const [left] = await approvals(t, threadId);
    await (await resume(t, threadId, { [left!.interrupt_id]: "yes" })).text();
    const [first, second] = (await t.client.runs.list(threadId)).reverse();
    await t.client.runs.cancel(threadId, first!.run_id);
    expect(await pending(t, threadId)).toHaveLength(1);
    await t.client.runs.cancel(threadId, second!.run_id);
    expect(await pending(t, threadId)).toEqual([]);
    expect(await threadStatus(t, threadId)).toBe("idle");
  });
});

test("cancelling a run that waits works while a delayed run holds the thread busy", async () => {
  await withEngine({ graphs: { graph: gateGraph([]) } }, async (t) => {
    const { thread_id: threadId } = await t.client.threads.create();
    const later = await t.client.runs.create(threadId, "graph", { input: { log: [] }, afterSeconds: 3_600 });
    const run = await t.client.runs.create(threadId, "graph", { input: { log: [] } });
    await t.client.runs.join(threadId, run.run_id);
    expect(await pending(t, threadId)).toHaveLength(1);
    await t.client.runs.cancel(threadId, run.run_id);
    expect(await pending(t, threadId)).toEqual([]);
    expect(await threadStatus(t, threadId)).toBe("busy");
    await t.client.runs.cancel(threadId, later.run_id);
    expect(await threadStatus(t, threadId)).toBe("idle");
  });
});

test("a thread that was cancelled in the middle of a run takes the next message as a message", async () => {
  const doors: (() => void)[] = [];
  const graph = stepsGraph(2, (node) => (node === "s1" ? new Promise<void>((resolve) => doors.push(resolve)) : null));
  await withEngine({ graphs: { graph } }, async (t) => {
    const { thread_id: threadId } = await t.client.threads.create();
    const run = await t.client.runs.create(threadId, "graph", { input: { log: ["first"] } });
    await until("the first run's node", () => doors.length === 1);
    await t.client.runs.cancel(threadId, run.run_id, true);
    doors[0]?.();
    expect((await resume(t, threadId, "second")).status).toBe(409);
    const next = t.client.runs.wait(threadId, "graph", { input: { log: ["second"] } });
    await until("the second run's node", () => doors.length === 2);
    doors[1]?.();
    expect(await next).toMatchObject({ log: expect.arrayContaining(["second", "s1", "s2"]) });
  });
});

test("a stateless run that asks ends with its question, which nobody can answer and so nobody is asked", async () => {
  await withEngine({ graphs: { graph: gateGraph([]) } }, async (t) => {
    const result = await t.client.runs.wait(null, "graph", { input: { log: [] } });
    expect(result).toMatchObject({ __interrupt__: [{ value: { question: "q1" } }] });
    expect(await (await t.app.request("/v1/approvals")).json()).toEqual([]);
  });
});
