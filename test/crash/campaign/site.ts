// An installation to be broken: Postgres behind a proxy, two API processes, workers; each of them started again when it dies.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { migrateDatabase } from "../../../src/cli/migrate.js";
import type { Db } from "../../../src/core/deps.js";
import { superviseEmbeddedPostgres } from "../../../src/db/embedded/server.js";
import { openDb } from "../../../src/db/pool.js";
import { createLog } from "../../../src/observe/log.js";
import { quietPort } from "../../helpers/ports.js";
import { type FaultProxy, startProxy, through } from "../../helpers/proxy.js";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const BINARY = path.join(ROOT, "dist/main.js");
const CONFIG = fileURLToPath(new URL("langgraph.json", import.meta.url));
const log = createLog("silent");

export const LEASE_MS = 4_000;
const POLL_MS = 250;

/** A process that is there again soon after it has died. */
export type Undying = Readonly<{
  name: string;
  pid(): number | undefined;
  signal(signal: NodeJS.Signals): void;
  stop(): Promise<void>;
}>;

export type Site = Readonly<{
  urls: readonly string[];
  /** On a way of its own, past the proxy. */
  db: Db;
  proxy: FaultProxy;
  apis: readonly Undying[];
  workers: readonly Undying[];
  /** Kills Postgres as a power cut would, as far as a process can; it is started again. */
  killPostgres(): void;
  close(): Promise<void>;
}>;

export async function openSite(
  env: Readonly<Record<string, string>>,
  counts: { apis: number; workers: number },
): Promise<Site> {
  const home = await mkdtemp(path.join(os.tmpdir(), "perdure-campaign-"));
  const postgres = await superviseEmbeddedPostgres({ dataDir: path.join(home, "data"), log });
  await migrateDatabase(postgres.url, log);
  const db = openDb({ url: postgres.url, max: 4, log, applicationName: "campaign" });
  const proxy = await startProxy(postgres.url);
  const ports = await Promise.all(Array.from({ length: counts.apis }, () => quietPort()));
  const common = {
    ...env,
    DATABASE_URL: through(proxy, postgres.url),
    PERDURE_BODIES: `file://${home}/bodies`,
    PERDURE_LEASE_MS: String(LEASE_MS),
    PERDURE_POLL_MS: String(POLL_MS),
    PERDURE_MOVE_AFTER_MS: "500",
    PERDURE_LOG_LEVEL: process.env["CAMPAIGN_LOG"] ?? "silent",
  };
  const apis = ports.map((port, i) => keepAlive(`api ${i}`, ["api", "--port", String(port)], common));
  const workers = Array.from({ length: counts.workers }, (_, i) => keepAlive(`worker ${i}`, ["worker"], common));
  return {
    urls: ports.map((port) => `http://127.0.0.1:${port}`),
    db,
    proxy,
    apis,
    workers,
    killPostgres: () => process.kill(postgres.pid, "SIGKILL"),
    async close() {
      await Promise.all([...apis, ...workers].map((process) => process.stop()));
      await db.close();
      await proxy.close();
      await postgres.stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}

function keepAlive(name: string, args: readonly string[], env: Readonly<Record<string, string>>): Undying {
  let stopping = false;
  let child: ChildProcess | undefined;
  const start = (): ChildProcess => {
    const started = spawn(process.execPath, [BINARY, ...args, "--config", CONFIG], {
      cwd: ROOT,
      env: { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "", ...env },
      stdio: ["ignore", "ignore", process.env["CAMPAIGN_LOG"] === undefined ? "ignore" : "inherit"],
    });
    child = started;
    return started;
  };
  const life = (async () => {
    while (!stopping) {
      await once(start(), "exit");
      if (!stopping) await sleep(50);
    }
  })();
  return {
    name,
    pid: () => child?.pid,
    signal: (signal) => void child?.kill(signal),
    async stop() {
      stopping = true;
      child?.kill("SIGCONT");
      child?.kill("SIGTERM");
      const timer = setTimeout(() => child?.kill("SIGKILL"), 10_000);
      await life;
      clearTimeout(timer);
    },
  };
}
