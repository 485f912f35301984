// P4: a dead worker's run goes on elsewhere within lease + one poll; finished nodes and tool calls are not entered again.
import { expect, test } from "vitest";
import type { TestProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { type CrashSite, type Journal, POLL_MS, withCrashSite } from "./setup.js";

/** Short enough to wait for, long enough to be kept on a busy machine. */
const SHORT_LEASE_MS = 4_000;
/** For a busy machine: what is measured is whether anything but lease and poll is waited for. */
const SLACK_MS = 2_000;

const TOOLS = ["a", "b", "c"];

type Started = Readonly<{ threadId: string; runId: string; journal: Journal }>;

async function start(site: CrashSite, graph: string, stepMs: number, hold: readonly string[] = []): Promise<Started> {
  const journal = site.journal();
  const { thread_id } = await site.client.threads.create();
  const { run_id } = await site.client.runs.create(thread_id, graph, {
    input: graph === "agent" ? { messages: [{ type: "human", content: "go" }] } : {},
    config: { configurable: { journal: journal.path, step_ms: stepMs, hold } },
  });
  return { threadId: thread_id, runId: run_id, journal };
}

/** How many calls (tasks, tools) of a run have a durable result. */
async function storedResults(site: CrashSite, { threadId }: Started): Promise<number> {
  const { rows } = await site.db.db.query<{ n: number }>(
    `select count(distinct task_id) as n
    from checkpoint_writes
    where thread_id = $1 and task_path like '~__pregel_push%' and channel in ('__return__', 'messages')`,
    [threadId],
  );
  return rows[0]?.n ?? 0;
}

/** The nodes whose writes a durable checkpoint holds. */
async function stateLog(site: CrashSite, run: Started): Promise<string[]> {
  const { values } = await site.client.threads.getState<{ log?: string[] }>(run.threadId);
  return values.log ?? [];
}

/** Kills the worker then; the next one goes on. */
async function killWhen(site: CrashSite, worker: TestProcess, what: string, then: () => Promise<boolean> | boolean) {
  await until(what, then, { everyMs: 1 });
  await worker.kill();
  await site.expire(worker);
}

async function finished(site: CrashSite, run: Started): Promise<void> {
  await until(
    "the run to end",
    async () => (await site.client.runs.get(run.threadId, run.runId)).status === "success",
    { timeoutMs: 60_000 },
  );
}

test("a worker that is there takes a dead one's run when its lease is over, and waits for one poll at most", async () => {
  await withCrashSite(async (site) => {
    const { db } = site.db;
    const env = { PERDURE_LEASE_MS: String(SHORT_LEASE_MS) };
    const workers = [site.worker(env), site.worker(env)];
    for (const worker of workers) await worker.waitFor("perdure worker is ready");
    const run = await start(site, "steps", 100);
    await until("the second node", () => run.journal.count("enter s2") > 0, { everyMs: 1 });
    const held = async () => {
      const { rows } = await db.query<{ pid: number; expires: Date }>(
        `select split_part(lease_owner, '/', 2)::int as pid, lease_expires_at as expires from runs where run_id = $1`,
        [run.runId],
      );
      return rows[0]!;
    };
    const { pid: dead } = await held();
    await workers.find(({ pid }) => pid === dead)?.kill();
    const { expires } = await held();
    await finished(site, run);
    const { rows } = await db.query<{ late: number }>(
      `select extract(epoch from created_at - $2)::float8 * 1000 as late from events
      where run_id = $1 and type = 'run.claimed' and attempt = 2`,
      [run.runId, expires],
    );
    expect(rows[0]?.late).toBeGreaterThan(0);
    expect(rows[0]?.late).toBeLessThan(POLL_MS * 1.2 + SLACK_MS);
  });
}, 120_000);

/** One worker has all of them, is killed when each has come to its moment, and another goes on. */
async function killTogether<S extends Started>(
  site: CrashSite,
  runs: readonly S[],
  isThere: (run: S) => Promise<boolean> | boolean,
): Promise<void> {
  const args = ["--concurrency", String(runs.length)];
  const worker = site.worker({}, args);
  for (const run of runs) await until("a run to come to its moment", () => isThere(run), { everyMs: 5 });
  await worker.kill();
  await site.expire(worker);
}

test("a 20-step run is killed in each of its steps: 20 of 20 succeed, and no finished node is entered again", async () => {
  await withCrashSite(async (site) => {
    const steps = Array.from({ length: 20 }, (_, i) => i + 1);
    const runs = await Promise.all(steps.map(async (n) => ({ ...(await start(site, "steps", 20, [`s${n}`])), n })));
    await killTogether(site, runs, ({ n, journal }) => journal.count(`enter s${n}`) === 1);
    for (const run of runs) expect(await stateLog(site, run)).toHaveLength(run.n - 1);
    site.worker({}, ["--concurrency", "20"]);
    for (const run of runs) {
      await finished(site, run);
      const entered = steps.map((n) => run.journal.count(`enter s${n}`));
      expect(entered, `killed in s${run.n}`).toEqual(steps.map((n) => (n === run.n ? 2 : 1)));
      expect(await stateLog(site, run)).toHaveLength(20);
    }
  });
}, 120_000);

test("a 20-step run is killed just after a step: no node whose end is stored is entered again", async () => {
  await withCrashSite(async (site) => {
    let worker = site.worker();
    const moments = process.env["PERDURE_KILLS"] === "all" ? Array.from({ length: 20 }, (_, i) => i + 1) : [1, 9, 20];
    for (const moment of moments) {
      const run = await start(site, "steps", 20);
      await killWhen(site, worker, `step ${moment}`, () => run.journal.count(`leave s${moment}`) > 0);
      const before = await stateLog(site, run);
      worker = site.worker();
      await finished(site, run);
      for (const node of before) expect(run.journal.count(`enter ${node}`), `${node}, moment ${moment}`).toBe(1);
      expect(await stateLog(site, run)).toHaveLength(20);
      const twice = run.journal.lines().filter((line) => line.startsWith("enter ")).length - 20;
      expect(twice).toBeLessThanOrEqual(1);
    }
  });
}, 240_000);

test("a functional entrypoint of five tasks is killed in each: finished tasks are not done again", async () => {
  await withCrashSite(async (site) => {
    const tasks = [1, 2, 3, 4, 5];
    const runs = await Promise.all(tasks.map(async (n) => ({ ...(await start(site, "tasks", 30, [`t${n}`])), n })));
    // It may die before the result of the last one that ended is stored.
    await killTogether(site, runs, async (run) => {
      return run.journal.count(`enter t${run.n}`) === 1 && (await storedResults(site, run)) >= run.n - 2;
    });
    const stored = await Promise.all(runs.map((run) => storedResults(site, run)));
    site.worker();
    for (const [i, run] of runs.entries()) {
      await finished(site, run);
      for (const n of tasks) {
        const entered = run.journal.count(`enter t${n}`);
        expect(entered, `t${n}, killed in t${run.n}, ${stored[i]} stored`).toBeLessThanOrEqual(n <= stored[i]! ? 1 : 2);
      }
    }
  });
}, 120_000);

test("three parallel tool calls are killed at each: calls whose result is stored are not made again", async () => {
  await withCrashSite(async (site) => {
    const runs = await Promise.all(
      TOOLS.map(async (leaving, n) => {
        const hold = TOOLS.slice(n + 1).map((name) => `tool ${name}`);
        return { ...(await start(site, "agent", 150, hold)), leaving, n };
      }),
    );
    // It may die before the result of the last one that ended is stored.
    await killTogether(site, runs, async (run) => {
      return run.journal.count(`leave tool ${run.leaving}`) === 1 && (await storedResults(site, run)) >= run.n;
    });
    const stored = await Promise.all(runs.map((run) => storedResults(site, run)));
    site.worker();
    for (const [r, run] of runs.entries()) {
      await finished(site, run);
      for (const [i, name] of TOOLS.entries()) {
        const entered = run.journal.count(`enter tool ${name}`);
        expect(entered, `${name}, killed after ${run.leaving}, ${stored[r]} stored`).toBeLessThanOrEqual(
          i < stored[r]! ? 1 : 2,
        );
      }
    }
  });
}, 120_000);
