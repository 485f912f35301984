// What can be learnt about a process that isn't our child.
import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";

/** True while the process runs; one that is dead and waits to be reaped does not. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3) !== "Z";
  } catch {
    return process.platform !== "linux";
  }
}

/** True when the process may be a Postgres on this data dir: a pid may have been given to another since. */
export function mayHold(pid: number, dataDir: string): boolean {
  if (!isRunning(pid)) return false;
  try {
    if (process.platform !== "linux") {
      return execFileSync("ps", ["-p", String(pid), "-o", "comm="], { encoding: "utf8" }).includes("postgres");
    }
    // A postmaster works in its data dir; comparing inodes sees through links and mounts.
    const its = statSync(`/proc/${pid}/cwd`);
    const ours = statSync(dataDir);
    return its.dev === ours.dev && its.ino === ours.ino;
  } catch {
    return isRunning(pid);
  }
}
