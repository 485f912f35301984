// Many short runs and several workers: each run is started once, every worker has its share, and a second worker is worth
// as much as the first where nodes wait for the network.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type CrashSite, type Journal, withCrashSite } from "../crash/setup.js";
import { size, SOAK_MS } from "../helpers/soak.js";
import { until } from "../helpers/wait.js";

const RUNS = size(400, 10_000);
const WORKERS = 4;

/** Accepts `n` runs, a hundred requests at a time. */
async function accept({ app }: CrashSite, journal: Journal, n: number): Promise<void> {
  const body = JSON.stringify({
    assistant_id: "short",
    input: { done: false },
    config: { configurable: { journal: journal.path } },
  });
  const headers = { "content-type": "application/json" };
  let left = n;
  const one = async () => {
    while (left-- > 0) expect((await app.request("/runs", { method: "POST", headers, body })).status).toBe(200);
  };
  await Promise.all(Array.from({ length: 100 }, one));
}

async function finished({ db }: CrashSite, timeoutMs: number): Promise<void> {
  const unfinished = "select count(*)::int as n from runs where status in ('pending', 'running')";
  const isDone = async () => (await db.db.query<{ n: number }>(unfinished)).rows[0]?.n === 0;
  await until("all runs to end", isDone, { timeoutMs, everyMs: 100 });
}

test(
  `${RUNS} short runs and ${WORKERS} workers: none is started twice, and no worker goes without`,
  async () => {
    await withCrashSite(async (site) => {
      const journal = site.journal();
      const workers = Array.from({ length: WORKERS }, () => site.worker({ PERDURE_CONCURRENCY: "10" }));
      await Promise.all(workers.map((worker) => worker.waitFor("perdure worker is ready")));
      await accept(site, journal, RUNS);
      await finished(site, RUNS * 100);

      const lines = readFileSync(journal.path, "utf8").trim().split("\n");
      const byWorker = new Map<string, number>();
      for (const line of lines) {
        const pid = line.split(" ")[1] as string;
        byWorker.set(pid, (byWorker.get(pid) ?? 0) + 1);
      }
      expect(new Set(lines.map((line) => line.split(" ")[0])).size).toBe(RUNS);
      expect(lines).toHaveLength(RUNS);
      expect([...byWorker.keys()].sort()).toEqual(workers.map(({ pid }) => String(pid)).sort());
      // A fair share is a quarter.
      for (const n of byWorker.values()) expect(n).toBeGreaterThan(RUNS / WORKERS / 3);
      const { rows } = await site.db.db.query(
        "select status, attempt, crashes, count(*)::int as n from runs group by 1, 2, 3",
      );
      expect(rows).toEqual([{ status: "success", attempt: 1, crashes: 0, n: RUNS }]);
    });
  },
  SOAK_MS,
);
