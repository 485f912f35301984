// P15: Postgres going away for a while loses nothing and needs no restart.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Client } from "@langchain/langgraph-sdk";
import { expect, test } from "vitest";
import { startEmbeddedPostgres } from "../../src/db/embedded/server.js";
import { createLog } from "../../src/observe/log.js";
import { quietPort } from "../helpers/ports.js";
import { runProcess, startProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";

const CONFIG = fileURLToPath(new URL("graphs/langgraph.json", import.meta.url));
const LEASE_MS = 4_000;
/** Longer than the leases; the promise says a minute, which would be a tenth of the suite's time. */
const OUTAGE_MS = process.env["PERDURE_TEST_FULL"] === "1" ? 60_000 : 6_000;

test(
  `Postgres is away for ${OUTAGE_MS / 1_000} s under five active runs: the same processes finish all five`,
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "perdure-outage-"));
    // The processes know its address: nobody may have the port while it is away.
    const server = { dataDir: join(folder, "postgres"), port: await quietPort(), log: createLog("silent") };
    let postgres = await startEmbeddedPostgres(server);
    const env = {
      DATABASE_URL: postgres.url,
      PERDURE_BODIES: `file://${folder}/bodies`,
      PERDURE_LEASE_MS: String(LEASE_MS),
      PERDURE_POLL_MS: "300",
    };
    const started = [];
    try {
      expect((await runProcess(["migrate"], { env })).code).toBe(0);
      const api = startProcess(["api", "--config", CONFIG, "--port", "0"], { env });
      const worker = startProcess(["worker", "--config", CONFIG], { env });
      started.push(api, worker);
      const [, url] = await api.waitFor(/(http:\/\/127\.0\.0\.1:\d+)/);
      const client = new Client({ apiUrl: String(url), callerOptions: { maxRetries: 20 } });
      await until("the API to be ready", async () => (await fetch(`${url}/ok`)).status === 200);
      const runs = await Promise.all(
        Array.from({ length: 5 }, async (_, i) => {
          const { thread_id } = await client.threads.create();
          const journal = join(folder, `journal-${i}`);
          const { run_id } = await client.runs.create(thread_id, "steps", {
            input: {},
            config: { configurable: { journal, step_ms: 400 } },
          });
          return { thread_id, run_id, journal };
        }),
      );
      const entered = (journal: string) =>
        readFileSync(journal, "utf8")
          .split("\n")
          .filter((line) => line.startsWith("enter "))
          .map((line) => line.split(" ")[1]);
      await until("all five to be in their third node", () =>
        runs.every(({ journal }) => entered(journal).length >= 3),
      );

      await postgres.stop();
      expect((await fetch(`${url}/ok`)).status).toBe(503);
      await sleep(OUTAGE_MS);
      postgres = await startEmbeddedPostgres(server);

      const status = async (run: (typeof runs)[number]) => (await client.runs.get(run.thread_id, run.run_id)).status;
      for (const run of runs) {
        await until("a run to succeed", async () => (await status(run)) === "success", { timeoutMs: 60_000 });
        const nodes = entered(run.journal);
        expect(new Set(nodes).size).toBe(20);
        // The node it was in when its lease ran out, and nothing that was finished.
        expect(nodes.length).toBeLessThanOrEqual(21);
      }
      for (const process of started) process.signal("SIGCONT"); // throws if it were another process by now
      expect(await Promise.race([api.exited, worker.exited, Promise.resolve("running")])).toBe("running");
    } finally {
      await Promise.all(started.map((process) => process.kill()));
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  },
  240_000 + OUTAGE_MS,
);
