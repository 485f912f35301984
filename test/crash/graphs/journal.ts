// What really happened, in a file that outlives every process: one line per entry and exit of a step.
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

export type Settings = Readonly<{ configurable?: Readonly<Record<string, unknown>> }>;

/** Notes that a step began, takes the time the run asked for, and notes that it ended. */
export async function work(name: string, { configurable }: Settings): Promise<string> {
  note(`enter ${name}`, configurable);
  await sleep(Number(configurable?.["step_ms"] ?? 20));
  note(`leave ${name}`, configurable);
  return name;
}

function note(line: string, configurable: Settings["configurable"]): void {
  appendFileSync(String(configurable?.["journal"]), `${line} ${process.pid}\n`);
}
