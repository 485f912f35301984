// A cron is due: its run is made, with the record of that time and the next time, in one transaction. A time has one record, so that whoever
// looks again, after whatever, makes none twice.
import { v5 as uuidv5 } from "uuid";
import type { AssistantRow } from "../../assistants/queries.js";
import type { AuthUser } from "../../core/access.js";
import type { Deps, Sql } from "../../core/deps.js";
import { type EngineError, isEngineError } from "../../core/errors.js";
import type { CronId, RunId, TenantId } from "../../core/ids.js";
import { PRIORITY } from "../../core/run.js";
import { countReady, endedRuns } from "../../runs/runs.js";
import { lockThreadIfFree } from "../../runs/thread-lock.js";
import {
  closeCronRuns,
  hasCronFiring,
  insertCronFiring,
  lockCronsOf,
  openCronRuns,
} from "../../schedule/cron-firings.js";
import { type CronKey, type CronRow, getCron, lockCronIfFree, moveCron } from "../../schedule/crons.js";
import { nextTime, planOf, type Planned, type Times } from "../../schedule/plan.js";
import { claimDueTimer, finishTimer, setTimer, type TimerRow } from "../../schedule/timers.js";
import { databaseNow } from "../database-now.js";
import { afterCreation, type CreatedRun, createRunIn } from "./create-run.js";
import type { CreateRunInput } from "./create-run.js";
import type { TellEngine } from "./tell-followup.js";

/** How late a time may be and still have its run. */
const CATCH_UP_MS = 6 * 60 * 60_000;

/** What a cron's runs are made of, but for what is the assistant's; as who made it, with what they may. */
export type CronRun = Pick<CreateRunInput, "request" | "metadata" | "multitaskStrategy" | "webhook" | "access"> &
  Readonly<{ user?: AuthUser | null }>;

export function cronTimer({ ids }: Pick<Deps, "ids">, { tenantId, cronId }: CronKey, at: Date) {
  return { tenantId, timerId: ids.next<TimerRow["timerId"]>(), kind: "cron", refId: cronId, when: { at } } as const;
}

function timesOf({ schedule, timeZone, endTime }: Pick<CronRow, "schedule" | "timeZone" | "endTime">): Times {
  return { kind: "cron", cron: schedule, timeZone: timeZone ?? "UTC", startsAt: null, endsAt: endTime };
}

/** The first time after `after`; null: there is none. */
export function nextCronTime(cron: Pick<CronRow, "schedule" | "timeZone" | "endTime">, after: Date): Date | null {
  return nextTime(timesOf(cron), after);
}

type Done = Readonly<{ made: CreatedRun | null; missed: number }>;

/** Returns whether it fired; "full": as many runs of crons are under way as may be. */
export async function fireCron(engine: TellEngine, timer: TimerRow): Promise<boolean | "full"> {
  const { deps } = engine;
  const key: CronKey = { tenantId: timer.tenantId, cronId: timer.refId as CronId };
  const found = await getCron(deps.db, key);
  const assistant = found && (await engine.assistant({ ...key, idOrGraphId: found.assistantId }));
  const done = await deps.db.tx(async (sql): Promise<Done | "full" | null> => {
    const threadId = found?.threadId ?? null;
    // The thread first, as everywhere.
    if (threadId !== null && (await lockThreadIfFree(sql, { ...key, threadId })) === "held") return null;
    if (!(await claimDueTimer(sql, timer))) return null;
    const cron = await lockCronIfFree(sql, key);
    if (cron === undefined) {
      if ((await getCron(sql, key)) === undefined) await finishTimer(sql, timer);
      return null;
    }
    if (cron.nextAt === null) {
      await finishTimer(sql, timer);
      return null;
    }
    const now = await databaseNow(sql);
    if (cron.nextAt > now) return setNext(deps, sql, cron, timer, cron.nextAt);
    const room = await roomFor(sql, key.tenantId, engine.outreach.running);
    if (room !== true) return room === "full" ? "full" : null;
    const plan = planOf(plannedOf(cron), cron.nextAt, now);
    let made: CreatedRun | null = null;
    for (const { occurrenceAt, status, reason, times } of plan.firings) {
      if (status === "firing") made = await makeRun(deps, sql, cron, assistant, occurrenceAt);
      else
        await insertCronFiring(sql, cron, {
          occurrenceAt,
          status: "missed",
          reason,
          times,
          runId: null,
          threadId: null,
        });
    }
    await moveCron(sql, cron, plan.nextAt);
    await setNext(deps, sql, cron, timer, plan.nextAt);
    return { made, missed: plan.missed };
  });
  if (done === null || done === "full") return done ?? false;
  if (done.made !== null) afterCreation(deps, done.made);
  if (done.missed > 0) deps.log.warn({ cron_id: key.cronId, times: done.missed }, "times of a cron were missed");
  return true;
}

async function setNext(deps: Deps, sql: Sql, cron: CronRow, timer: TimerRow, nextAt: Date | null): Promise<Done> {
  await finishTimer(sql, timer);
  if (nextAt !== null) await setTimer(sql, cronTimer(deps, cron, nextAt));
  return { made: null, missed: 0 };
}

/** Of times that nobody looked at only the last has its run, and only within hours. */
function plannedOf(cron: CronRow): Planned {
  return {
    ...timesOf(cron),
    ...{ catchup: "latest", catchupWindowMs: CATCH_UP_MS, overlap: "queue", maxOccurrences: null, occurrences: 0 },
  };
}

/** What waits for a person, or sleeps, takes no slot. "held": somebody else is at it just now. */
async function roomFor(sql: Sql, tenantId: TenantId, most: number): Promise<true | "held" | "full"> {
  if (!(await lockCronsOf(sql, tenantId))) return "held";
  const open = await openCronRuns(sql, tenantId);
  if (open.length < most) return true;
  await closeCronRuns(sql, tenantId, await endedRuns(sql, { tenantId, runIds: open }));
  return (await countReady(sql, { tenantId, runIds: open })) < most ? true : "full";
}

async function makeRun(
  deps: Deps,
  sql: Sql,
  cron: CronRow,
  assistant: AssistantRow | undefined,
  occurrenceAt: Date,
): Promise<CreatedRun | null> {
  if (await hasCronFiring(sql, cron, occurrenceAt)) return null;
  const made =
    assistant === undefined ? "its assistant is gone" : await attempt(deps, sql, cron, assistant, occurrenceAt);
  if (typeof made === "string") {
    const skipped = { status: "skipped", reason: made, times: 1, runId: null, threadId: null } as const;
    await insertCronFiring(sql, cron, { occurrenceAt, ...skipped });
    return null;
  }
  const { runId, threadId } = made.run;
  await insertCronFiring(sql, cron, { occurrenceAt, status: "fired", reason: null, times: 1, runId, threadId });
  return made;
}

/** The run, or why there is none: what it was refused for is found out before anything is written. */
async function attempt(
  deps: Deps,
  sql: Sql,
  cron: CronRow,
  assistant: AssistantRow,
  occurrenceAt: Date,
): Promise<CreatedRun | string> {
  const runId = uuidv5(occurrenceAt.toISOString(), cron.cronId) as RunId;
  try {
    const made = await createRunIn(deps, sql, runInputOf(cron, assistant), runId);
    return "waiting" in made ? made.waiting.message : made;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return error.message;
  }
}

function isRefusal(error: unknown): error is EngineError {
  return (["thread_busy", "conflict", "not_found"] as const).some((code) => isEngineError(error, code));
}

function runInputOf(cron: CronRow, assistant: AssistantRow): CreateRunInput {
  const made = JSON.parse(cron.run.toString("utf8")) as CronRun;
  const { request, metadata, multitaskStrategy, webhook = null, access, user = null } = made;
  const { assistantId, graphId, config, context } = assistant;
  return {
    ...{ tenantId: cron.tenantId, threadId: cron.threadId, request, multitaskStrategy, webhook },
    assistant: { assistantId, graphId, config, context: context ?? {}, metadata: assistant.metadata },
    metadata: { ...metadata, cron_id: cron.cronId },
    ...{ ifNotExists: "reject", onCompletion: cron.threadId === null ? cron.onRunCompleted : "keep" },
    ...{ afterSeconds: null, priority: PRIORITY.scheduled, conversationId: null, mergeWindowMs: 0 },
    ...{ caller: { person: cron.userId, roles: user?.permissions ?? [] }, graph: null, createdBy: "cron" },
    ...(access !== undefined && { access }),
  };
}
