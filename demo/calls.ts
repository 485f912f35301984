// Reads the call log of the example graphs: what was really asked of the model and of the shop, and by which process.
import { readFileSync } from "node:fs";
import type { CallLogLine } from "../graphs/call-log.js";

export type Calls = Readonly<{
  /** Calls named `what`, or starting with it, in one phase. */
  count(what: string, phase: CallLogLine["phase"]): number;
  /** The process that made the newest call of this name. */
  pid(what: string): number | undefined;
  /** Names of calls that were begun again although they had been answered. */
  repeated(): readonly string[];
}>;

export function readCalls(file: string): Calls {
  const lines = readLines(file);
  const named = (what: string, phase?: CallLogLine["phase"]) =>
    lines.filter((line) => line.what.startsWith(what) && (phase === undefined || line.phase === phase));
  return {
    count: (what, phase) => named(what, phase).length,
    pid: (what) => named(what).at(-1)?.pid,
    repeated: () => [
      ...new Set(
        lines.flatMap((line, index) => {
          const answeredBefore = lines.slice(0, index).some((l) => l.what === line.what && l.phase === "finished");
          return line.phase === "started" && answeredBefore ? [line.what] : [];
        }),
      ),
    ],
  };
}

function readLines(file: string): readonly CallLogLine[] {
  try {
    const text = readFileSync(file, "utf8");
    return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as CallLogLine]));
  } catch (error) {
    // Nothing was called yet.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
