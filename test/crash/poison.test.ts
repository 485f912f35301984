// P5: a run that kills its worker is tried at most 3 times, then a person decides. Healthy runs beside it succeed.
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
    // Beside it from the first attempt on, and long in their first node: they die with it once, and not again.
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
    // The thread isn't lost: another run on it works.
    const { rows } = await site.db.db.query<{ n: number }>(
      "select count(*) as n from runs where status = 'running' and lease_expires_at < now()",
    );
    expect(rows[0]?.n).toBe(0);
  });
}, 240_000);
