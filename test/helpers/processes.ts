// Real processes of ours (`node dist/main.js …`) for tests that kill them. A test file that leaves one running fails.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll } from "vitest";
import { isRunning } from "../../src/db/embedded/process.js";
import { until } from "./wait.js";

export type TestProcess = Readonly<{
  pid: number;
  /** Everything it has written so far, both streams as they came. */
  output(): string;
  stdout(): string;
  /** Waits until the output matches; fails at once when the process has ended without. */
  waitFor(pattern: RegExp | string, timeoutMs?: number): Promise<RegExpMatchArray>;
  /** How it ended, once it has. */
  exited: Promise<Readonly<{ code: number | null; signal: NodeJS.Signals | null }>>;
  /** SIGKILL, SIGSTOP, SIGCONT …: to this process only. */
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
  /** SIGTERM, and waits; SIGKILL after the time-out. */
  stop(timeoutMs?: number): Promise<number | null>;
}>;

export type ProcessOptions = Readonly<{
  env?: Readonly<Record<string, string>>;
  cwd?: string;
  /** Another program than our binary, run by node. */
  script?: string;
  stdin?: string;
  /** Another user to run as; for root only. */
  uid?: number;
}>;

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const BINARY = fileURLToPath(new URL("../../dist/main.js", import.meta.url));
/** What a child gets of our own environment: nothing that configures perdure. */
const KEPT = ["PATH", "HOME", "TMPDIR", "LANG"];

/** These let nobody in unless they are told to; tests of that give an empty PERDURE_AUTH. */
const SERVING: ReadonlySet<string> = new Set(["start", "api"]);

const started = new Set<TestProcess>();

/** Starts `perdure <args>`. */
export function startProcess(args: readonly string[], options: ProcessOptions = {}): TestProcess {
  const program = options.script ?? BINARY;
  if (!existsSync(program)) throw new Error(`${program} is missing: run npm run build first`);
  const child = spawn(process.execPath, [program, ...args], {
    cwd: options.cwd ?? ROOT,
    env: { ...kept(), ...(SERVING.has(args[0] ?? "") && { PERDURE_AUTH: "off" }), ...options.env },
    ...(options.uid !== undefined && { uid: options.uid, gid: options.uid }),
    // A group of its own, so that what it starts can be ended with it.
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  child.stdin.end(options.stdin ?? "");
  const testProcess = follow(child, [program, ...args].join(" "));
  started.add(testProcess);
  return testProcess;
}

/** Runs `perdure <args>` to its end. */
export async function runProcess(
  args: readonly string[],
  options: ProcessOptions = {},
): Promise<Readonly<{ code: number | null; stdout: string; output: string }>> {
  const child = startProcess(args, options);
  const { code } = await child.exited;
  return { code, stdout: child.stdout(), output: child.output() };
}

function follow(child: ChildProcess, name: string): TestProcess {
  const { pid } = child;
  if (pid === undefined) throw new Error(`${name} could not be started`);
  let stdout = "";
  let output = "";
  let ended = false;
  child.stdout?.on("data", (chunk) => {
    stdout += String(chunk);
    output += String(chunk);
  });
  child.stderr?.on("data", (chunk) => (output += String(chunk)));
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.on("exit", (code, signal) => {
      ended = true;
      const settle = (): void => resolve({ code, signal });
      child.on("close", settle);
      // What it started may outlive it and hold its streams open. After a timer what was written is read first.
      setTimeout(() => setImmediate(settle), 500).unref();
    });
  });
  const signal = (signal: NodeJS.Signals): void => void child.kill(signal);
  const kill = async (): Promise<void> => {
    signal("SIGKILL");
    await until(`${name} is gone`, () => !isRunning(pid));
  };
  return {
    pid,
    output: () => output,
    stdout: () => stdout,
    exited,
    signal,
    kill,
    async waitFor(pattern, timeoutMs = 60_000) {
      const what = `${String(pattern)} from ${name}`;
      const found = await until(what, () => output.match(pattern) ?? (ended ? "ended" : null), { timeoutMs });
      if (found === "ended") throw new Error(`${what}: it has ended; its output: ${output.slice(-2_000)}`);
      return found;
    },
    async stop(timeoutMs = 60_000) {
      signal("SIGTERM");
      const timer = setTimeout(() => signal("SIGKILL"), timeoutMs);
      const { code } = await exited;
      clearTimeout(timer);
      return code;
    },
  };
}

// Registered when the test file imports this, before its own hooks, and so it runs after them.
afterAll(() => {
  const left = [...started].filter(({ pid }) => isRunning(pid));
  started.clear();
  for (const { pid } of left) endGroup(pid);
  if (left.length > 0)
    throw new Error(
      `left running: ${left.map(({ pid }) => pid).join(", ")}; their last output: ${left.map(({ output }) => output().slice(-500)).join("\n")}`,
    );
});

function endGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has just ended by itself.
  }
}

function kept(): Record<string, string> {
  return Object.fromEntries(
    KEPT.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}
