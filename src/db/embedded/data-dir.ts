// The data dir: made once, whole or not at all; knows its password and port; tells whose it is.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { EngineError } from "../../core/errors.js";
import type { Account } from "./account.js";
import type { Binaries } from "./binaries.js";
import { isRunning } from "./process.js";

/** What this build brings; a data dir of another one can't be opened. */
const MAJOR = "18";
const FACTS = "perdure.json";
export const USER = "perdure";

/** What we keep beside Postgres' own files: the superuser's password and the port it had last. */
export type Facts = Readonly<{ password: string; port: number | null }>;

/** Makes the data dir unless it is there; refuses one that is not ours. */
export async function ensureDataDir(dataDir: string, binaries: Binaries, account: Account): Promise<void> {
  if (await inspect(dataDir)) return;
  await writable(dataDir, () => mkdir(path.dirname(dataDir), { recursive: true }));
  await removeHalfMade(dataDir);
  const draft = `${dataDir}.init-${process.pid}-${randomBytes(4).toString("hex")}`;
  try {
    await initialize(dataDir, draft, binaries, account);
    await rename(draft, dataDir);
  } catch (error) {
    // Another process was faster, and its data dir is as good as ours.
    if (["ENOTEMPTY", "EEXIST"].includes((error as NodeJS.ErrnoException).code ?? "") && (await inspect(dataDir)))
      return;
    if (error instanceof EngineError) throw error;
    throw cantWrite(dataDir, error);
  } finally {
    await rm(draft, { recursive: true, force: true });
    await rm(`${draft}.password`, { force: true });
  }
}

export async function readFacts(dataDir: string): Promise<Facts> {
  const file = path.join(dataDir, FACTS);
  try {
    return JSON.parse(await readFile(file, "utf8")) as Facts;
  } catch (cause) {
    throw new EngineError(
      "config_invalid",
      `${file}, which holds the password of the data dir, can't be read (${(cause as Error).message}). Restore it, or choose another --data-dir.`,
      { cause },
    );
  }
}

export async function writeFacts(dataDir: string, facts: Facts): Promise<void> {
  const file = path.join(dataDir, FACTS);
  const draft = `${file}.${process.pid}`;
  await writable(dataDir, async () => {
    await writeFile(draft, JSON.stringify(facts), { mode: 0o600 });
    await rename(draft, file);
  });
}

/** The first lines of postmaster.pid, if there is one. */
export async function readPidFile(dataDir: string): Promise<{ pid: number; port: number } | null> {
  const text = await readFile(path.join(dataDir, "postmaster.pid"), "utf8").catch(() => null);
  if (text === null) return null;
  const [pid, , , port] = text.split("\n");
  return { pid: Number(pid), port: Number(port) };
}

/** True when it is a data dir of ours, false when there is none yet; anything else is refused. */
async function inspect(dataDir: string): Promise<boolean> {
  const entries = await readdir(dataDir).catch((error: NodeJS.ErrnoException): string[] => {
    if (error.code === "ENOENT") return [];
    throw cantWrite(dataDir, error);
  });
  if (entries.length === 0) return false;
  if (!entries.includes("PG_VERSION")) {
    throw new EngineError(
      "config_invalid",
      `${dataDir} is not empty and holds no Postgres data. Choose another --data-dir.`,
    );
  }
  const version = (await readFile(path.join(dataDir, "PG_VERSION"), "utf8")).trim();
  if (version !== MAJOR) {
    throw new EngineError(
      "config_invalid",
      `${dataDir} holds data of PostgreSQL ${version}; this perdure brings ${MAJOR}. Dump it with the Postgres that made it and restore it into a new --data-dir, or serve it with that Postgres and set DATABASE_URL.`,
    );
  }
  if (!entries.includes(FACTS)) {
    throw new EngineError(
      "config_invalid",
      `${dataDir} is a Postgres data dir that perdure did not make (it has no ${FACTS}). Choose another --data-dir, or set DATABASE_URL.`,
    );
  }
  return true;
}

async function initialize(dataDir: string, draft: string, binaries: Binaries, account: Account): Promise<void> {
  const password = randomBytes(24).toString("base64url");
  const passwordFile = `${draft}.password`;
  await writable(dataDir, async () => {
    await mkdir(draft, { mode: 0o700 });
    await writeFile(passwordFile, password, { mode: 0o600 });
  });
  await account.own(draft);
  await account.own(passwordFile);
  // The builtin C.UTF-8 sorts the same everywhere, whatever locales the system has.
  await runToEnd(
    account.command(binaries.initdb, [
      ...["-D", draft, "-U", USER, "-A", "scram-sha-256", "--pwfile", passwordFile, "-E", "UTF8"],
      ...["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"],
    ]),
    binaries,
  );
  await writeFacts(draft, { password, port: null });
}

function runToEnd(command: ReturnType<Account["command"]>, { env }: Binaries): Promise<void> {
  const { file, args, ...user } = command;
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { ...user, env, cwd: "/", stdio: ["ignore", "ignore", "pipe"] });
    let output = "";
    child.stderr.on("data", (chunk) => (output += String(chunk)));
    child.on("error", (cause) => reject(cantRun(file, cause.message, cause)));
    child.on("close", (code, signal) => {
      if (code === 0) resolve();
      else reject(cantRun("initdb", `${signal ?? `exit code ${code}`}: ${output.trim().split("\n", 1)[0]}`));
    });
  });
}

/** Why the programs didn't run, and the way round it. */
export function cantRun(program: string, why: string, cause?: unknown): EngineError {
  return new EngineError(
    "config_invalid",
    `The embedded Postgres can't run here: ${program}: ${why}. Set DATABASE_URL to a Postgres of your own (14 or newer).`,
    { cause },
  );
}

/** What processes that were killed in the middle of making it have left. */
async function removeHalfMade(dataDir: string): Promise<void> {
  const parent = path.dirname(dataDir);
  const prefix = `${path.basename(dataDir)}.init-`;
  for (const name of await readdir(parent)) {
    const pid = Number(name.startsWith(prefix) ? name.slice(prefix.length).split("-", 1)[0] : "NaN");
    if (Number.isNaN(pid) || isRunning(pid)) continue;
    await rm(path.join(parent, name), { recursive: true, force: true });
  }
}

async function writable<T>(dataDir: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw cantWrite(dataDir, error);
  }
}

function cantWrite(dataDir: string, cause: unknown): EngineError {
  const { code, message } = cause as NodeJS.ErrnoException;
  return new EngineError(
    "config_invalid",
    `The data dir ${dataDir} can't be used (${code ?? message}). Choose one that can be written to with --data-dir, or set DATABASE_URL.`,
    { cause },
  );
}
