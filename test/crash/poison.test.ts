// P5: a run that kills its worker is tried at most 3 times, then a person decides. Healthy runs beside it succeed.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { TestProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";
import { withCrashSite } from "./setup.js";

test("a run that kills its worker is claimed three times and ends in error; those beside and behind it succeed", async () => {
  await withCrashSite(async (site) => {
    const { client } = site;
    const poisonJournal = site.journal();
    const poisoned = await client.threads.create();
    const poison = await client.runs.create(poisoned.thread_id, "poison", {
      input: {},
      config: { configurable: { journal: poisonJournal.path } },
    });
    // Beside it from the first attempt on, and long in their first node: they die with it, but not three times.
    const beside = await Promise.all(
      Array.from({ length: 3 }, async () => {
        const { thread_id } = await client.threads.create();
        const config = { configurable: { journal: site.journal().path, step_ms: 600 } };
        return client.runs.create(thread_id, "steps", { input: {}, config });
      }),
    );
    const behind = await Promise.all(
      Array.from({ length: 10 }, async () => {
        const { thread_id } = await client.threads.create();
        const config = { configurable: { journal: site.journal().path, step_ms: 1 } };
        return client.runs.create(thread_id, "steps", { input: {}, config });
      }),
    );

    const workers: TestProcess[] = [];
    let watching = true;
    const restart = async (): Promise<void> => {
      while (watching) {
        const worker = site.worker({}, ["--concurrency", "4"]);
        workers.push(worker);
        await worker.exited;
        await site.expire(worker);
      }
    };
    const restarters = [restart(), restart()];
    const get = async (run: { thread_id: string; run_id: string }) =>
      (await client.runs.get(run.thread_id, run.run_id)).status;
    await until("the poisonous run to end", async () => (await get(poison)) === "error", { timeoutMs: 90_000 });
    for (const run of [...beside, ...behind])
      await until("a healthy run", async () => (await get(run)) === "success", { timeoutMs: 90_000 });
    watching = false;
    await Promise.all(workers.map((worker) => worker.kill()));
    await Promise.all(restarters);

    expect(poisonJournal.count("enter poison")).toBe(3);
    expect((await client.threads.get(poisoned.thread_id)).status).toBe("error");
    expect(await client.runs.join(poisoned.thread_id, poison.run_id)).toEqual({
      __error__: { error: "WorkerLostError", message: expect.stringContaining("3 times") as string },
    });
    // Whoever decides finds it in their list, with why.
    const inbox = await (await site.app.request("/v1/runs?needs_attention=true")).json();
    const what = { code: "worker_lost", attempts: 3, crashes: 3 };
    expect(inbox).toMatchObject([{ run_id: poison.run_id, needs_attention: what }]);
    // The thread isn't lost: another run on it works.
    const { rows } = await site.db.db.query<{ n: number }>(
      "select count(*) as n from runs where status = 'running' and lease_expires_at < now()",
    );
    expect(rows[0]?.n).toBe(0);
  });
}, 240_000);

test("a run that killed its worker is cancelled before anybody takes it again: at once, and for good", async () => {
  await withCrashSite(async ({ client, db, journal, worker, expire }) => {
    const { thread_id } = await client.threads.create();
    const lines = journal();
    const config = { configurable: { journal: lines.path } };
    const { run_id } = await client.runs.create(thread_id, "poison", { input: {}, config });
    const first = worker();
    await first.exited;
    await client.runs.cancel(thread_id, run_id);
    expect((await client.runs.get(thread_id, run_id)).status).toBe("interrupted");
    expect((await client.threads.get(thread_id)).status).toBe("idle");
    await expire(first);
    worker();
    await client.runs.wait(thread_id, "steps", {
      input: {},
      config: { configurable: { ...config.configurable, step_ms: 1 } },
    });
    expect(lines.count("enter poison")).toBe(1);
    const { rows } = await db.db.query("select attempt from runs where run_id = $1", [run_id]);
    expect(rows).toEqual([{ attempt: 1 }]);
  });
}, 60_000);

test("when a machine dies its runs don't come back as so many processes: those that died again wait their turn, and cost nothing", async () => {
  await withCrashSite(async ({ client, db, journal, worker }) => {
    const start = async (crashes: number) => {
      const { thread_id } = await client.threads.create();
      const lines = journal();
      const config = { configurable: { journal: lines.path, step_ms: crashes === 2 ? 1_000 : 1 } };
      const { run_id } = await client.runs.create(thread_id, "steps", { input: {}, config });
      await db.db.query("update runs set crashes = $2 where run_id = $1", [run_id, crashes]);
      return { thread_id, run_id, lines };
    };
    const again = [await start(2), await start(2), await start(2)];
    const once = [await start(1), await start(1)];
    const machine = worker({}, ["--concurrency", "5"]);
    for (const { thread_id, run_id } of once) await client.runs.join(thread_id, run_id);
    await until(
      "two to be executed apart",
      () => again.filter(({ lines }) => lines.count("enter s1") > 0).length === 2,
    );
    expect(childrenOf(machine.pid)).toHaveLength(2);
    expect(await machine.stop()).toBe(0);
    const { rows } = await db.db.query("select status, crashes, attempt from runs where crashes = 2 and not begun");
    expect(rows).toEqual([{ status: "pending", crashes: 2, attempt: 1 }]);
    expect(again.flatMap(({ lines }) => lines.lines().filter((line) => line === "enter s1"))).toHaveLength(2);
  });
}, 120_000);

function childrenOf(pid: number): string[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
}
