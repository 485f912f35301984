// The processes of a benchmark: scripts of ours that are asked over a channel, and servers. What is left is killed at exit.
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { until } from "../../helpers/wait.js";
import type { Answer, Call } from "../children/calls.js";

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Has it killed at exit, if it is still there; returns its pid. */
export function keep(child: ChildProcess): number {
  running.add(child);
  child.once("exit", () => running.delete(child));
  if (child.pid === undefined) throw new Error("a process of the benchmark could not be started");
  return child.pid;
}

/** SIGTERM, and after the time-out SIGKILL. */
async function end(child: ChildProcess, timeoutMs = 15_000): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
  await gone;
  clearTimeout(timer);
}

/** A script of `children/` in a process of its own. */
export type Child = Readonly<{
  pid: number;
  /** Asks it; rejects with what it threw, or when it has ended. */
  call<T>(method: string, args?: object): Promise<T>;
  stop(): Promise<void>;
}>;

export function startChild(script: string, env: Readonly<Record<string, string>> = {}): Child {
  const file = fileURLToPath(new URL(`../children/${script}.ts`, import.meta.url));
  const child = fork(file, [], { execArgv: ["--import", "tsx"], env: { ...process.env, ...QUIET, ...env } });
  const pid = keep(child);
  const waiting = new Map<number, (answer: Answer) => void>();
  let calls = 0;
  child.on("message", (answer: Answer) => waiting.get(answer.id)?.(answer));
  child.on("exit", (code, signal) => {
    for (const [id, settle] of waiting) settle({ id, error: `${script} ended (${signal ?? code})` });
  });
  return {
    pid,
    call: <T>(method: string, args: object = {}) =>
      new Promise<T>((resolve, reject) => {
        const id = ++calls;
        waiting.set(id, (answer) => {
          waiting.delete(id);
          if ("error" in answer) reject(new Error(`${script}, ${method}: ${answer.error}`));
          else resolve(answer.result as T);
        });
        child.send({ id, method, args } satisfies Call);
      }),
    stop: () => end(child),
  };
}

export type Server = Readonly<{ pid: number; stop(): Promise<void> }>;

/** Starts a program of node and waits until what it prints matches `ready`. */
export async function startServer(
  args: readonly string[],
  options: Readonly<{ cwd: string; env: Readonly<Record<string, string>>; ready: RegExp }>,
): Promise<Server> {
  const child = spawn(process.execPath, args, {
    cwd: options.cwd,
    env: { ...process.env, ...QUIET, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const pid = keep(child);
  let tail = "";
  const follow = (chunk: unknown): void => {
    tail = (tail + String(chunk)).slice(-8_000);
  };
  child.stdout.on("data", follow);
  child.stderr.on("data", follow);
  const what = `node ${args.join(" ")}`;
  await until(`${what} to be ready`, () => options.ready.test(tail) || child.exitCode !== null, { timeoutMs: 60_000 });
  if (child.exitCode !== null) throw new Error(`${what} ended: ${tail}`);
  return { pid, stop: () => end(child) };
}

/** No peer shall phone home, and a proxy of the machine has no business between its processes. */
const QUIET = {
  LANGCHAIN_TRACING_V2: "false",
  LANGSMITH_TRACING: "false",
  LANGGRAPH_CLI_NO_ANALYTICS: "1",
  DO_NOT_TRACK: "1",
  NODE_NO_WARNINGS: "1",
};
