// What really happened, in a file that outlives every process: one line per entry and exit of a step.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

export type Settings = Readonly<{ configurable?: Readonly<Record<string, unknown>> }>;

/**
 * Notes that a step began, takes the time the run asked for, and notes that it ended. One that the run wants held never
 * ends when it is entered for the first time.
 */
export async function work(name: string, { configurable }: Settings): Promise<string> {
  const isHeld = [configurable?.["hold"]].flat().includes(name) && !wasEntered(name, configurable);
  note(`enter ${name}`, configurable);
  if (isHeld) await new Promise(() => undefined);
  await sleep(Number(configurable?.["step_ms"] ?? 20));
  note(`leave ${name}`, configurable);
  return name;
}

/** Appends a line with the id of this process. */
export function note(line: string, configurable: Settings["configurable"]): void {
  appendFileSync(String(configurable?.["journal"]), `${line} ${process.pid}\n`);
}

export function wasEntered(name: string, configurable: Settings["configurable"]): boolean {
  const path = String(configurable?.["journal"]);
  return existsSync(path) && readFileSync(path, "utf8").includes(`enter ${name} `);
}
