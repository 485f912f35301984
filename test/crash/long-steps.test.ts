// A step that takes longer than its lease is not begun again while its worker is alive.
import { expect, test } from "vitest";
import { size } from "../helpers/soak.js";
import { until } from "../helpers/wait.js";
import { withCrashSite } from "./setup.js";

/** Quick: the same proportions. */
const LEASE_MS = size(1_500, 5_000);
const TAKES = { awaitMs: size(5_000, 60_000), computeMs: size(3_000, 8_000), blockMs: size(1_000, 3_000) };

test(`with a lease of ${LEASE_MS} ms, steps that wait, compute or block for longer are entered once, in one attempt`, async () => {
  await withCrashSite(async (site) => {
    const journal = site.journal();
    const workers = [1, 2].map(() => site.worker({ PERDURE_LEASE_MS: String(LEASE_MS) }));
    await Promise.all(workers.map((worker) => worker.waitFor("perdure worker is ready")));
    const { thread_id } = await site.client.threads.create();
    const { run_id } = await site.client.runs.create(thread_id, "long", {
      input: {},
      config: { configurable: { journal: journal.path, ...TAKES } },
    });
    const isOver = async () => (await site.client.runs.get(thread_id, run_id)).status === "success";
    await until("the run to end", isOver, { timeoutMs: 120_000 });
    expect(journal.lines()).toEqual(["enter await", "enter compute", "enter block"]);
    const { rows } = await site.db.db.query("select attempt, crashes from runs where run_id = $1", [run_id]);
    expect(rows).toEqual([{ attempt: 1, crashes: 0 }]);
  });
}, 180_000);
