// Two versions of the code side by side: pinned assistants' runs are executed by theirs, whoever takes the answers.
import { randomUUID } from "node:crypto";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { systemAssistantId } from "../../src/assistants/queries.js";
import { checkParked } from "../../src/engine/check-parked.js";
import { pinAssistant } from "../../src/engine/commands/pin-assistant.js";
import { claimRuns } from "../../src/runs/claim.js";
import { waitingPins } from "../../src/runs/pins.js";
import { lockThread } from "../../src/runs/thread-lock.js";
import { type Deployed, withDeploy } from "../helpers/deploy.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { until } from "../helpers/wait.js";

/** Of what `withEngine` has; what `withDeploy` has is v2. */
const OLD = "in-process";
const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

/** Asks in a node of this name, and says who took the answer. */
function asking(node: string, version: string) {
  return new StateGraph(State)
    .addNode(node, () => ({ log: [`${version}: ${String(interrupt("go on?"))}`] }))
    .addEdge(START, node as never)
    .addEdge(node as never, END)
    .compile();
}
const old = asking("gate", "old");
/** It can't take answers to the old one's questions. */
const changed = asking("approval", "new");
const compatible = asking("gate", "new");

const pinTo = (t: TestEngine, pin: string) =>
  pinAssistant(t.deps, { tenantId: DEFAULT_TENANT, idOrGraphId: "graph", pin });
const ask = (t: TestEngine, threadId: string) => t.client.runs.create(threadId, "graph", { input: { log: [] } });

async function send({ app }: Pick<Deployed, "app">, path: string, body: object): Promise<{ run_id: string }> {
  const headers = { "content-type": "application/json" };
  const answer = await app.request(path, { method: "POST", headers, body: JSON.stringify(body) });
  expect(answer.status).toBe(200);
  return (await answer.json()) as { run_id: string };
}
const answer = (deployed: Deployed, threadId: string) =>
  send(deployed, `/threads/${threadId}/runs`, { assistant_id: "graph", command: { resume: "yes" } });

/** A thread whose question was asked by the old code. */
async function parked(t: TestEngine): Promise<string> {
  const worker = t.startWorker();
  const { thread_id } = await t.client.threads.create();
  await ask(t, thread_id);
  await until("the question", async () => (await statusOf(t, thread_id)) === "interrupted");
  await worker.stop();
  return thread_id;
}

const statusOf = async (t: TestEngine, threadId: string) => (await t.client.threads.get(threadId)).status;
const logOf = async (t: TestEngine, threadId: string) =>
  ((await t.client.threads.getState(threadId)).values as { log: string[] }).log;
const runsOf = async (t: TestEngine, threadId: string) =>
  (
    await t.db.db.query<object>(
      `select status, attempt, pin, agent_version, lease_owner from runs where thread_id = $1 order by seq`,
      [threadId],
    )
  ).rows;
/** What a worker of this version would be given. */
const claimAs = (t: TestEngine, version: string, owner = "test") =>
  claimRuns(t.db.db, { slots: 10, owner, leaseMs: 60_000, graphIds: ["graph"], versions: [version] });

test("an assistant pinned to the old version: answered through the new API, its run goes on on the old worker, beside a new one", async () => {
  await withEngine({ graphs: { graph: old }, workers: 0 }, async (t) => {
    const threadId = await parked(t);
    await pinTo(t, OLD);
    await withDeploy(t, changed, async (deployed) => {
      deployed.startWorker();
      const { run_id } = await answer(deployed, threadId);
      // The new worker has free slots, and asks for runs when one comes and five times a second.
      expect(await claimAs(t, "v2")).toEqual([]);
      expect((await runsOf(t, threadId))[1]).toEqual({
        ...{ status: "pending", attempt: 0, pin: OLD, agent_version: null, lease_owner: null },
      });
      t.startWorker();
      await until("the old worker to take it", async () => (await statusOf(t, threadId)) === "idle");
      expect(await logOf(t, threadId)).toEqual(["old: yes"]);
      const record = await t.app.request(`/threads/${threadId}/runs/${run_id}/record`);
      expect(await record.json()).toMatchObject({ agent_version: OLD, pinned_to: OLD });
    });
  });
});

test("with the old worker gone an answer and a new message wait, holding nothing, and go on when the assistant is not pinned any more", async () => {
  await withEngine({ graphs: { graph: old }, workers: 0 }, async (t) => {
    const threadId = await parked(t);
    await pinTo(t, OLD);
    await withDeploy(t, compatible, async (deployed) => {
      deployed.startWorker();
      await answer(deployed, threadId);
      const other = await t.client.threads.create();
      await send(deployed, `/threads/${other.thread_id}/runs`, { assistant_id: "graph", input: { log: [] } });
      expect(await waitingPins(t.db.db, DEFAULT_TENANT)).toMatchObject([{ graphId: "graph", pin: OLD, runs: 2 }]);
      const held = await t.db.db.query("select 1 from runs where lease_owner is not null or attempt > 1");
      expect(held.rows).toEqual([]);
      await pinTo(t, "latest");
      await until("the new worker to take both", async () => {
        return (await statusOf(t, threadId)) === "idle" && (await statusOf(t, other.thread_id)) === "interrupted";
      });
      expect(await logOf(t, threadId)).toEqual(["new: yes"]);
      expect(await waitingPins(t.db.db, DEFAULT_TENANT)).toEqual([]);
    });
  });
});

test("pinned to own, each run stays with the version it began with: the answer with the asking run's, also when its worker dies; what is new begins with any", async () => {
  await withEngine({ graphs: { graph: old }, workers: 0 }, async (t) => {
    const threadId = await parked(t);
    await pinTo(t, "own");
    await withDeploy(t, changed, async (deployed) => {
      await answer(deployed, threadId);
      const stop = deployed.startWorker();
      const other = await t.client.threads.create();
      await ask(t, other.thread_id);
      await until("the new worker to take it", async () => (await statusOf(t, other.thread_id)) === "interrupted");
      await answer(deployed, other.thread_id);
      await until("its answer as well", async () => (await statusOf(t, other.thread_id)) === "idle");
      expect(await logOf(t, other.thread_id)).toEqual(["new: yes"]);
      await stop();
      expect(await claimAs(t, "v2")).toEqual([]);
      const [lost] = await claimAs(t, OLD, "dead");
      expect(lost).toMatchObject({ threadId, attempt: 1 });
      await t.db.db.query("update runs set lease_expires_at = now() where lease_owner = 'dead'");
      expect(await t.sweep()).toBe(1);
      expect(await claimAs(t, "v2")).toEqual([]);
      t.startWorker();
      await until("the old worker to take it", async () => (await statusOf(t, threadId)) === "idle");
      expect(await logOf(t, threadId)).toEqual(["old: yes"]);
    });
  });
});

test("a run that began anywhere stays there once its assistant is pinned to own, and goes where it is pinned then", async () => {
  await withEngine({ graphs: { graph: old }, workers: 0 }, async (t) => {
    const threads = [await t.client.threads.create(), await t.client.threads.create()];
    for (const { thread_id } of threads) await ask(t, thread_id);
    const [began] = await claimRuns(t.db.db, {
      ...{ slots: 1, owner: "dead", leaseMs: 60_000, graphIds: ["graph"], versions: ["v1"] },
    });
    await pinTo(t, "own");
    await t.db.db.query("update runs set lease_expires_at = now() where lease_owner = 'dead'");
    await t.sweep();
    expect((await claimAs(t, "v2", "other")).map((run) => run.runId)).not.toContain(began?.runId);
    expect(await claimAs(t, "v3")).toEqual([]);
    await pinTo(t, "v3");
    expect(await claimAs(t, "v3")).toMatchObject([{ runId: began?.runId, attempt: 2 }]);
    // Also what is executed just now, for when its worker dies.
    const { rows } = await t.db.db.query("select distinct pin, stays from runs");
    expect(rows).toEqual([{ pin: "v3", stays: false }]);
  });
});

test("a run that is accepted where a slot is free is not claimed in the same round trip when it is pinned elsewhere", async () => {
  await withEngine({ graphs: { graph: old }, workers: 0, policies: { graph: { mode: "edge" } } }, async (t) => {
    await pinTo(t, "v7");
    t.startWorker({ withApi: true });
    const { run_id, thread_id } = await t.client.runs.create(null, "graph", { input: { log: [] } });
    expect(await runsOf(t, thread_id)).toMatchObject([{ status: "pending", attempt: 0, pin: "v7" }]);
    expect(await claimAs(t, "v7")).toMatchObject([{ runId: run_id }]);
  });
});

test("a run that is being made while its assistant is pinned is pinned too", async () => {
  await withEngine({ graphs: { graph: old }, workers: 0 }, async (t) => {
    const { thread_id } = await t.client.threads.create();
    let pinned = false;
    let pinning: Promise<unknown> | undefined;
    await t.db.db.tx(async (sql) => {
      await sql.query(
        `insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, head, pin, stays)
        select 'default', $1, $2, $3, 'graph', true, pin, stays from run_pin('default', $3, $2, false)`,
        [randomUUID(), thread_id, systemAssistantId("graph")],
      );
      pinning = pinTo(t, "v7").then(() => (pinned = true));
      await until("it to wait for us", async () => {
        const waiting = "select 1 from pg_locks where locktype = 'advisory' and not granted";
        return (await t.db.db.query(waiting)).rows.length === 1;
      });
      expect(pinned).toBe(false);
    });
    await pinning;
    expect(await runsOf(t, thread_id)).toMatchObject([{ pin: "v7" }]);
  });
});

test("a pin that can't be set in time changes nothing, and says to try again", async () => {
  await withEngine({ graphs: { graph: old }, workers: 0 }, async (t) => {
    await t.db.db.tx(async (sql) => {
      await sql.query("select run_pin('default', $1, $1, false)", [systemAssistantId("graph")]);
      await expect(pinTo(t, "v7")).rejects.toMatchObject({ code: "unavailable" });
    });
    const { rows } = await t.db.db.query("select pin from assistants");
    expect(rows).toEqual([{ pin: "latest" }]);
  });
});

test("runs whose thread is held while their assistant is pinned follow by a timer, whatever became of who pinned it", async () => {
  await withEngine({ graphs: { graph: old }, workers: 0 }, async (t) => {
    const threads = [await t.client.threads.create(), await t.client.threads.create()];
    for (const { thread_id } of threads) await ask(t, thread_id);
    const held = threads[0]?.thread_id as ThreadId;
    const pins = async () => (await t.db.db.query<{ pin: string }>("select pin from runs order by pin")).rows;
    await t.db.db.tx(async (sql) => {
      await lockThread(sql, { tenantId: DEFAULT_TENANT, threadId: held });
      await pinTo(t, "v7");
      expect(await pins()).toEqual([{ pin: "" }, { pin: "v7" }]);
      expect(await t.fireTimers()).toBe(0);
    });
    await t.db.db.query("update timers set due_at = now() where status = 'due'");
    expect(await t.fireTimers()).toBe(1);
    expect(await pins()).toEqual([{ pin: "v7" }, { pin: "v7" }]);
    expect((await t.db.db.query("select 1 from timers where status = 'due'")).rows).toEqual([]);
  });
});

test("a breakpoint at a node that only the pinned version may have is neither refused nor said to be ignored by an API of another one", async () => {
  await withEngine({ graphs: { graph: old }, workers: 0 }, async (t) => {
    await withDeploy(t, changed, async ({ app }) => {
      const send = (node: string) =>
        app.request("/runs", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ assistant_id: "graph", input: { log: [] }, interrupt_before: [node] }),
        });
      const ignored = async (node: string) => {
        const { status, headers } = await send(node);
        return [status, headers.get("x-perdure-ignored-fields")];
      };
      expect((await send("aproval")).status).toBe(422);
      expect(await ignored("gate")).toEqual([200, "interrupt_before%5B0%5D"]);
      await pinTo(t, OLD);
      expect(await ignored("gate")).toEqual([200, null]);
      expect(await ignored("aproval")).toEqual([200, null]);
    });
  });
});

test("a check says which threads stay with other code and which runs wait for it, and doesn't judge them by this", async () => {
  await withEngine({ graphs: { graph: old }, workers: 0 }, async (t) => {
    await parked(t);
    for (const pin of [OLD, "own"]) {
      await pinTo(t, pin);
      await withDeploy(t, changed, async ({ engine }) => {
        expect(await checkParked(engine, DEFAULT_TENANT)).toEqual({
          ...{ threads: 1, problems: [], elsewhere: [{ graphId: "graph", pin: OLD, threads: 1 }] },
        });
      });
    }
    expect((await checkParked(t.engine, DEFAULT_TENANT)).elsewhere).toEqual([]);
    await pinTo(t, "v2");
    await withDeploy(t, changed, async ({ engine }) => {
      expect((await checkParked(engine, DEFAULT_TENANT)).problems).toMatchObject([{ stops: true }]);
    });
  });
});

test("a claim doesn't look at runs that are pinned to another version, however many there are", async () => {
  await withEngine({ graphs: { graph: old }, workers: 0 }, async (t) => {
    const { db } = t.db;
    const add = (n: number, pin: string) =>
      db.query(
        `with made as (
          insert into threads (tenant_id, thread_id, status)
          select 'default', gen_random_uuid(), 'busy' from generate_series(1, $1::int)
          returning thread_id
        )
        insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, head, pin)
        select 'default', gen_random_uuid(), thread_id, gen_random_uuid(), 'graph', true, $2 from made`,
        [n, pin],
      );
    await add(5_000, "v1");
    await add(2, "");
    await add(2, "v2");
    await db.query("analyze runs");
    await db.tx(async (sql) => {
      // So few runs are read as fast one after the other; what counts is what the index would lead to.
      await sql.query("set local enable_seqscan = off");
      const claim = { slots: 3, owner: "w", leaseMs: 60_000, graphIds: ["graph"], versions: ["v2"] };
      expect(await claimRuns(sql, claim)).toHaveLength(3);
      const { rows } = await sql.query<{ looked: number }>(
        `select (seq_tup_read + idx_tup_fetch)::int as looked from pg_stat_xact_user_tables where relname = 'runs'`,
      );
      expect(rows[0]?.looked).toBeLessThan(100);
    });
  });
});
