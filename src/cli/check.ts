// `perdure check`: can what is parked go on with the graphs as they are now.
import { DEFAULT_TENANT } from "../core/ids.js";
import { checkParked, unwrittenTools } from "../engine/check-parked.js";
import type { Engine } from "../engine/engine.js";
import { type WaitingPin, waitingPins } from "../runs/pins.js";
import { type Output, table } from "./output.js";
import { json, wire } from "./wire.js";

/** Runs that could start, and wait for other code than what is here. */
async function waitingElsewhere({ deps, graphs }: Engine): Promise<readonly WaitingPin[]> {
  const waiting = await waitingPins(deps.db, DEFAULT_TENANT);
  return waiting.filter(({ graphId, pin }) => !graphs.has(graphId) || graphs.version(graphId) !== pin);
}

/** Prints what doesn't fit; true when everything can go on. */
export async function check(engine: Engine, print: Output & Readonly<{ json: boolean }>): Promise<boolean> {
  const { threads, problems, elsewhere } = await checkParked(engine, DEFAULT_TENANT);
  const waiting = await waitingElsewhere(engine);
  const tools = await unwrittenTools(engine);
  const ok = problems.every(({ stops }) => !stops);
  if (print.json) {
    const pins = { pinned_elsewhere: elsewhere.map(wire), waiting_for_version: waiting.map(wire) };
    print.line(json({ ok, threads, problems: problems.map(wire), ...pins, unwritten_tools: tools.map(wire) }));
    return ok;
  }
  const rows = problems.map(({ threadId, runId, graphId, parkedBy, version, stops, why }) => ({
    result: stops ? "fail" : "warn",
    ...{ thread: threadId, run: runId, graph: graphId, "parked by": parkedBy, now: version, why },
  }));
  const here = threads - elsewhere.reduce((sum, each) => sum + each.threads, 0);
  const none = `All ${here} threads that wait or are worked on can go on with these graphs.`;
  print.line(table(rows, none));
  for (const { graphId, pin, threads: pinned } of elsewhere) {
    print.line(`${pinned} threads of graph "${graphId}" stay with version ${pin}: keep a worker that has it.`);
  }
  for (const { runs, graphId, pin, since } of waiting) {
    print.line(
      `${runs} runs of graph "${graphId}" wait for a worker with version ${pin}, the first since ${since.toISOString()}: ` +
        "start one with that code, or pin their assistant to another version.",
    );
  }
  for (const { graphId, tool } of tools) {
    print.line(
      `Calls of "${tool}" in graph "${graphId}" can't be written down: its node is no tool node that perdure knows.`,
    );
  }
  return ok;
}
