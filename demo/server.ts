// Starts and stops `perdure dev` as a person would in a terminal, and knows the processes it is made of.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { BrokenPromise, until } from "./story.js";

/** What `perdure dev` writes to dev.json when it is ready. */
type DevJson = Readonly<{
  api_url: string;
  pids: Readonly<{ supervisor: number; api: number; workers: readonly number[] }>;
}>;

export type Server = Readonly<{
  apiUrl: string;
  /** The workers of now; a killed one is replaced. */
  workers(): Promise<readonly number[]>;
  /** Runs a command of the perdure CLI against this installation and returns its JSON. */
  cli(...args: readonly string[]): Promise<unknown>;
  /** Ends everything and returns once every process is gone. */
  stop(): Promise<void>;
}>;

const root = fileURLToPath(new URL("..", import.meta.url));
const binary = path.join(root, "dist", "main.js");

/**
 * Starts `perdure dev` with two workers on the data in `dir`, and waits until it answers. `undo` gets what ends it as soon
 * as there is something to end.
 */
export async function startServer(dir: string, undo: (() => Promise<void>)[]): Promise<Server> {
  const data = path.join(dir, "data");
  const devJson = path.join(data, "dev.json");
  // A file left by a server that was stopped hard would be taken for the new one's.
  await rm(devJson, { force: true });
  const args = ["dev", "--data-dir", data, "--port", String(await freePort()), "--workers", "2"];
  const log = openSync(path.join(dir, "server.log"), "a");
  const child = spawn(process.execPath, [binary, ...args], {
    cwd: root,
    env: environment(dir),
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  const read = async () => JSON.parse(await readFile(devJson, "utf8")) as DevJson;
  let ending: Promise<void> | undefined;
  // Once: afterwards the numbers of its processes may belong to others.
  const stop = () => (ending ??= end(child, data, read));
  undo.push(stop);
  const apiUrl = await until("perdure dev to answer", 60_000, async () => {
    if (child.exitCode !== null) throw new BrokenPromise(`perdure dev ended with exit code ${child.exitCode}`);
    const ready = await read().catch(() => null);
    if (ready === null) return null;
    const answer = await fetch(`${ready.api_url}/ok`).catch(() => null);
    return answer?.ok === true ? ready.api_url : null;
  });
  return {
    apiUrl,
    workers: async () => (await read()).pids.workers,
    cli: (...rest) => runCli([...rest, "--json", "--data-dir", data], environment(dir)),
    stop,
  };
}

/** Ours without what would lead the demo elsewhere: another database, another store, a model that costs money. */
function environment(dir: string): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(DATABASE_URL|HOST|PORT|ANTHROPIC_.*|PERDURE_.*|AWS_.*|NODE_OPTIONS)$/.test(name),
  );
  return { ...Object.fromEntries(kept), CALL_LOG: path.join(dir, "calls.jsonl"), SHOP_MS: "4000" };
}

async function runCli(args: readonly string[], env: NodeJS.ProcessEnv): Promise<unknown> {
  const child = spawn(process.execPath, [binary, ...args], { cwd: root, env, stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  await once(child, "close");
  if (child.exitCode !== 0) throw new BrokenPromise(`perdure ${args.join(" ")} ended with exit code ${child.exitCode}`);
  return JSON.parse(output);
}

/** Asks it to end and waits until each of its processes is gone, Postgres too; what stays is killed, and a failure. */
async function end(child: ChildProcess, data: string, read: () => Promise<DevJson>): Promise<void> {
  const pids = (await read().catch(() => null))?.pids;
  const all = [child.pid, pids?.api, ...(pids?.workers ?? []), await postgresPid(data)].filter(
    (pid) => pid !== undefined,
  );
  child.kill("SIGTERM");
  try {
    await until("perdure dev to stop", 30_000, async () => (all.some(isAlive) ? null : true));
  } catch (error) {
    for (const pid of all.filter(isAlive)) process.kill(pid, "SIGKILL");
    throw error;
  }
}

async function postgresPid(data: string): Promise<number | undefined> {
  const text = await readFile(path.join(data, "postgres", "postmaster.pid"), "utf8").catch(() => "");
  return Number(text.split("\n")[0]) || undefined;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}
