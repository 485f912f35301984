// P4: a dead worker's run goes on elsewhere within lease + one poll; finished nodes and tool calls are not entered again.
import { expect, test } from "vitest";
import type { TestProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { type CrashSite, type Journal, LEASE_MS, POLL_MS, withCrashSite } from "./setup.js";

/** Generous for a loaded machine: starting a process is not what is measured here. */
const SLACK_MS = 6_000;

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

/** What is durable of a run, by the words the journal uses. */
async function durable(site: CrashSite, { threadId }: Started): Promise<string[]> {
  const { rows } = await site.db.db.query<{ step: string }>(
    `select distinct task_path || ' ' || channel as step from checkpoint_writes where thread_id = $1`,
    [threadId],
  );
  return rows.map((row) => row.step);
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
      const { rows } = await site.db.db.query<{ done: string }>(
        `select done from checkpoints c, jsonb_array_elements_text('[]'::jsonb) done where c.run_id = $1`,
        [run.runId],
      );
      expect(rows).toEqual([]);
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

async function stateLog(site: CrashSite, run: Started): Promise<string[]> {
  const { values } = await site.client.threads.getState<{ log?: string[] }>(run.threadId);
  return values.log ?? [];
}

test("a functional entrypoint of five tasks is killed at each: finished tasks are not done again", async () => {
  await withCrashSite(async (site) => {
    let worker = site.worker();
    for (let moment = 1; moment <= 5; moment += 1) {
      const run = await start(site, "tasks", 30);
      await killAt(worker, run, moment * 2 - 1);
      const done = (await durable(site, run)).length;
      worker = site.worker();
      await finished(site, run);
      for (let i = 1; i <= 5; i += 1) {
        const entered = run.journal.count(`enter t${i}`);
        expect(entered, `t${i}, moment ${moment}`).toBe(i === moment || (i < moment && i > done) ? entered : 1);
        expect(entered).toBeLessThanOrEqual(2);
      }
    }
  });
}, 120_000);

test("three parallel tool calls are killed at each: calls whose result is stored are not made again", async () => {
  await withCrashSite(async (site) => {
    let worker = site.worker();
    for (const leaving of ["a", "b", "c"]) {
      const run = await start(site, "agent", 150);
      await until(`tool ${leaving} to end`, () => run.journal.count(`leave tool ${leaving}`) === 1, { everyMs: 1 });
      const stored = async () =>
        (await durable(site, run)).filter((step) => step.startsWith("~__pregel_push") && step.endsWith("messages"))
          .length;
      await until("its result to be stored", async () => (await stored()) > 0 || leaving === "c", { timeoutMs: 5_000 });
      await worker.kill();
      const before = run.journal.lines().filter((line) => line.startsWith("leave")).length;
      worker = site.worker();
      await finished(site, run);
      const finishedFirst = ["a", "b", "c"].slice(0, before - 1);
      for (const tool of finishedFirst)
        expect(run.journal.count(`enter tool ${tool}`), `${tool} before ${leaving}`).toBe(1);
      for (const tool of ["a", "b", "c"]) expect(run.journal.count(`enter tool ${tool}`)).toBeLessThanOrEqual(2);
    }
  });
}, 120_000);
