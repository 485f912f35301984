// Whether a second worker process brings twice the runs: where nodes keep the processor busy, and where they wait.
import os from "node:os";
import { WAIT_MS } from "../graphs/graphs.js";
import { createClient } from "../setup/client.js";
import { startPerdure } from "../setup/servers.js";
import { metered } from "../measure/meter.js";
import { timedPool } from "../measure/numbers.js";
import { WHO } from "./http.js";
import { costs, type Run } from "./part.js";

type Work = Readonly<{
  name: string;
  body: object;
  /** Runs at a time of each worker, and of all clients together. */
  slots: number;
  concurrency: number;
  runs: number;
  quickRuns: number;
}>;

/** Of each of the ten busy nodes. */
const SPIN_MS = 10;
const BUSY: Work = {
  ...{ name: "busy nodes", body: { assistant_id: "busy", input: { n: 0, spinMs: SPIN_MS } } },
  ...{ slots: 50, concurrency: 20, runs: 200, quickRuns: 60 },
};
/** More clients than both workers have slots. */
const WAITING: Work = {
  ...{
    name: `a node that waits ${WAIT_MS} ms, 10 at a time in each`,
    body: { assistant_id: "waiting", input: { n: 0 } },
  },
  ...{ slots: 10, concurrency: 40, runs: 1_500, quickRuns: 300 },
};

const named = (work: Work) => (n: number) => `${n} worker ${n === 1 ? "process" : "processes"}, ${work.name}`;
export const BUSY_WORKERS = named(BUSY);
export const WAITING_WORKERS = named(WAITING);

export async function measureWorkers(run: Run): Promise<void> {
  for (const work of [BUSY, WAITING]) for (const workers of [1, 2]) await measure(run, work, workers);
}

async function measure(run: Run, work: Work, workers: number): Promise<void> {
  const perdure = await startPerdure(run.server, { processes: "apart", workers, slots: work.slots });
  try {
    const client = createClient(perdure.url);
    const one = () => client.post("/runs/wait", work.body);
    await timedPool(work.concurrency, work.concurrency, one);
    const n = run.quick ? work.quickRuns : work.runs;
    const metering = { server: run.server, database: perdure.database, pids: perdure.pids };
    const [{ seconds }, reading] = await metered(metering, () => timedPool(n, work.concurrency, one));
    run.report.add({
      ...{ round: run.round, part: "worker processes", who: WHO.apart, work: named(work)(workers) },
      figures: {
        "runs/s": n / seconds,
        ...costs(reading, n, "run"),
        // One busy worker fills a core; the API, Postgres and the clients want some of another.
        "free cores": reading.foreignCores === null ? null : os.availableParallelism() - reading.foreignCores,
      },
    });
  } finally {
    await perdure.stop();
  }
}
