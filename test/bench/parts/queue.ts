// The queue: claims and settlements per second, and a claim beside a million parked runs.
import { startChild } from "../setup/children.js";
import { metered } from "../measure/meter.js";
import { quantile } from "../measure/numbers.js";
import { costs, type Run } from "./part.js";

const PART = "queue";
export const ONE_WORKER = "perdure, one worker";
export const DRAIN = "claim and settle, no graph";
export const CLAIM_EMPTY = "claim of one run, nothing parked";
export const CLAIM_PARKED = "claim of one run, 1,000,000 parked";

/** What one worker takes at a time, and so claims at once at most. */
const CONCURRENCY = 500;
const PARKED = 1_000_000;

export async function measureQueue(run: Run): Promise<void> {
  const { server, report, round, quick } = run;
  const database = "bench_queue";
  const child = startChild("queue");
  const metering = { server, database, pids: [child.pid] };
  const claims = async (work: string): Promise<void> => {
    const samples = quick ? 300 : 1_000;
    const [latencies, reading] = await metered(metering, () => child.call<number[]>("claims", { samples }));
    report.add({
      ...{ round, part: PART, who: ONE_WORKER, work },
      figures: {
        "p50 ms": quantile(latencies, 0.5),
        "p99 ms": quantile(latencies, 0.99),
        "foreign cores": reading.foreignCores,
      },
    });
  };
  try {
    await child.call("open", { url: await server.createDatabase(database) });
    await child.call("drain", { runs: 1_000, concurrency: CONCURRENCY });
    const runs = quick ? 5_000 : 20_000;
    const [seconds, reading] = await metered(metering, () =>
      child.call<number>("drain", { runs, concurrency: CONCURRENCY }),
    );
    report.add({
      ...{ round, part: PART, who: ONE_WORKER, work: DRAIN },
      figures: { "runs/s": runs / seconds, ...costs(reading, runs, "run") },
    });
    await claims(CLAIM_EMPTY);
    // Filling takes a minute or two, and what it shows does not vary.
    if (quick || round > 1) return;
    await child.call("park", { runs: PARKED });
    await claims(CLAIM_PARKED);
  } finally {
    await child.stop();
    await server.dropDatabase(database);
  }
}
