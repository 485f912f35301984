// Where the worker of the same process has free slots, the statement that accepts runs claims them: one round trip less.
import { expect, test } from "vitest";
import type { Running } from "../../src/compose-loops.js";
import { type TestEngine, withEngine } from "../helpers/engine.js";
import { stepsGraph } from "../helpers/scripted-graphs.js";
import { until } from "../helpers/wait.js";

const NEVER_MS = 600_000;
const DONE = { log: ["go", "s1", "s2"] };
const graph = stepsGraph(2, () => {});

/** A graph whose runs stay in their only node until they are let go; how many were in it at once. */
function heldGraph() {
  let inside = 0;
  const seen = { most: 0, entered: 0 };
  const waiting: (() => void)[] = [];
  const enter = async (): Promise<void> => {
    inside += 1;
    seen.entered += 1;
    seen.most = Math.max(seen.most, inside);
    await new Promise<void>((resolve) => waiting.push(resolve));
    inside -= 1;
  };
  return { held: stepsGraph(1, enter), seen, letOneGo: () => waiting.shift()?.() };
}

type Query = TestEngine["deps"]["db"]["query"];

/** Puts `change` between everybody and the database. */
function intercept({ deps }: TestEngine, change: (text: string, send: () => ReturnType<Query>) => ReturnType<Query>) {
  const db = deps.db as { query: Query };
  const { query } = db;
  db.query = ((text, values, options) => change(text, () => query(text, values, options))) as Query;
}

const wait = ({ client }: TestEngine, of = "graph") => client.runs.wait(null, of, { input: { log: ["go"] } });
const eventsOf = async ({ db }: TestEngine) =>
  (await db.db.query<{ type: string }>("select type from events order by seq")).rows.map(({ type }) => type);
const statusOf = async ({ db }: TestEngine, runId: string) =>
  (await db.db.query<{ status: string }>("select status from runs where run_id = $1", [runId])).rows[0]?.status;
const isClaim = (text: string): boolean => text.includes("select * from claim_runs");
const isAccept = (text: string): boolean => text.includes("insert into runs");

/** A worker whose looks of its start, which find nothing, are over: one when it begins, one when its process begins to listen. */
async function started(t: TestEngine, concurrency: number): Promise<{ texts: string[]; worker: Running }> {
  // Before the worker: later its look could come beside an accept and have all its slots, and the next look would claim the run.
  let listens = false;
  const off = t.deps.notifier.listen("runs", () => (listens = true));
  await until("the process to listen", () => listens);
  off();
  const texts: string[] = [];
  intercept(t, async (text, send) => {
    const answer = await send();
    texts.push(text);
    return answer;
  });
  const worker = t.startWorker({ withApi: true, concurrency });
  await until("its first look", () => texts.some(isClaim));
  texts.length = 0;
  return { texts, worker };
}

test("a run is accepted and claimed by one statement, and is logged as created before it is as claimed", async () => {
  await withEngine({ graphs: { graph }, workers: 0, pollMs: NEVER_MS }, async (t) => {
    const { texts } = await started(t, 2);
    for (let n = 0; n < 10; n += 1) expect(await wait(t)).toEqual(DONE);
    expect(texts.filter(isAccept)).toHaveLength(10);
    expect(texts.filter(isClaim)).toEqual([]);
    expect((await eventsOf(t)).slice(0, 3)).toEqual(["run.created", "run.claimed", "run.settled"]);
    expect((await t.db.db.query("select 1 from runs where attempt = 1 and status = 'success'")).rowCount).toBe(10);
  });
});

test("of 12 runs that come at once to 3 slots 3 are executed at a time, and the others begin as those end, without a poll", async () => {
  const { held, seen, letOneGo } = heldGraph();
  await withEngine({ graphs: { held }, workers: 0, pollMs: NEVER_MS }, async (t) => {
    await started(t, 3);
    const waits = Array.from({ length: 12 }, () => wait(t, "held"));
    for (let n = 0; n < 12; n += 1) {
      await until("the next to begin", () => seen.entered >= Math.min(12, n + 3));
      letOneGo();
    }
    await Promise.all(waits);
    expect(seen.most).toBe(3);
  });
});

test("a run that waited longer goes before the one that comes, and that one begins when there is a slot", async () => {
  const { held, seen, letOneGo } = heldGraph();
  await withEngine({ graphs: { held }, workers: 0, pollMs: NEVER_MS }, async (t) => {
    await started(t, 1);
    const first = wait(t, "held");
    await until("the first to begin", () => seen.entered === 1);
    // Of another process: nobody here is told.
    const input = { log: ["go"] };
    const { thread_id } = await t.client.threads.create();
    const { run_id } = await t.client.runs.create(thread_id, "held", { input, afterSeconds: 3600 });
    await t.db.db.query("update runs set available_at = null, head = true where run_id = $1", [run_id]);
    letOneGo();
    await first;
    const late = await t.client.runs.create(null, "held", { input });
    await until("the next to begin", () => seen.entered === 2);
    expect((await t.client.runs.get(thread_id, run_id)).status).toBe("running");
    letOneGo();
    await until("the last to begin", () => seen.entered === 3);
    letOneGo();
    await until("it to end", async () => (await statusOf(t, late.run_id)) === "success");
  });
});

test("a run whose claim was done and never answered is executed at once, and that counts as no crash", async () => {
  await withEngine({ graphs: { graph }, workers: 0, pollMs: NEVER_MS, leaseMs: NEVER_MS }, async (t) => {
    await started(t, 2);
    let lost = 0;
    intercept(t, async (text, send) => {
      const answer = await send();
      if (!isAccept(text) || lost > 0) return answer;
      lost += 1;
      throw Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
    });
    const { thread_id } = await t.client.threads.create();
    const refused = t.client.runs.create(thread_id, "graph", { input: { log: ["go"] } });
    await expect(refused).rejects.toMatchObject({ status: 503 });
    expect(lost).toBe(1);
    await until("the run to end", async () => (await t.client.threads.get(thread_id)).status === "idle");
    expect((await t.client.threads.getState(thread_id)).values).toEqual(DONE);
    const { rows } = await t.db.db.query("select status, attempt, crashes from runs");
    expect(rows).toEqual([{ status: "success", attempt: 2, crashes: 0 }]);
  });
});

test("a process that stops before it knows what it has claimed gives that back too", async () => {
  await withEngine({ graphs: { graph }, workers: 0, pollMs: NEVER_MS, leaseMs: NEVER_MS }, async (t) => {
    const { worker } = await started(t, 2);
    let stopping: Promise<void> | undefined;
    intercept(t, async (text, send) => {
      const answer = await send();
      if (!isAccept(text)) return answer;
      stopping ??= worker.stop();
      throw Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
    });
    await expect(t.client.runs.create(null, "graph", { input: { log: ["go"] } })).rejects.toMatchObject({
      status: 503,
    });
    await stopping;
    expect((await t.db.db.query("select status, crashes from runs")).rows).toEqual([{ status: "pending", crashes: 0 }]);
  });
});

test("a process that stops while it accepts gives the run to others", async () => {
  await withEngine({ graphs: { graph }, workers: 0, pollMs: NEVER_MS, leaseMs: NEVER_MS }, async (t) => {
    const { worker } = await started(t, 2);
    let stopping: Promise<void> | undefined;
    intercept(t, async (text, send) => {
      const answer = await send();
      if (isAccept(text)) stopping ??= worker.stop();
      return answer;
    });
    const { thread_id } = await t.client.threads.create();
    await t.client.runs.create(thread_id, "graph", { input: { log: ["go"] } });
    await stopping;
    expect((await t.db.db.query("select status from runs")).rows).toEqual([{ status: "pending" }]);
    t.startWorker();
    await until("the run to end", async () => (await t.client.threads.get(thread_id)).status === "idle");
  });
});
