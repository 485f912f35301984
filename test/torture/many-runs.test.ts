// Many runs in several processes write as fast as they can: heartbeats, group commits, claims and settling never lock each
// other out, and nobody loses a lease.
import { expect, test } from "vitest";
import { withCrashSite } from "../crash/setup.js";
import { size, SOAK_MS } from "../helpers/soak.js";
import { until } from "../helpers/wait.js";

const RUNS = size(40, 200);
const PROCESSES = size(2, 4);
const RUN_MS = size(4_000, 60_000);

test(
  `${RUNS} runs in ${PROCESSES} workers for ${RUN_MS / 1_000} s: no deadlock, no lease lost`,
  async () => {
    await withCrashSite(async ({ client, db, worker }) => {
      const concurrency = Math.ceil(RUNS / PROCESSES);
      const workers = Array.from({ length: PROCESSES }, () =>
        worker({ PERDURE_LEASE_MS: "15000", PERDURE_CONCURRENCY: String(concurrency) }),
      );
      const runs = await Promise.all(
        Array.from({ length: RUNS }, async () => {
          const { thread_id } = await client.threads.create();
          const { run_id } = await client.runs.create(thread_id, "busy", {
            input: {},
            config: { recursion_limit: 1_000_000, configurable: { runMs: RUN_MS } },
          });
          return { thread_id, run_id };
        }),
      );
      const left = "select count(*)::int as n from runs where status in ('pending', 'running')";
      await until("all runs to end", async () => (await db.db.query<{ n: number }>(left)).rows[0]!.n === 0, {
        timeoutMs: RUN_MS + 120_000,
        everyMs: 200,
      });
      const { rows } = await db.db.query(
        "select status, attempt, crashes, count(*)::int as n from runs group by 1, 2, 3",
      );
      expect(rows).toEqual([{ status: "success", attempt: 1, crashes: 0, n: RUNS }]);
      const commits = await db.db.query<{ n: number }>("select sum(commit_no)::int as n from runs");
      expect(commits.rows[0]!.n).toBeGreaterThan(RUNS * 3);
      const { rows: stats } = await db.db.query(
        "select deadlocks from pg_stat_database where datname = current_database()",
      );
      expect(stats).toEqual([{ deadlocks: 0 }]);
      for (const process of workers) expect(process.output()).not.toMatch(/lease (was lost|went to)|deadlock/);
      expect(runs).toHaveLength(RUNS);
    });
  },
  SOAK_MS,
);
