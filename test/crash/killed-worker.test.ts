// P4: a dead worker's run goes on elsewhere within lease + one poll; finished nodes and tool calls are not entered again.
import { expect, test } from "vitest";
import type { TestProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { type CrashSite, type Journal, LEASE_MS, POLL_MS, withCrashSite } from "./setup.js";

/** Generous for a loaded machine: starting a process is not what is measured here. */
const SLACK_MS = 6_000;

const TOOLS = ["a", "b", "c"];

type Started = Readonly<{ threadId: string; runId: string; journal: Journal }>;

async function start(site: CrashSite, graph: string, stepMs: number): Promise<Started> {
  const journal = site.journal();
  const { thread_id } = await site.client.threads.create();
  const { run_id } = await site.client.runs.create(thread_id, graph, {
    input: graph === "agent" ? { messages: [{ type: "human", content: "go" }] } : {},
    config: { configurable: { journal: journal.path, step_ms: stepMs } },
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

/** Kills the worker when the journal has `lines` lines; the next one goes on. */
async function killAt(worker: TestProcess, run: Started, lines: number): Promise<void> {
  await until(`${lines} journal lines`, () => run.journal.lines().length >= lines, { everyMs: 1 });
  await worker.kill();
}

async function finished(site: CrashSite, run: Started): Promise<void> {
  await until(
    "the run to end",
    async () => (await site.client.runs.get(run.threadId, run.runId)).status === "success",
    { timeoutMs: LEASE_MS + POLL_MS + SLACK_MS + 4_000 },
  );
}

test("a 20-step run is killed at 20 moments: 20 of 20 succeed, and no finished node is entered again", async () => {
  await withCrashSite(async (site) => {
    let worker = site.worker();
    for (let moment = 1; moment <= 20; moment += 1) {
      const run = await start(site, "steps", 20);
      // Odd lines are in the middle of a node, even ones between two.
      await killAt(worker, run, moment * 2 - (moment % 2));
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

test("a functional entrypoint of five tasks is killed at each: finished tasks are not done again", async () => {
  await withCrashSite(async (site) => {
    let worker = site.worker();
    for (let moment = 1; moment <= 5; moment += 1) {
      const run = await start(site, "tasks", 30);
      await killAt(worker, run, moment * 2 - 1);
      const stored = await storedResults(site, run);
      worker = site.worker();
      await finished(site, run);
      for (let i = 1; i <= 5; i += 1) {
        const entered = run.journal.count(`enter t${i}`);
        expect(entered, `t${i}, moment ${moment}, ${stored} stored`).toBeLessThanOrEqual(i <= stored ? 1 : 2);
      }
      // The worker dies at least one task after the one that was stored last.
      expect(stored).toBeGreaterThanOrEqual(moment - 2);
    }
  });
}, 120_000);

test("three parallel tool calls are killed at each: calls whose result is stored are not made again", async () => {
  await withCrashSite(async (site) => {
    let worker = site.worker();
    for (const leaving of TOOLS) {
      const run = await start(site, "agent", 150);
      await until(`tool ${leaving} to end`, () => run.journal.count(`leave tool ${leaving}`) === 1, { everyMs: 1 });
      await worker.kill();
      const stored = await storedResults(site, run);
      worker = site.worker();
      await finished(site, run);
      for (const [i, name] of TOOLS.entries()) {
        const entered = run.journal.count(`enter tool ${name}`);
        expect(entered, `${name}, killed after ${leaving}, ${stored} stored`).toBeLessThanOrEqual(i < stored ? 1 : 2);
      }
      expect(stored).toBeGreaterThanOrEqual(TOOLS.indexOf(leaving));
    }
  });
}, 120_000);
