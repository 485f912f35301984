// An installation to be broken: Postgres behind a proxy, two API processes, workers; each of them started again when it dies.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { migrateDatabase } from "../../../src/cli/migrate.js";
import type { Db } from "../../../src/core/deps.js";
import { superviseEmbeddedPostgres } from "../../../src/db/embedded/server.js";
import { openDb } from "../../../src/db/pool.js";
import { createLog } from "../../../src/observe/log.js";
import { installClock, withMovableClock } from "../../../src/testing/clock.js";
import { quietPort } from "../../helpers/ports.js";
import { type FaultProxy, startProxy, through } from "../../helpers/proxy.js";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const BINARY = path.join(ROOT, "dist/main.js");
const CONFIG = fileURLToPath(new URL("langgraph.json", import.meta.url));
const REAPER = fileURLToPath(new URL("reaper.mjs", import.meta.url));
const CLOCK = fileURLToPath(new URL("clock.mjs", import.meta.url));
const log = createLog("silent");

export const LEASE_MS = 4_000;
const POLL_MS = 250;

/** A process that is there again soon after it has died. */
export type Undying = Readonly<{
  pid(): number | undefined;
  /** False when it was dead. */
  signal(signal: NodeJS.Signals): boolean;
  /** From now on, whoever lives: its wall clock is wrong by so much. */
  setClock(offsetMs: number): void;
  stop(): Promise<void>;
}>;

export type Site = Readonly<{
  /** Where its data is, and what runs for it now. */
  describe(): string;
  urls: readonly string[];
  /** On a way of its own, past the proxy. */
  db: Db;
  proxy: FaultProxy;
  apis: readonly Undying[];
  workers: readonly Undying[];
  /** Kills Postgres as a power cut would, as far as a process can; it is started again. */
  killPostgres(): void;
  /** Ends every session on the database but ours; tells how many. */
  terminateBackends(): Promise<number>;
  /** The database's clock is wrong by so much from now on. */
  setDatabaseClock(offsetMs: number): Promise<void>;
  close(): Promise<void>;
}>;

/** What it starts ends with this process, even if that is killed. */
export async function openSite(
  env: Readonly<Record<string, string>>,
  counts: { apis: number; workers: number },
): Promise<Site> {
  const home = mkdtempSync(path.join(os.tmpdir(), "perdure-campaign-"));
  const reaper = startReaper(home);
  const postgres = await superviseEmbeddedPostgres({ dataDir: path.join(home, "data"), log });
  await migrateDatabase(postgres.url, log);
  const db = openDb({ url: withMovableClock(postgres.url), max: 4, log, applicationName: "campaign" });
  await installClock(db);
  const proxy = await startProxy(postgres.url);
  const ports = await Promise.all(Array.from({ length: counts.apis }, () => quietPort()));
  const common = {
    ...env,
    DATABASE_URL: withMovableClock(through(proxy, postgres.url)),
    PERDURE_BODIES: `file://${home}/bodies`,
    PERDURE_AUTH: "off",
    PERDURE_LEASE_MS: String(LEASE_MS),
    PERDURE_POLL_MS: String(POLL_MS),
    PERDURE_MOVE_AFTER_MS: "500",
    PERDURE_LOG_LEVEL: process.env["CAMPAIGN_LOG"] ?? "silent",
    NODE_OPTIONS: `--import=${pathToFileURL(CLOCK).href}`,
  };
  let started = 0;
  const start = (args: readonly string[]): Undying =>
    keepAlive(args, { env: common, clockFile: path.join(home, `clock-${++started}`), reaper });
  const apis = ports.map((port) => start(["api", "--port", String(port)]));
  const workers = Array.from({ length: counts.workers }, () => start(["worker"]));
  return {
    describe: () =>
      `${home}: Postgres ${postgres.pid}, processes ${[...apis, ...workers].map((process) => process.pid()).join(" ")}`,
    urls: ports.map((port) => `http://127.0.0.1:${port}`),
    db,
    proxy,
    apis,
    workers,
    killPostgres: () => process.kill(postgres.pid, "SIGKILL"),
    async terminateBackends() {
      const { rowCount } = await db.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`,
      );
      return rowCount;
    },
    async setDatabaseClock(offsetMs) {
      await db.query("update perdure_clock.moved set by = $1::float8 * interval '1 ms'", [offsetMs]);
    },
    async close() {
      await Promise.all([...apis, ...workers].map((process) => process.stop()));
      await db.close();
      await proxy.close();
      await postgres.stop();
      await rm(home, { recursive: true, force: true });
      reaper.tell("done");
    },
  };
}

type Reaper = Readonly<{ tell(line: string): void }>;

/** A group of its own, so that Ctrl-C doesn't end it before it has done its work. */
function startReaper(home: string): Reaper {
  const child = spawn(process.execPath, [REAPER, home], { detached: true, stdio: ["pipe", "ignore", "inherit"] });
  child.unref();
  return { tell: (line) => void child.stdin.write(`${line}\n`) };
}

type Life = Readonly<{ env: Readonly<Record<string, string>>; clockFile: string; reaper: Reaper }>;

function keepAlive(args: readonly string[], { env, clockFile, reaper }: Life): Undying {
  let stopping = false;
  let child: ChildProcess | undefined;
  const setClock = (offsetMs: number): void => writeFileSync(clockFile, String(offsetMs));
  setClock(0);
  const start = (): ChildProcess => {
    const started = spawn(process.execPath, [BINARY, ...args, "--config", CONFIG], {
      cwd: ROOT,
      env: { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "", CAMPAIGN_CLOCK: clockFile, ...env },
      stdio: ["ignore", "ignore", process.env["CAMPAIGN_LOG"] === undefined ? "ignore" : "inherit"],
    });
    reaper.tell(`started ${started.pid}`);
    child = started;
    return started;
  };
  const life = (async () => {
    while (!stopping) {
      const born = start();
      await once(born, "exit");
      reaper.tell(`ended ${born.pid}`);
      if (!stopping) await sleep(50);
    }
  })();
  return {
    pid: () => child?.pid,
    signal: (signal) => child?.kill(signal) ?? false,
    setClock,
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
