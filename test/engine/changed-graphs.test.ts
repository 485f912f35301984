// A deploy while threads wait: what can't go on is refused loudly, keeps its question, and goes on with the right code.
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { approve } from "../../src/engine/approve.js";
import { checkParked } from "../../src/engine/check-parked.js";
import { DEFAULT_TENANT } from "../../src/core/ids.js";
import { withDeploy } from "../helpers/deploy.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { until } from "../helpers/wait.js";

const append = { reducer: (a: string[], b: string[]) => [...a, ...b], default: () => [] as string[] };
const Old = Annotation.Root({ log: Annotation<string[]>(append), note: Annotation<string> });
const New = Annotation.Root({ log: Annotation<string[]>(append) });

/** Asks in a node of this name. */
function asking(name: string) {
  const graph = new StateGraph(Old).addNode("begin", () => ({ log: ["begin"], note: "kept" }));
  const loose = graph as unknown as {
    addNode(name: string, run: () => object): unknown;
    addEdge(from: string, to: string): unknown;
    compile(): unknown;
  };
  loose.addNode(name, () => ({ log: [`${name}: ${String(interrupt("go on?"))}`] }));
  loose.addEdge(START, "begin");
  loose.addEdge("begin", name);
  loose.addEdge(name, END);
  return loose.compile();
}

const withoutNote = new StateGraph(New)
  .addNode("begin", () => ({ log: ["begin"] }))
  .addNode("gate", () => ({ log: [`gate: ${String(interrupt("go on?"))}`] }))
  .addEdge(START, "begin")
  .addEdge("begin", "gate")
  .addEdge("gate", END)
  .compile();

const post = (body: unknown) => ({
  method: "POST",
  headers: { "content-type": "application/json", accept: "application/json" },
  body: JSON.stringify(body),
});

async function parked(t: TestEngine): Promise<string> {
  const worker = t.startWorker();
  const { thread_id } = await t.client.threads.create();
  await t.client.runs.wait(thread_id, "graph", { input: { log: [] } });
  await worker.stop();
  return thread_id;
}

test("an answer to a node that is gone gets 409, leaves no run, and keeps the question", async () => {
  await withEngine({ graphs: { graph: asking("gate") }, workers: 0 }, async (t) => {
    const threadId = await parked(t);
    await withDeploy(t, asking("approval"), async ({ app }) => {
      const refused = await app.request(
        `/threads/${threadId}/runs`,
        post({ assistant_id: "graph", command: { resume: "yes" } }),
      );
      expect(refused.status).toBe(409);
      expect(await refused.json()).toMatchObject({
        code: "graph_changed",
        details: { nodes: ["gate"], version: "v2" },
      });
      const [open] = (await (await app.request("/v1/approvals")).json()) as { approval_id: string }[];
      const decided = await app.request(`/v1/approvals/${open?.approval_id}/decide`, post({ value: "yes" }));
      expect(decided.status).toBe(409);
    });
    const { rows } = await t.db.db.query("select 1 from runs where thread_id = $1", [threadId]);
    expect(rows).toHaveLength(1);
    t.startWorker();
    await t.client.runs.wait(threadId, "graph", { command: { resume: "yes" } });
    expect(((await t.client.threads.getState(threadId)).values as { log: string[] }).log).toEqual([
      "begin",
      "gate: yes",
    ]);
  });
});

test("a worker whose code lacks the node fails the run loudly and opens the question again; the right code takes the answer", async () => {
  await withEngine({ graphs: { graph: asking("gate") }, workers: 0 }, async (t) => {
    const threadId = await parked(t);
    // Accepted by an API of the old code, executed by a worker of the new.
    const run = await t.client.runs.create(threadId, "graph", { command: { resume: "yes" } });
    await withDeploy(t, asking("approval"), async ({ startWorker }) => {
      const stop = startWorker();
      await until("the run to fail", async () => (await t.client.runs.get(threadId, run.run_id)).status === "error");
      await stop();
    });
    await expect(t.client.runs.join(threadId, run.run_id)).resolves.toMatchObject({
      __error__: { error: "graph_changed" },
    });
    expect((await t.client.threads.get(threadId)).status).toBe("interrupted");
    const { rows } = await t.db.db.query("select status, decided_by from approvals where thread_id = $1", [threadId]);
    expect(rows).toEqual([{ status: "pending", decided_by: null }]);
    t.startWorker();
    await t.client.runs.wait(threadId, "graph", { command: { resume: "yes" } });
    expect(((await t.client.threads.getState(threadId)).values as { log: string[] }).log).toEqual([
      "begin",
      "gate: yes",
    ]);
  });
});

test("a deadline that met code without its node: the question opens again with its time anew, and ends as was said", async () => {
  const gate = (name: string) => {
    const ask = () => ({ log: [`gate: ${approve({ question: "Pay?", deadline: "1h" }).approved}`] });
    return new StateGraph(New).addNode(name, ask).addEdge(START, name).addEdge(name, END).compile();
  };
  const overdue = "update timers set due_at = now() where kind = 'approval.deadline' and status = 'due'";
  await withEngine({ graphs: { graph: gate("gate") }, workers: 0 }, async (t) => {
    const threadId = await parked(t);
    await t.db.db.query("update approvals set deadline_at = now()");
    await t.db.db.query(overdue);
    expect(await t.fireTimers()).toBe(1);
    await withDeploy(t, gate("approval"), async ({ startWorker }) => {
      const stop = startWorker();
      const failed = async () => (await t.db.db.query("select 1 from runs where status = 'error'")).rows.length === 1;
      await until("the run to fail", failed);
      await stop();
    });
    const { rows } = await t.db.db.query(
      `select a.status, deadline_at > now() + interval '59 minutes' as later, t.status as timer
      from approvals a join timers t on t.ref_id = approval_id and t.kind = 'approval.deadline' and t.status = 'due'`,
    );
    expect(rows).toEqual([{ status: "pending", later: true, timer: "due" }]);
    // Nobody answers this time either.
    await t.db.db.query(overdue);
    expect(await t.fireTimers()).toBe(1);
    t.startWorker();
    await until("the rejection to be taken", async () => (await t.client.threads.get(threadId)).status === "idle");
    expect(((await t.client.threads.getState(threadId)).values as { log: string[] }).log).toEqual(["gate: false"]);
  });
});

test("a check names threads whose node, state key or graph is gone, and says which of them stop", async () => {
  await withEngine({ graphs: { graph: asking("gate") }, workers: 0 }, async (t) => {
    const threadId = await parked(t);
    expect(await checkParked(t.engine, DEFAULT_TENANT)).toEqual({ threads: 1, problems: [], elsewhere: [] });
    const found = async (graph: unknown) => {
      let report: Awaited<ReturnType<typeof checkParked>> | undefined;
      await withDeploy(t, graph, async ({ engine }) => void (report = await checkParked(engine, DEFAULT_TENANT)));
      return report?.problems;
    };
    expect(await found(asking("approval"))).toMatchObject([
      {
        threadId,
        graphId: "graph",
        parkedBy: "in-process",
        version: "v2",
        stops: true,
        why: 'node "gate", where it goes on, is gone',
      },
    ]);
    expect(await found(withoutNote)).toMatchObject([
      { threadId, stops: false, why: 'state key "note" is gone, and what it holds is left out' },
    ]);
    await t.db.db.query('update threads set metadata = metadata || \'{"graph_id": "other"}\' where thread_id = $1', [
      threadId,
    ]);
    expect(await found(asking("gate"))).toMatchObject([{ stops: true, why: 'graph "other" is gone' }]);
  });
});
