// Whether a second worker process brings twice the runs, where nodes keep the processor busy.
import os from "node:os";
import { createClient } from "../setup/client.js";
import { startPerdure } from "../setup/servers.js";
import { metered } from "../measure/meter.js";
import { timedPool } from "../measure/numbers.js";
import { WHO } from "./http.js";
import { costs, type Run } from "./part.js";

export const WORKERS = (n: number): string => `${n} worker ${n === 1 ? "process" : "processes"}, busy nodes`;
/** Of each of the ten nodes. */
const SPIN_MS = 10;
const CONCURRENCY = 20;

export async function measureWorkers(run: Run): Promise<void> {
  for (const workers of [1, 2]) {
    const perdure = await startPerdure(run.server, { processes: "apart", workers });
    try {
      const client = createClient(perdure.url);
      const body = { assistant_id: "busy", input: { n: 0, spinMs: SPIN_MS } };
      const one = () => client.post("/runs/wait", body);
      await timedPool(CONCURRENCY, CONCURRENCY, one);
      const n = run.quick ? 60 : 200;
      const metering = { server: run.server, database: perdure.database, pids: perdure.pids };
      const [{ seconds }, reading] = await metered(metering, () => timedPool(n, CONCURRENCY, one));
      run.report.add({
        ...{ round: run.round, part: "worker processes", who: WHO.apart, work: WORKERS(workers) },
        figures: {
          "runs/s": n / seconds,
          ...costs(reading, n, "run"),
          // One worker fills a core; the API, Postgres and the clients want some of another.
          "free cores": reading.foreignCores === null ? null : os.availableParallelism() - reading.foreignCores,
        },
      });
    } finally {
      await perdure.stop();
    }
  }
}
