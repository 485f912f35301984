// `perdure check`: can what is parked go on with the graphs as they are now.
import { DEFAULT_TENANT } from "../core/ids.js";
import { checkParked, unwrittenTools } from "../engine/check-parked.js";
import type { Engine } from "../engine/engine.js";
import { type Output, table } from "./output.js";
import { json, wire } from "./wire.js";

/** Prints what doesn't fit; true when everything can go on. */
export async function check(engine: Engine, print: Output & Readonly<{ json: boolean }>): Promise<boolean> {
  const { threads, problems } = await checkParked(engine, DEFAULT_TENANT);
  const tools = await unwrittenTools(engine);
  const ok = problems.every(({ stops }) => !stops);
  if (print.json) {
    print.line(json({ ok, threads, problems: problems.map(wire), unwritten_tools: tools.map(wire) }));
    return ok;
  }
  const rows = problems.map(({ threadId, runId, graphId, parkedBy, version, stops, why }) => ({
    result: stops ? "fail" : "warn",
    ...{ thread: threadId, run: runId, graph: graphId, "parked by": parkedBy, now: version, why },
  }));
  const none = `All ${threads} threads that wait or are worked on can go on with these graphs.`;
  print.line(table(rows, none));
  for (const { graphId, tool } of tools) {
    print.line(
      `Calls of "${tool}" in graph "${graphId}" can't be written down: its node is no tool node that perdure knows.`,
    );
  }
  return ok;
}
