// A real Postgres of our own, for `perdure dev` and for tests: started, adopted when an earlier process of ours left it
// running, started again when it dies. It listens on loopback only, and takes nobody without its password.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Log } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import { type Account, chooseAccount } from "./account.js";
import { type Binaries, findBinaries } from "./binaries.js";
import { cantRun, ensureDataDir, readFacts, readPidFile, USER, writeFacts } from "./data-dir.js";
import { isRunning, mayHold } from "./process.js";

const HOST = "127.0.0.1";
const LOG_FILE = "server.log";
const LOG_BYTES = 10_000_000;
/** How long a server that holds the data dir may be silent before it is refused. */
const ADOPT_MS = 15_000;
/** How long to try again after an exit: a killed server's children keep its memory for a moment. */
const RELAUNCH_MS = 10_000;
/** Recovery after a crash takes as long as there is log to replay. */
const READY_MS = 300_000;

export type EmbeddedOptions = Readonly<{
  dataDir: string;
  /** A fixed port; otherwise the one it had last, or a free one. */
  port?: number;
  log: Log;
  /** Server settings (`-c name=value`), for tests. */
  settings?: Readonly<Record<string, string>>;
}>;

export type EmbeddedPostgres = Readonly<{
  url: string;
  pid: number;
  /** True when it was running already. */
  adopted: boolean;
  /** Ends it cleanly: open transactions are rolled back, everything committed is on disk. */
  stop(): Promise<void>;
}>;

type Running = Readonly<{ pid: number; port: number }>;

/** Starts Postgres on the data dir, which is made if there is none, or adopts the one that runs there. */
export async function startEmbeddedPostgres(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const dataDir = path.resolve(options.dataDir);
  const account = await chooseAccount(dataDir);
  const binaries = await findBinaries(`${dataDir}.lib`);
  await ensureDataDir(dataDir, binaries, account);
  const running = await adopt(dataDir);
  const { pid, port } = running ?? (await launch({ ...options, dataDir }, binaries, account));
  options.log.info({ pid, port, adopted: running !== null }, "embedded Postgres is ready");
  const { password } = await readFacts(dataDir);
  return { url: urlOf(password, port), pid, adopted: running !== null, stop: () => stop(pid, dataDir) };
}

/** The same, and starts it again, on the same port, whenever it dies. */
export async function superviseEmbeddedPostgres(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const first = await startEmbeddedPostgres(options);
  const port = Number(new URL(first.url).port);
  let server = first;
  let stopped = false;
  const watching = (async () => {
    while (!stopped) {
      await sleep(250);
      if (stopped || isRunning(server.pid)) continue;
      options.log.warn({ pid: server.pid }, "embedded Postgres has died; it is started again");
      try {
        server = await startEmbeddedPostgres({ ...options, port });
      } catch (error) {
        options.log.error({ reason: (error as Error).message }, "embedded Postgres can't be started again yet");
        await sleep(1_000);
      }
    }
  })();
  return {
    url: first.url,
    adopted: first.adopted,
    get pid() {
      return server.pid;
    },
    async stop() {
      stopped = true;
      await watching;
      await server.stop();
    },
  };
}

/** The server that holds the data dir, once it answers; null when nobody holds it. Refuses one that isn't ours. */
async function adopt(dataDir: string): Promise<Running | null> {
  const { password } = await readFacts(dataDir);
  for (const endMs = performance.now() + ADOPT_MS; ; await sleep(50)) {
    const held = await readPidFile(dataDir);
    if (held === null || !mayHold(held.pid, dataDir)) return null;
    const answer = Number.isInteger(held.port) ? await ask(password, held.port) : "silent";
    if (answer === "ours") return held;
    if (answer === "foreign" || performance.now() > endMs) {
      throw new EngineError(
        "config_invalid",
        `The data dir ${dataDir} is in use by process ${held.pid}, which ${answer === "foreign" ? "does not take our password" : "does not answer"}. Stop that process, or choose another --data-dir.`,
        { details: { pid: held.pid } },
      );
    }
  }
}

async function launch(options: EmbeddedOptions, binaries: Binaries, account: Account): Promise<Running> {
  const { dataDir, log } = options;
  const facts = await readFacts(dataDir);
  for (const endMs = performance.now() + RELAUNCH_MS; ; await sleep(200)) {
    removeStalePidFile(dataDir, await readPidFile(dataDir));
    const port = await choosePort(options.port, facts.port);
    const child = spawnServer(options, port, binaries, account);
    if (await becomesReady(child, facts.password, port)) {
      if (port !== facts.port) await writeFacts(dataDir, { ...facts, port });
      return { pid: child.pid ?? 0, port };
    }
    // Another process may have been faster with the same data dir.
    const other = await adopt(dataDir);
    if (other !== null) return other;
    const reason = lastFatal(dataDir);
    if (performance.now() > endMs) throw cantRun("postgres", reason);
    log.debug({ reason }, "embedded Postgres did not start; trying again");
  }
}

/** A killed server's pid may belong to another process now, which Postgres would take for a running server. */
function removeStalePidFile(dataDir: string, held: { pid: number } | null): void {
  if (held !== null && isRunning(held.pid) && !mayHold(held.pid, dataDir)) {
    rmSync(path.join(dataDir, "postmaster.pid"), { force: true });
  }
}

function spawnServer(
  options: EmbeddedOptions,
  port: number,
  { postgres, env }: Binaries,
  account: Account,
): ChildProcess {
  const { dataDir } = options;
  const settings: Record<string, string> = {
    listen_addresses: HOST,
    port: String(port),
    unix_socket_directories: "",
    max_connections: "200",
    timezone: "UTC",
    ...options.settings,
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const { file, args, ...user } = account.command(postgres, ["-D", dataDir, ...flags]);
  const logFile = path.join(dataDir, LOG_FILE);
  rotate(logFile);
  const output = openSync(logFile, "a", 0o600);
  // A session of its own: Ctrl-C on our terminal must not end it before us, nor our death by kill -9 at all.
  const child = spawn(file, args, { ...user, env, cwd: "/", detached: true, stdio: ["ignore", output, output] });
  child.on("error", () => undefined); // it never ran, which is seen from its missing pid
  child.unref();
  closeSync(output);
  return child;
}

/** True once it takes connections, false when it has ended before. */
async function becomesReady(child: ChildProcess, password: string, port: number): Promise<boolean> {
  for (const endMs = performance.now() + READY_MS; performance.now() < endMs; await sleep(20)) {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return false;
    if ((await ask(password, port)) === "ours") return true;
  }
  throw cantRun("postgres", `not ready after ${READY_MS / 1000} s`);
}

/** Who answers on a port: SCRAM proves both sides, so whoever takes our password is ours. */
async function ask(password: string, port: number): Promise<"ours" | "foreign" | "silent"> {
  const client = new pg.Client({ connectionString: urlOf(password, port), connectionTimeoutMillis: 2_000 });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return "ours";
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "53300") return "ours"; // it has no room left, not even for this question
    return code?.startsWith("28") ? "foreign" : "silent";
  } finally {
    await client.end().catch(() => undefined);
  }
}

function urlOf(password: string, port: number): string {
  return `postgres://${USER}:${password}@${HOST}:${port}/postgres`;
}

async function choosePort(wanted: number | undefined, last: number | null): Promise<number> {
  if (wanted !== undefined) {
    if (await isFree(wanted)) return wanted;
    throw new EngineError("config_invalid", `Port ${wanted} on ${HOST}, wanted for the embedded Postgres, is in use.`);
  }
  if (last !== null && (await isFree(last))) return last;
  return freePort(0);
}

function isFree(port: number): Promise<boolean> {
  return freePort(port).then(
    () => true,
    () => false,
  );
}

function freePort(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ host: HOST, port, exclusive: true }, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : port));
    });
  });
}

async function stop(pid: number, dataDir: string): Promise<void> {
  const ways: [NodeJS.Signals, number][] = [
    ["SIGINT", 15_000], // fast shutdown, with a checkpoint
    ["SIGQUIT", 5_000], // immediate, recovers at the next start
    ["SIGKILL", 5_000],
  ];
  for (const [signal, waitMs] of ways) {
    if (!mayHold(pid, dataDir)) return;
    process.kill(pid, signal);
    for (const endMs = performance.now() + waitMs; performance.now() < endMs; await sleep(10)) {
      if (!isRunning(pid)) return;
    }
  }
}

function rotate(logFile: string): void {
  const size = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0;
  if (size > LOG_BYTES) renameSync(logFile, `${logFile}.1`);
}

function lastFatal(dataDir: string): string {
  const logFile = path.join(dataDir, LOG_FILE);
  const lines = readFileSync(logFile, "utf8").trim().split("\n");
  return `${lines.findLast((line) => /FATAL|PANIC|error while loading/.test(line)) ?? lines.at(-1) ?? ""} (more in ${logFile})`;
}
