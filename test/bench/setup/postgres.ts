// The Postgres of a benchmark: BENCH_DATABASE_URL, else Debian's in a folder that goes away with it, else the embedded one.
// Durable as in production: fsync and synchronous_commit are on, or the benchmark does not start.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import pg from "pg";
import { startEmbeddedPostgres } from "../../../src/db/embedded/server.js";
import { createLog } from "../../../src/observe/log.js";
import { until } from "../../helpers/wait.js";
import { keep } from "./children.js";
import { parentNamed } from "../measure/cpu.js";

const run = promisify(execFile);

export type Postgres = Readonly<{
  /** As the server tells it. */
  version: string;
  /** Which of its counters can be read. */
  counts: Readonly<{ statements: boolean; commits: boolean }>;
  /** Of the server process; null when it runs elsewhere. */
  pid: number | null;
  urlOf(database: string): string;
  /** Drops what has that name, whoever is connected to it. */
  createDatabase(name: string): Promise<string>;
  dropDatabase(name: string): Promise<void>;
  stop(): Promise<void>;
}>;

/** Sizes that a small production server has; what makes commits durable is Postgres' default and said again. */
const SETTINGS: Readonly<Record<string, string>> = {
  fsync: "on",
  synchronous_commit: "on",
  full_page_writes: "on",
  max_connections: "200",
  shared_buffers: "512MB",
  max_wal_size: "8GB",
  checkpoint_timeout: "30min",
  shared_preload_libraries: "pg_stat_statements",
  "pg_stat_statements.max": "10000",
};

type Started = Readonly<{ url: string; stop(): Promise<void> }>;

export async function startPostgres(): Promise<Postgres> {
  const given = process.env["BENCH_DATABASE_URL"];
  const started = given ? { url: given, stop: async () => {} } : await startOwn();
  try {
    return await inspect(started);
  } catch (error) {
    await started.stop();
    throw error;
  }
}

async function startOwn(): Promise<Started> {
  await run("bash", [fileURLToPath(new URL("../../install.sh", import.meta.url)), "postgresql"]);
  const home = mkdtempSync(path.join(os.tmpdir(), "perdure-bench-postgres-"));
  const bin = debianBinaries();
  const { url, stop } = bin === undefined ? await startEmbedded(home) : await startDebian(bin, home);
  return {
    url,
    async stop() {
      await stop();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

function debianBinaries(): string | undefined {
  const root = "/usr/lib/postgresql";
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : [];
  return versions
    .map((version) => path.join(root, version, "bin"))
    .find((bin) => existsSync(path.join(bin, "postgres")));
}

function startEmbedded(home: string): Promise<Started> {
  return startEmbeddedPostgres({ dataDir: path.join(home, "data"), log: createLog("warn"), settings: SETTINGS });
}

/** Postgres refuses root: then it runs as Debian's own user. */
async function startDebian(bin: string, home: string): Promise<Started> {
  const as = process.getuid?.() === 0 ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : [];
  if (as.length > 0) {
    const { stdout } = await run("id", ["-u", "postgres"]);
    chownSync(home, Number(stdout), statSync(home).gid);
  }
  const data = path.join(home, "data");
  const asUser = (program: string, args: readonly string[]): [string, string[]] => {
    const [file = "", ...rest] = [...as, path.join(bin, program), ...args];
    return [file, rest];
  };
  const initdb = ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"];
  await run(...asUser("initdb", initdb), { cwd: home });
  const port = await freePort();
  const all = { ...SETTINGS, listen_addresses: "127.0.0.1", port: String(port), unix_socket_directories: "" };
  const options = Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const server = spawn(...asUser("postgres", ["-D", data, ...options]), { cwd: home, stdio: "ignore" });
  keep(server);
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  await until("Postgres to answer", () => ask(url, "select 1"));
  return { url, stop: () => stopServer(server) };
}

async function stopServer(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const gone = once(server, "exit");
  server.kill("SIGINT");
  await gone;
}

async function inspect({ url, stop }: Started): Promise<Postgres> {
  const [facts] = await ask<{ version: string; fsync: string; synchronous_commit: string; pid: number }>(
    url,
    `select version(), current_setting('fsync') as fsync, pg_backend_pid() as pid,
      current_setting('synchronous_commit') as synchronous_commit`,
  );
  if (facts?.fsync !== "on" || facts.synchronous_commit === "off") {
    throw new Error("fsync and synchronous_commit must be on: without them nothing durable would be measured");
  }
  const named = (database: string): string => {
    const changed = new URL(url);
    changed.pathname = `/${database}`;
    return changed.toString();
  };
  // A benchmark's connections ask for the maintenance database by this name.
  const maintenance = named("postgres");
  const extension = (name: string): Promise<boolean> =>
    ask(maintenance, `create extension if not exists ${name}`).then(
      () => true,
      () => false,
    );
  const works = async (text: string): Promise<boolean> =>
    ask(maintenance, text).then(
      () => true,
      () => false,
    );
  const dropDatabase = async (name: string) =>
    void (await ask(maintenance, `drop database if exists ${name} with (force)`));
  return {
    version: facts.version.split(" ").slice(0, 2).join(" "),
    counts: {
      statements: (await extension("pg_stat_statements")) && (await works("select count(*) from pg_stat_statements")),
      commits: await extension("pg_walinspect"),
    },
    pid: await serverPid(maintenance),
    urlOf: named,
    async createDatabase(name) {
      await dropDatabase(name);
      await ask(maintenance, `create database ${name}`);
      return named(name);
    },
    dropDatabase,
    stop,
  };
}

/** The postmaster: the parent of a backend, while that lives. */
async function serverPid(url: string): Promise<number | null> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
    return rows[0] === undefined ? null : parentNamed(rows[0].pid, /^postgres/);
  } finally {
    await client.end();
  }
}

/** One statement on a connection of its own. */
export async function ask<R extends object>(url: string, text: string, values: unknown[] = []): Promise<R[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<R & pg.QueryResultRow>(text, values)).rows;
  } finally {
    await client.end();
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (typeof address !== "object" || address === null) throw new Error("no free port");
  return address.port;
}
