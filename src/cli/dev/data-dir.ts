// A development server's folder: who holds it (dev.lock), and where to find what runs there (dev.json).
import { execFile } from "node:child_process";
import { mkdir, open, readFile, rename, rm, rmdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { EngineError } from "../../core/errors.js";
import { isRunning } from "../../db/embedded/process.js";

const DEV_FILE = z.object({
  api_url: z.string(),
  database_url: z.string(),
  bodies: z.string(),
  pids: z.object({ supervisor: z.int(), api: z.int(), workers: z.array(z.int()) }),
});
export type DevFile = z.infer<typeof DEV_FILE>;

const LOCK = z.object({ pid: z.int(), started: z.string().nullable() });

/** Makes the folder if need be and takes it; a lock whose process is gone is taken over. Returns what gives it back. */
export async function holdDataDir(dir: string): Promise<() => Promise<void>> {
  const file = path.join(dir, "dev.lock");
  const mine = JSON.stringify({ pid: process.pid, started: await startOf(process.pid) });
  try {
    await mkdir(dir, { recursive: true });
    for (let tries = 0; !(await createFile(file, mine)); tries += 1) {
      const holder = await livingHolder(file);
      if (holder !== null || tries > 5) {
        throw new EngineError(
          "conflict",
          `${dir} is in use by the process ${holder ?? "that is starting there"}; stop it or give another --data-dir`,
          { details: { pid: holder } },
        );
      }
      await rm(file, { force: true });
    }
  } catch (cause) {
    if (cause instanceof EngineError) throw cause;
    const code = (cause as NodeJS.ErrnoException).code ?? "unknown error";
    throw new EngineError("config_invalid", `${dir} can't be written to (${code}); give another --data-dir`, { cause });
  }
  return async () => {
    await rm(file, { force: true });
    // Gone again when nothing came of it.
    await rmdir(dir).catch(() => undefined);
  };
}

async function createFile(file: string, text: string): Promise<boolean> {
  try {
    const handle = await open(file, "wx");
    await handle.writeFile(text);
    await handle.close();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** The process that holds the lock, or null when it is gone. Its start tells it from another that got its number. */
async function livingHolder(file: string): Promise<number | null> {
  const lock = LOCK.safeParse(await readJson(file));
  if (!lock.success) return null;
  const { pid, started } = lock.data;
  if (pid === process.pid || !isRunning(pid)) return null;
  return (await startOf(pid)) === started ? pid : null;
}

/** When a process started, as something to compare; null where the system doesn't tell. */
async function startOf(pid: number): Promise<string | null> {
  try {
    if (process.platform === "linux") {
      // Field 22, counted after the command's closing bracket, since the command may hold anything.
      const text = await readFile(`/proc/${pid}/stat`, "utf8");
      return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? null;
    }
    return (await promisify(execFile)("ps", ["-o", "lstart=", "-p", String(pid)])).stdout.trim();
  } catch {
    return null;
  }
}

/** What runs in the folder, or null. The file may be older than the processes it names. */
export async function readDevFile(dir: string): Promise<DevFile | null> {
  const parsed = DEV_FILE.safeParse(await readJson(path.join(dir, "dev.json")));
  return parsed.success ? parsed.data : null;
}

/** Replaces the file in one step, so that no reader finds half of it. */
export async function writeDevFile(dir: string, content: DevFile): Promise<void> {
  const file = path.join(dir, "dev.json");
  const temporary = `${file}.${process.pid}.tmp`;
  // The database's password is in it.
  await writeFile(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  await rename(temporary, file);
}

export async function removeDevFile(dir: string): Promise<void> {
  await rm(path.join(dir, "dev.json"), { force: true });
}

async function readJson(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as unknown;
  } catch {
    return null;
  }
}
