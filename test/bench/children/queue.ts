// The queue alone, with a worker's own loop: runs are claimed and settled, and no graph is executed. And what a claim takes
// when very many runs are parked.
import { randomUUID } from "node:crypto";
import { createMemoryStore } from "../../../src/bodies/memory.js";
import { migrateDatabase } from "../../../src/cli/migrate.js";
import type { Lease } from "../../../src/core/clock.js";
import type { Db, Deps } from "../../../src/core/deps.js";
import { openDb } from "../../../src/db/pool.js";
import { createSettler, type Settle } from "../../../src/engine/commands/settle-run.js";
import { createWorker } from "../../../src/engine/loops/worker.js";
import { createLog } from "../../../src/observe/log.js";
import { claimRuns } from "../../../src/runs/claim.js";
import { rowDeps } from "../../helpers/thread-rows.js";
import { nowMs } from "../measure/numbers.js";
import { serveCalls } from "./calls.js";

const OWNER = `bench ${randomUUID()}`;
const CLAIM = { owner: OWNER, graphIds: ["bench"], versions: ["1"], leaseMs: 60_000 };
const DAY_MS = 86_400_000;

let db: Db;
let deps: Deps;
let settle: Settle;

serveCalls({
  async open({ url }: { url: string }) {
    const log = createLog("warn");
    await migrateDatabase(url, log);
    // Filling takes longer than a statement may otherwise.
    db = openDb({ url, max: 10, log, applicationName: "perdure bench", statementTimeoutMs: 0 });
    deps = rowDeps(db, createMemoryStore());
    settle = createSettler(deps, { moveAfterMs: DAY_MS, preview: () => null });
  },

  /** Claims and settles so many runs, `concurrency` at a time; returns the seconds from the first claim to the last settlement. */
  async drain({ runs, concurrency }: { runs: number; concurrency: number }): Promise<number> {
    await addReady(runs);
    await db.query("analyze");
    let left = runs;
    let finish = (): void => {};
    const finished = new Promise<void>((resolve) => (finish = resolve));
    const execute = async (_run: unknown, lease: Lease): Promise<void> => {
      await settle(lease, { kind: "success", checkpointId: null }, { final: [], ifSpent: [] });
      left -= 1;
      if (left === 0) finish();
    };
    const worker = createWorker(deps, { ...CLAIM, concurrency, pollMs: 1_000, ready: Promise.resolve(), execute });
    const startedMs = nowMs();
    worker.start();
    await finished;
    const seconds = (nowMs() - startedMs) / 1_000;
    await worker.stop(1_000);
    return seconds;
  },

  /** One ready run after the other: how long its claim takes, in ms. */
  async claims({ samples }: { samples: number }): Promise<number[]> {
    const latenciesMs: number[] = [];
    for (let n = 0; n < samples; n += 1) {
      await addReady(1);
      const startedMs = nowMs();
      const [run, ...others] = await claimRuns(db, { ...CLAIM, slots: 10 });
      latenciesMs.push(nowMs() - startedMs);
      if (run === undefined || others.length > 0) throw new Error("a claim did not give the one run that was ready");
      await settle({ ...run, owner: OWNER }, { kind: "success", checkpointId: null }, { final: [], ifSpent: [] });
    }
    return latenciesMs;
  },

  /** Half of them wait for a person, half sleep. */
  async park({ runs }: { runs: number }): Promise<void> {
    const step = 50_000;
    for (let done = 0; done < runs; done += step) await addParked(Math.min(step, runs - done));
    await db.query("vacuum analyze");
  },
});

async function addReady(runs: number): Promise<void> {
  await db.query(
    `with made as (
      insert into threads (tenant_id, thread_id, status)
      select 'default', gen_random_uuid(), 'busy'
      from generate_series(1, $1)
      returning tenant_id, thread_id
    )
    insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, head)
    select tenant_id, gen_random_uuid(), thread_id, gen_random_uuid(), 'bench', true
    from made`,
    [runs],
  );
}

async function addParked(runs: number): Promise<void> {
  await db.query(
    `with made as (
      insert into threads (tenant_id, thread_id, status)
      select 'default', gen_random_uuid(), case when n % 2 = 0 then 'busy' else 'interrupted' end
      from generate_series(1, $1) n
      returning tenant_id, thread_id, status = 'busy' as sleeps
    ), parked as (
      insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, head, status, attempt, waits_for,
        available_at, finished_at)
      select tenant_id, gen_random_uuid(), thread_id, gen_random_uuid(), 'bench', sleeps,
        case when sleeps then 'pending' else 'interrupted' end, 1, case when sleeps then 'timer' else 'approval' end,
        case when sleeps then now() + interval '30 days' end, case when sleeps then null else now() end
      from made
      returning tenant_id, run_id, available_at
    )
    insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
    select tenant_id, gen_random_uuid(), 'run.release', run_id, available_at
    from parked
    where available_at is not null`,
    [runs],
  );
}
