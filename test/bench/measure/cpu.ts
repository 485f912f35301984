// Processor time from /proc, in ms. Elsewhere than on Linux there is none, and its figures are null.
import { existsSync, readdirSync, readFileSync } from "node:fs";

const TICK_MS = 10; // USER_HZ is 100 on every Linux that Node runs on.
const LINUX = existsSync("/proc/self/stat");

type Stat = Readonly<{ parent: number; ownMs: number; reapedMs: number }>;

function statOf(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name in parentheses may hold anything.
    const fields = text
      .slice(text.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number);
    const [user = 0, system = 0, reapedUser = 0, reapedSystem = 0] = fields.slice(11, 15);
    return {
      parent: fields[1] ?? 0,
      ownMs: (user + system) * TICK_MS,
      reapedMs: (reapedUser + reapedSystem) * TICK_MS,
    };
  } catch {
    return undefined; // It has just ended.
  }
}

const pids = (): number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);

/** These processes with all their descendants, and the children that these have reaped. */
export function treeCpuMs(roots: readonly number[]): number | null {
  if (!LINUX) return null;
  const stats = new Map(pids().map((pid) => [pid, statOf(pid)]));
  const within = (pid: number): boolean => {
    for (let at = pid; at > 1; at = stats.get(at)?.parent ?? 0) if (roots.includes(at)) return true;
    return false;
  };
  let sum = 0;
  for (const [pid, stat] of stats) if (stat !== undefined && within(pid)) sum += stat.ownMs + stat.reapedMs;
  return sum;
}

/** What all processors of the machine were busy with, time stolen from it included. */
export function machineCpuMs(): number | null {
  if (!LINUX) return null;
  const line = readFileSync("/proc/stat", "latin1").split("\n", 1)[0] ?? "";
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line.split(/\s+/).slice(1).map(Number);
  return (user + nice + system + irq + softirq + steal) * TICK_MS;
}

/** The server process above one of its backends; null when that runs on another machine. */
export function parentNamed(pid: number, name: RegExp): number | null {
  if (!LINUX) return null;
  const parent = statOf(pid)?.parent;
  const comm = (of: number): string => readFileSync(`/proc/${of}/comm`, "latin1").trim();
  return parent !== undefined && name.test(comm(pid)) && name.test(comm(parent)) ? parent : null;
}

/** Resident memory in bytes. */
export function residentBytes(pid: number): number | null {
  if (!LINUX) return null;
  const found = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "latin1"));
  return found === null ? null : Number(found[1]) * 1_024;
}
