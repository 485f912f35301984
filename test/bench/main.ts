// `npm run bench`: sets everything up, measures perdure and its peers in turns on one Postgres, prints a JSON line for each
// measurement, and at the end tables of the medians and of the targets.
import { existsSync } from "node:fs";
import os from "node:os";
import { fileURLToPath } from "node:url";
import { type Arguments, readArguments, USAGE, type PartName } from "./arguments.js";
import { createReport, type Report, resultTables } from "./measure/report.js";
import { judge, targetTable } from "./measure/targets.js";
import { measureRuns } from "./parts/http.js";
import { measureLatency } from "./parts/latency.js";
import { measureLongThreads } from "./parts/long-threads.js";
import type { Run } from "./parts/part.js";
import { measureQueue } from "./parts/queue.js";
import { measureStreams } from "./parts/streams.js";
import { measureWorkers } from "./parts/workers.js";
import { installPeers } from "./setup/peers.js";
import { type Postgres, startPostgres } from "./setup/postgres.js";
import { TARGETS } from "./targets.js";

const PARTS: Readonly<Record<PartName, (run: Run) => Promise<void>>> = {
  http: measureRuns,
  latency: measureLatency,
  queue: measureQueue,
  streams: measureStreams,
  workers: measureWorkers,
  "long-threads": measureLongThreads,
};

async function main(options: Arguments): Promise<number> {
  if (!existsSync(fileURLToPath(new URL("../../dist/main.js", import.meta.url)))) {
    throw new Error("dist/main.js is missing: npm run bench builds it, or run npm run build");
  }
  if (options.peers) await installPeers();
  const report = createReport(options.out);
  const server = await startPostgres();
  try {
    console.error(`bench: ${server.version}, node ${process.version}, ${os.availableParallelism()} cores`);
    await Promise.race([measureAll(options, server, report), interruption()]);
  } finally {
    await server.stop();
  }
  return conclude(options, server, report);
}

/** Rejects when the benchmark is told to end, so that what it started is ended as well. */
function interruption(): Promise<never> {
  return new Promise((_, reject) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      process.once(signal, () => reject(new Error(`ended by ${signal}`)));
    }
  });
}

/** Round by round, so that what disturbs the machine for a while falls on all alike. */
async function measureAll(options: Arguments, server: Postgres, report: Report): Promise<void> {
  const { quick, peers } = options;
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const part of options.only) await PARTS[part]({ server, report, round, quick, peers });
  }
}

function conclude(options: Arguments, server: Postgres, report: Report): number {
  const judged = TARGETS.map((target) => judge(report.samples(), target));
  for (const [title, text] of report.notes()) console.log(`\n${title}\n${text}`);
  console.log(`\n${resultTables(report.samples())}\n\n${targetTable(judged)}`);
  const { statements, commits } = server.counts;
  if (!statements || !commits) console.log("\nThis Postgres lets nobody count statements or commits: they are –.");
  return options.check && judged.some(({ verdict }) => verdict === "missed") ? 1 : 0;
}

function readOrExit(): Arguments {
  try {
    return readArguments(process.argv.slice(2));
  } catch (error) {
    console.error(`bench: ${(error as Error).message}\n\n${USAGE}`);
    process.exit(2);
  }
}

/** What is left of an interrupted measurement is not waited for: its processes are killed at exit. */
try {
  process.exit(await main(readOrExit()));
} catch (error) {
  console.error("bench:", error);
  process.exit(2);
}
