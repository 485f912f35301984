// Leases: who keeps one although its process is slow, who loses one, and what a worker that stops hands over.
import { Annotation, END, interrupt, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import type { Clock } from "../../src/core/clock.js";
import { startHeartbeat } from "../../src/engine/heartbeat/heartbeat.js";
import { createWorker } from "../../src/engine/loops/worker.js";
import { noteEntered } from "../../src/runs/failures.js";
import { claimRuns } from "../../src/runs/claim.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";
import { until } from "../helpers/wait.js";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

type Row = Readonly<{
  run_id: string;
  status: string;
  attempt: number;
  crashes: number;
  head: boolean;
  error_code: string | null;
  lease_expires_at: Date | null;
}>;

async function runs({ db }: TestEngine): Promise<Row[]> {
  const { rows } = await db.db.query<Row>(
    "select run_id, status, attempt, crashes, head, error_code, lease_expires_at from runs order by seq",
  );
  return rows;
}

async function start({ client }: TestEngine, graph = "graph") {
  const { thread_id } = await client.threads.create();
  const { run_id } = await client.runs.create(thread_id, graph, { input: { log: [] } });
  return { thread_id, run_id };
}

/** Claims everything for a worker that is dead already: it died before it came to the graphs, or in them. */
async function claimAndDie({ db }: TestEngine, { entered } = { entered: false }): Promise<number> {
  const claimed = await claimRuns(db.db, {
    slots: 100,
    owner: "dead",
    leaseMs: 1,
    graphIds: ["graph"],
    versions: ["1"],
  });
  for (const run of entered ? claimed : []) await noteEntered(db.db, { ...run, owner: "dead" });
  await until("the leases to end", async () => {
    const { rows } = await db.db.query("select 1 from runs where lease_expires_at > clock_timestamp()");
    return rows.length === 0;
  });
  return claimed.length;
}

test("a node that blocks the event loop for twice its lease is not entered again", async () => {
  let entered = 0;
  const graph = stepsGraph(2, (node) => {
    if (node !== "s1") return;
    entered += 1;
    for (const endMs = performance.now() + 4_000; performance.now() < endMs; );
  });
  await withEngine({ graphs: { graph }, leaseMs: 2_000 }, async (t) => {
    const { thread_id, run_id } = await start(t);
    await t.client.runs.join(thread_id, run_id);
    expect(await t.sweep()).toBe(0);
    expect(await runs(t)).toMatchObject([{ status: "success", attempt: 1 }]);
    expect(entered).toBe(1);
  });
});

test("a run whose row somebody frozen has locked costs no other run its lease", async () => {
  const leaseMs = 4_000;
  const doors: (() => void)[] = [];
  let held = true;
  const graph = stepsGraph(1, () => (held ? new Promise<void>((resolve) => doors.push(resolve)) : null));
  await withEngine({ graphs: { graph }, leaseMs }, async (t) => {
    const [locked, other] = [await start(t), await start(t)];
    await until("both nodes", () => doors.length === 2);
    await t.db.db.tx(async (sql) => {
      await sql.query("select 1 from runs where run_id = $1 for no key update", [locked.run_id]);
      const { rows } = await sql.query("select clock_timestamp() + $1::float8 * interval '1 ms' as late", [
        2 * leaseMs,
      ]);
      const { late } = rows[0] as { late: Date };
      await until("the other lease to be renewed again and again", async () => {
        const found = (await runs(t)).find(({ run_id }) => run_id === other.run_id);
        return (found?.lease_expires_at ?? 0) > late;
      });
    });
    held = false;
    for (const open of doors) open();
    await t.client.runs.join(other.thread_id, other.run_id);
    expect((await runs(t)).find(({ run_id }) => run_id === other.run_id)).toMatchObject({ attempt: 1, crashes: 0 });
  });
});

test("50 expired leases, four sweepers at once: each run is given back once and succeeds with the next attempt", async () => {
  let entered = 0;
  const graph = stepsGraph(1, () => (entered += 1));
  await withEngine({ graphs: { graph }, workers: 0 }, async (t) => {
    await Promise.all(Array.from({ length: 50 }, () => start(t)));
    expect(await claimAndDie(t)).toBe(50);
    const swept = await Promise.all([t.sweep(), t.sweep(), t.sweep(), t.sweep()]);
    expect(swept.reduce((sum, n) => sum + n)).toBe(50);
    for (let n = 0; n < 4; n += 1) t.startWorker();
    await until("all to succeed", async () => (await runs(t)).every(({ status }) => status === "success"));
    expect(new Set((await runs(t)).map(({ attempt, crashes }) => `${attempt} ${crashes}`))).toEqual(new Set(["2 1"]));
    expect(entered).toBe(50);
  });
});

test("a lost run that can't be swept stops no other", async () => {
  await withEngine({ graphs: { graph: stepsGraph(1, () => {}) }, workers: 0 }, async (t) => {
    const started = await Promise.all(Array.from({ length: 3 }, () => start(t)));
    await claimAndDie(t);
    const [stuck] = started.map(({ run_id }) => run_id).sort();
    await t.db.db.query(
      `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`,
    );
    await t.db.db.query(
      `create trigger refuse before update on runs for each row when (old.run_id = '${stuck}') execute function refuse()`,
    );
    expect(await t.sweep()).toBe(2);
    const left = (await runs(t)).filter(({ status }) => status === "running");
    expect(left.map(({ run_id }) => run_id)).toEqual([stuck]);
  });
});

test("a run that was claimed by one dying worker after the other, and never begun, is not given up", async () => {
  let entered = 0;
  await withEngine({ graphs: { graph: stepsGraph(1, () => (entered += 1)) }, workers: 0 }, async (t) => {
    const { thread_id, run_id } = await start(t);
    for (let crash = 1; crash <= 5; crash += 1) {
      expect(await claimAndDie(t)).toBe(1);
      expect(await t.sweep()).toBe(1);
    }
    expect(await runs(t)).toMatchObject([{ status: "pending", attempt: 5, crashes: 1 }]);
    t.startWorker();
    await t.client.runs.join(thread_id, run_id);
    expect(await runs(t)).toMatchObject([{ status: "success", attempt: 6 }]);
    expect(entered).toBe(1);
  });
});

test("a run that is given up is an error everywhere: for who joins it, who streams it, and on its thread", async () => {
  await withEngine({ graphs: { graph: stepsGraph(1, () => {}) }, workers: 0 }, async (t) => {
    const { thread_id, run_id } = await start(t);
    for (let crash = 1; crash <= 3; crash += 1) {
      expect(await claimAndDie(t, { entered: true })).toBe(1);
      expect(await t.sweep()).toBe(1);
    }
    expect(await runs(t)).toMatchObject([{ status: "error", attempt: 3, error_code: "worker_lost", head: false }]);
    expect((await t.client.threads.get(thread_id)).status).toBe("error");
    expect(await t.client.runs.join(thread_id, run_id)).toMatchObject({ __error__: { error: "WorkerLostError" } });
    const events = [];
    for await (const event of t.client.runs.joinStream(thread_id, run_id, { lastEventId: "-1" })) events.push(event);
    expect(events).toMatchObject([{ event: "error", data: { error: "WorkerLostError" } }]);
    t.startWorker();
    expect(await t.client.runs.wait(thread_id, "graph", { input: { log: ["again"] } })).toEqual({
      log: ["again", "s1"],
    });
  });
});

test("a worker claims nothing before it can keep leases", async () => {
  await withEngine({ graphs: { graph: stepsGraph(1, () => {}) }, workers: 0 }, async (t) => {
    const { run_id } = await start(t);
    const executed: string[] = [];
    let beReady = (): void => {};
    const worker = createWorker(t.deps, {
      ...{ owner: "test", graphIds: ["graph"], versions: ["1"], concurrency: 1, leaseMs: 60_000, pollMs: 600_000 },
      ready: new Promise((resolve) => (beReady = resolve)),
      execute: async (run) => void executed.push(run.runId),
    });
    worker.start();
    expect(await worker.tick()).toBe(0);
    expect(await runs(t)).toMatchObject([{ status: "pending" }]);
    beReady();
    await until("the claim", () => executed.length > 0);
    expect(executed).toEqual([run_id]);
    await worker.stop(0);
  });
});

test("no run can be running without a lease, whoever writes the row", async () => {
  await withEngine({ graphs: { graph: stepsGraph(1, () => {}) }, workers: 0 }, async (t) => {
    const { run_id } = await start(t);
    for (const change of ["status = 'running'", "status = 'running', lease_owner = 'me'", "lease_owner = 'me'"]) {
      await expect(t.db.db.query(`update runs set ${change} where run_id = $1`, [run_id])).rejects.toMatchObject({
        code: "23514",
      });
    }
  });
});

test("a lease that couldn't be renewed in time and was let go of is not renewed again by the thread", async () => {
  const leaseMs = 1_000;
  await withEngine({ graphs: { graph: stepsGraph(1, () => {}) }, workers: 0 }, async (t) => {
    await start(t);
    const owner = "test";
    const [run] = await claimRuns(t.db.db, { slots: 1, owner, leaseMs: 10_000, graphIds: ["graph"], versions: ["1"] });
    const lease = { ...run!, owner };
    // Once it stalls, every look at the clock is ten leases after the one before.
    const stall = { stepMs: 0, ms: 0 };
    const clock = { ...t.deps.clock, monotonicMs: () => performance.now() + (stall.ms += stall.stepMs) };
    const options = { databaseUrl: t.db.url, owner, leaseMs, maxBlockMs: 60_000, logLevel: "silent" };
    const heartbeat = startHeartbeat(clock, t.deps.log, options);
    await heartbeat.ready;
    const over = new Promise<string>((resolve) => heartbeat.hold(lease, resolve));
    const first = (await runs(t))[0]?.lease_expires_at;
    await until("a renewal", async () => (await runs(t))[0]?.lease_expires_at?.getTime() !== first?.getTime());
    stall.stepMs = 10 * leaseMs;
    expect(await over).toBe("unreachable");
    heartbeat.release(lease);
    await until("the lease to end", async () => (await t.sweep()) === 1);
    await heartbeat.stop();
  });
});

/** The grace that a worker gives its runs when it stops is over at once. */
function hurry({ deps }: TestEngine): void {
  const { sleep } = deps.clock;
  Object.assign(deps, {
    clock: { ...deps.clock, sleep: (ms, signal) => sleep(Math.min(ms, 300), signal) } satisfies Clock,
  });
}

/** Asks, works for as long as it is told, asks again. The work notices when it is cut off. */
function askWorkAsk(works: { slow: boolean; started: number }) {
  return new StateGraph(Log)
    .addNode("node", async (_state, config: LangGraphRunnableConfig) => {
      const first = String(interrupt("first?"));
      works.started += 1;
      if (works.slow) {
        await new Promise((_, reject) => config.signal?.addEventListener("abort", () => reject(new Error("cut off"))));
      }
      return { log: [`${first}, ${String(interrupt("second?"))}`] };
    })
    .addEdge(START, "node")
    .addEdge("node", END)
    .compile();
}

test("a worker that stops hands over within seconds what hears no signal: no crash, no failure is counted", async () => {
  let entered = 0;
  const graph = new StateGraph(Log)
    .addNode("deaf", () => ((entered += 1) === 1 ? new Promise<never>(() => {}) : { log: ["done"] }))
    .addEdge(START, "deaf")
    .addEdge("deaf", END)
    .compile();
  await withEngine({ graphs: { graph }, workers: 0 }, async (t) => {
    const worker = t.startWorker();
    const { thread_id, run_id } = await start(t);
    await until("the node", () => entered === 1);
    hurry(t);
    await worker.stop();
    const { rows } = await t.db.db.query("select status, attempt, crashes, failures from runs");
    expect(rows).toEqual([{ status: "pending", attempt: 1, crashes: 0, failures: 0 }]);
    t.startWorker();
    expect(await t.client.runs.join(thread_id, run_id)).toEqual({ log: ["done"] });
  });
});

test("a worker that stops gives back what it is in the middle of: no crash is counted, no answer is taken twice", async () => {
  const works = { slow: true, started: 0 };
  await withEngine({ graphs: { graph: askWorkAsk(works) }, workers: 0 }, async (t) => {
    const worker = t.startWorker();
    const { thread_id, run_id } = await start(t);
    await t.client.runs.join(thread_id, run_id);
    const resumed = await t.client.runs.create(thread_id, "graph", { command: { resume: "yes" } });
    await until("the work", () => works.started === 1);
    hurry(t);
    await worker.stop();
    expect((await runs(t))[1]).toMatchObject({ status: "pending", attempt: 1, crashes: 0, head: true });

    works.slow = false;
    t.startWorker();
    await t.client.runs.join(thread_id, resumed.run_id);
    expect((await runs(t))[1]).toMatchObject({ status: "interrupted", attempt: 2, crashes: 0 });
    expect(works.started).toBe(2);
    const state = await t.client.threads.getState<{ log: string[] }>(thread_id);
    expect(state.tasks[0]?.interrupts).toMatchObject([{ value: "second?" }]);
    expect(state.values.log).toEqual([]);
  });
});
