// Counts what was really called. When CALL_LOG names a file, each call to a model or to the shop adds a line to it
// before and after: a person, a test or the demo can then see what a crash repeated and what it did not.
import { appendFileSync } from "node:fs";

/** One line of the call log. */
export type CallLogLine = Readonly<{ at: string; pid: number; what: string; phase: "started" | "finished" }>;

/** Logs that `what` was called; call what it returns when the answer is there. */
export function logCall(what: string): () => void {
  append(what, "started");
  return () => append(what, "finished");
}

function append(what: string, phase: CallLogLine["phase"]): void {
  const file = process.env["CALL_LOG"];
  if (!file) return;
  const line: CallLogLine = { at: new Date().toISOString(), pid: process.pid, what, phase };
  appendFileSync(file, `${JSON.stringify(line)}\n`);
}
