// `perdure runs story`: what happened to a run, for a person who has to find out at night. `perdure runs events` is the same for
// programs. Ids, codes and times only: nothing of it is content.
import type { Deps } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { DEFAULT_TENANT, type RunId } from "../core/ids.js";
import { type LogEntry, logLine, openQuestionsOf, wholeLog } from "../engine/run-log.js";
import { tellStory } from "../engine/run-story.js";
import { getRun, type RunRow } from "../runs/runs.js";
import { type Output, table } from "./output.js";
import { json } from "./wire.js";

type Print = Output & Readonly<{ json: boolean }>;

export async function runsStory(deps: Deps, runId: RunId, print: Print): Promise<void> {
  const { run, log, now } = await read(deps, runId);
  const story = tellStory(run, log, { now, open: await openQuestionsOf(deps.db, run) });
  print.line(print.json ? json(story) : [story.title, "", ...story.lines, "", ...story.now].join("\n"));
}

export async function runsEvents(deps: Deps, runId: RunId, print: Print): Promise<void> {
  const { log } = await read(deps, runId);
  if (print.json) return print.line(json(log.map(logLine)));
  const rows = log.map(({ at, attempt, type, payload }) => ({
    at: at.toISOString(),
    attempt,
    event: type,
    facts: Object.entries(payload)
      .map(([name, value]) => `${name}=${String(value)}`)
      .join(" "),
  }));
  print.line(table(rows, "It has no events."));
}

async function read({ db }: Deps, runId: RunId): Promise<{ run: RunRow; log: LogEntry[]; now: Date }> {
  const run = await getRun(db, { tenantId: DEFAULT_TENANT, runId });
  if (run === undefined) throw new EngineError("not_found", `There is no run ${runId}; \`perdure runs ls\` lists them`);
  const { rows } = await db.query<{ now: Date }>("select clock_timestamp() as now");
  return { run, log: await wholeLog(db, run), now: rows[0]?.now ?? run.updatedAt };
}
