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

test("a 20-step run is killed at 20 moments: 20 of 20 succeed, and no finished node is entered again", async () => {
  await withCrashSite(async (site) => {
    let worker = site.worker();
    for (let moment = 1; moment <= 20; moment += 1) {
      const run = await start(site, "steps", 20);
      // Odd lines are in the middle of a node, even ones between two.
      const lines = moment * 2 - (moment % 2);
      await killWhen(site, worker, `${lines} journal lines`, () => run.journal.lines().length >= lines);
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
    let worker = site.worker();
    for (let moment = 1; moment <= 5; moment += 1) {
      const run = await start(site, "tasks", 30, [`t${moment}`]);
      // It may die before the result of the last one that ended is stored.
      await killWhen(site, worker, `task ${moment} after a stored one`, async () => {
        return run.journal.count(`enter t${moment}`) === 1 && (await storedResults(site, run)) >= moment - 2;
      });
      const stored = await storedResults(site, run);
      worker = site.worker();
      await finished(site, run);
      for (let i = 1; i <= 5; i += 1) {
        const entered = run.journal.count(`enter t${i}`);
        expect(entered, `t${i}, moment ${moment}, ${stored} stored`).toBeLessThanOrEqual(i <= stored ? 1 : 2);
      }
    }
  });
}, 120_000);

test("three parallel tool calls are killed at each: calls whose result is stored are not made again", async () => {
  await withCrashSite(async (site) => {
    let worker = site.worker();
    for (const [n, leaving] of TOOLS.entries()) {
      const run = await start(
        site,
        "agent",
        150,
        TOOLS.slice(n + 1).map((name) => `tool ${name}`),
      );
      // It may die before the result of the last one that ended is stored.
      await killWhen(site, worker, `tool ${leaving} to end after stored ones`, async () => {
        return run.journal.count(`leave tool ${leaving}`) === 1 && (await storedResults(site, run)) >= n;
      });
      const stored = await storedResults(site, run);
      worker = site.worker();
      await finished(site, run);
      for (const [i, name] of TOOLS.entries()) {
        const entered = run.journal.count(`enter tool ${name}`);
        expect(entered, `${name}, killed after ${leaving}, ${stored} stored`).toBeLessThanOrEqual(i < stored ? 1 : 2);
      }
    }
  });
}, 120_000);
