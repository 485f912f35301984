// The process of a run that has crashed before: it doesn't outlive its worker.
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { claimRuns } from "../../src/runs/claim.js";
import { startProxy } from "../helpers/proxy.js";
import { until } from "../helpers/wait.js";
import { withCrashSite } from "./setup.js";

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
const CLAIM = { slots: 1, owner: "a worker", leaseMs: 60_000, graphIds: ["steps"], versions: ["1"] };

test("a worker dies while the database is away: the process it had started for a run ends as well", async () => {
  const folder = mkdtempSync(join(tmpdir(), "perdure-isolated-"));
  await withCrashSite(async (site) => {
    const journal = site.journal();
    const { thread_id } = await site.client.threads.create();
    await site.client.runs.create(thread_id, "steps", {
      input: { log: [] },
      config: { configurable: { journal: journal.path, step_ms: 100 } },
    });
    const [run] = await claimRuns(site.db.db, CLAIM);
    const proxy = await startProxy(site.db.url);
    const databaseUrl = new URL(site.db.url);
    databaseUrl.host = `127.0.0.1:${proxy.port}`;
    const child = fork(path("../../dist/main.js"), ["execute-claim", "--config", path("graphs/langgraph.json")], {
      execArgv: [],
      env: { PATH: process.env["PATH"], DATABASE_URL: databaseUrl.href, PERDURE_BODIES: `file://${folder}` },
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    const exited = once(child, "exit");
    const isGone = () => child.exitCode !== null || child.signalCode !== null;
    try {
      child.send({
        kind: "execute",
        run: { ...run, crashes: 1, request: null },
        lease: { ...run, owner: CLAIM.owner },
      });
      await until("the run to be on its way", () => journal.count("leave s2") === 1);
      proxy.faults.stalled = true;
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(isGone()).toBe(false);
      child.disconnect();
      await until("the process to end", isGone, { timeoutMs: 15_000 });
    } finally {
      child.kill("SIGKILL");
      await exited;
      await proxy.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
}, 60_000);
