// Servers under load: perdure as an operator starts it, and the peers that speak HTTP.
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { createLog } from "../../../src/observe/log.js";
import { migrateDatabase } from "../../../src/cli/migrate.js";
import { type Server, startChild, startServer } from "./children.js";
import { freePort, type Postgres } from "./postgres.js";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const BINARY = path.join(ROOT, "dist/main.js");
const CONFIG = fileURLToPath(new URL("../graphs/langgraph.json", import.meta.url));

/** Runs at a time, for every server that has such a setting. */
const SLOTS = 50;

export type Installation = Readonly<{
  url: string;
  /** Of all its processes that serve HTTP. */
  urls: readonly string[];
  database: string;
  databaseUrl: string;
  /** Of its processes: the API first. */
  pids: readonly number[];
  stop(): Promise<void>;
}>;

export type PerdureOptions = Readonly<{
  /** `start`: API and loops in one process. `twice`: two such. `apart`: an API process, and so many worker processes. */
  processes: "start" | "twice" | "apart";
  workers?: number;
  /** Runs at a time, of each process. */
  slots?: number;
  /** As an operator sets it; PERDURE_MOVE_AFTER_MS. */
  moveAfterMs?: number;
}>;

/** A new database and an empty folder for bodies, both gone after `stop`. */
export async function startPerdure(server: Postgres, options: PerdureOptions): Promise<Installation> {
  const database = "bench_perdure";
  const databaseUrl = await server.createDatabase(database);
  await migrateDatabase(databaseUrl, createLog("warn"));
  const bodies = mkdtempSync(path.join(os.tmpdir(), "perdure-bench-bodies-"));
  const urls: string[] = [];
  const env = {
    DATABASE_URL: databaseUrl,
    PERDURE_BODIES: `file://${bodies}`,
    PERDURE_AUTH: "off",
    PERDURE_CONCURRENCY: String(options.slots ?? SLOTS),
    ...(options.moveAfterMs === undefined ? {} : { PERDURE_MOVE_AFTER_MS: String(options.moveAfterMs) }),
  };
  const start = (command: "start" | "api" | "worker", ...args: string[]) =>
    startServer([BINARY, command, "--config", CONFIG, ...args], {
      cwd: ROOT,
      env,
      ready: new RegExp(`perdure ${command} is ready`),
    });
  const serve = async (command: "start" | "api"): Promise<Server> => {
    const port = await freePort();
    const serving = await start(command, "--port", String(port));
    urls.push(`http://127.0.0.1:${port}`);
    return serving;
  };
  const processes: Server[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(processes.map((process) => process.stop()));
    await server.dropDatabase(database);
    rmSync(bodies, { recursive: true, force: true });
  };
  try {
    processes.push(await serve(options.processes === "apart" ? "api" : "start"));
    if (options.processes === "twice") processes.push(await serve("start"));
    if (options.processes === "apart") {
      for (let n = 0; n < (options.workers ?? 1); n += 1) processes.push(await start("worker"));
    }
  } catch (error) {
    await stop();
    throw error;
  }
  const [url = ""] = urls;
  return { url, urls, database, databaseUrl, pids: processes.map(({ pid }) => pid), stop };
}

export type Peer = Readonly<{ url: string; pid: number; stop(): Promise<void> }>;

/** `langgraphjs dev`: the development server of the same API, with its state in memory. */
export async function startDevServer(): Promise<Peer> {
  const state = fileURLToPath(new URL("../graphs/.langgraph_api", import.meta.url));
  rmSync(state, { recursive: true, force: true });
  const port = await freePort();
  const entry = createRequire(import.meta.url).resolve("@langchain/langgraph-cli/package.json");
  const cli = path.join(path.dirname(entry), "dist/cli/cli.mjs");
  const address = ["-p", String(port), "-h", "127.0.0.1"];
  const args = [cli, "dev", "--no-browser", "--no-reload", ...address, "-n", String(SLOTS), "-c", "langgraph.json"];
  const server = await startServer(args, { cwd: path.dirname(CONFIG), env: {}, ready: /Server running at/ });
  return {
    url: `http://127.0.0.1:${port}`,
    pid: server.pid,
    async stop() {
      await server.stop();
      rmSync(state, { recursive: true, force: true });
    },
  };
}

/** A queue of one's own around PostgresSaver. */
export async function startSkeleton(databaseUrl: string): Promise<Peer> {
  const port = await freePort();
  const child = startChild("skeleton");
  await child.call("open", { url: databaseUrl, port, slots: SLOTS });
  return { url: `http://127.0.0.1:${port}`, pid: child.pid, stop: () => child.stop() };
}
