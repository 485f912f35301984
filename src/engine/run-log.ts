// A run's log as it is read: its events, and between them its checkpoints, which are their own record: a step that is stored needs
// no second row to say so. Both are written by the transactions that make them true.
import { pendingApprovals } from "../approvals/approvals.js";
import { type StoredStep, stepsOfRun } from "../checkpoint/run-span.js";
import type { Deps, Sql } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import type { RunId, TenantId } from "../core/ids.js";
import { isTransientDbError } from "../core/retry.js";
import { isFinished } from "../core/run.js";
import { type EventRow, listEvents } from "../runs/events.js";
import { getRun, type RunRow } from "../runs/runs.js";
import { createNews } from "./stream/news.js";

/** So far each of the two was read. */
export type LogPosition = Readonly<{ event: number; step: number }>;

export type LogEntry = Readonly<{
  /** Where it stands in the log: what comes after it is asked for with it. */
  id: string;
  type: string;
  attempt: number;
  payload: Readonly<Record<string, unknown>>;
  at: Date;
}>;

type RunKey = Readonly<{ tenantId: TenantId; runId: RunId }>;

export const LOG_START: LogPosition = { event: 0, step: 0 };
const PAGE = 500;

/** The position after the entry with this id. Throws `bad_request` when the log has no such ids. */
export function positionAfter(id: string): LogPosition {
  const [, event, step] = /^(\d{1,15})-(\d{1,15})$/.exec(id) ?? [];
  if (event !== undefined && step !== undefined) return { event: Number(event), step: Number(step) };
  throw new EngineError("bad_request", "after: must be the id of an entry of this log");
}

/** Entries after a position, as they happened. */
export async function readLog(sql: Sql, run: RunKey, after: LogPosition, limit: number): Promise<LogEntry[]> {
  // What an event says is stored is in the second look.
  const events = await listEvents(sql, { ...run, afterSeq: after.event, limit });
  const steps = await stepsOfRun(sql, { ...run, afterSeq: after.step, limit });
  const entries: LogEntry[] = [];
  let { event, step } = after;
  for (let e = 0, s = 0; entries.length < limit; ) {
    const [nextEvent, nextStep] = [events[e], steps[s]];
    if (nextEvent !== undefined && (nextStep === undefined || nextEvent.createdAt <= nextStep.createdAt)) {
      event = nextEvent.seq;
      e += 1;
      entries.push({ id: `${event}-${step}`, ...ofEvent(nextEvent) });
    } else if (nextStep !== undefined) {
      step = nextStep.seq;
      s += 1;
      entries.push({ id: `${event}-${step}`, ...ofStep(nextStep) });
    } else break;
  }
  return entries;
}

function ofEvent({ type, attempt, payload, createdAt: at }: EventRow): Omit<LogEntry, "id"> {
  return { type, attempt, payload, at };
}

function ofStep({ checkpointId, attempt, step, source, createdAt: at }: StoredStep): Omit<LogEntry, "id"> {
  const payload = { checkpoint_id: checkpointId, step, source };
  return { type: "checkpoint.stored", attempt: attempt ?? 0, payload, at };
}

/** All of it. */
export async function wholeLog(sql: Sql, run: RunKey): Promise<LogEntry[]> {
  const log: LogEntry[] = [];
  for (let after = LOG_START; ; ) {
    const page = await readLog(sql, run, after, PAGE);
    log.push(...page);
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE) return log;
    after = positionAfter(last.id);
  }
}

/** Entries as they come, until the run is over and waits for nobody, or is gone. */
export async function* followLog(
  deps: Deps,
  run: RunKey,
  options: Readonly<{ after: LogPosition; signal: AbortSignal; heartbeatMs: number; pollMs?: number }>,
): AsyncGenerator<LogEntry | "heartbeat"> {
  const { signal, heartbeatMs, pollMs } = options;
  const news = createNews(deps, { topics: ["stream", "lines"], runId: run.runId, signal, heartbeatMs, pollMs });
  let { after } = options;
  try {
    while (!signal.aborted) {
      news.forget();
      const look = await lookAt(deps.db, run, after);
      for (const entry of look.entries) {
        yield entry;
        after = positionAfter(entry.id);
        news.sent();
      }
      if (look.entries.length === PAGE) continue;
      if (look.over) return;
      if ((await news.wait()) === "heartbeat") yield "heartbeat";
    }
  } finally {
    news.close();
  }
}

/** A database that is away for a while is waited for. The run is looked at first: what is there then is all there will be. */
async function lookAt(sql: Sql, run: RunKey, after: LogPosition) {
  try {
    const row = await getRun(sql, run);
    return { over: row === undefined || (await isSettled(sql, row)), entries: await readLog(sql, run, after, PAGE) };
  } catch (error) {
    if (!isTransientDbError(error)) throw error;
    return { over: false, entries: [] };
  }
}

/** Whoever waits for a person may still have something to tell. */
async function isSettled(sql: Sql, run: RunRow): Promise<boolean> {
  if (!isFinished(run.status) || run.waitsFor === "person") return false;
  return run.waitsFor !== "approval" || (await openQuestionsOf(sql, run)).length === 0;
}

/** The interrupts that this run asks and nobody has answered, by id. */
export async function openQuestionsOf(sql: Sql, run: RunRow): Promise<string[]> {
  const open = await pendingApprovals(sql, run);
  return open.filter(({ runId }) => runId === run.runId).map(({ interruptId }) => interruptId);
}

export function logLine({ id, type, attempt, payload, at }: LogEntry) {
  return { id, type, attempt, at, payload };
}
