// Makes, changes and deletes crons. When the call returns nothing begins any more as it was before: whoever fires one has its row locked.
import { reaches, type Within } from "../../core/access.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { AssistantId, CronId, TenantId, ThreadId } from "../../core/ids.js";
import { lockThread } from "../../runs/thread-lock.js";
import { takeKey } from "../../runs/idempotency-keys.js";
import {
  type CronKey,
  type CronRow,
  type CronSettings,
  deleteCronRow,
  getCron,
  insertCron,
  lockCron,
  updateCron,
} from "../../schedule/crons.js";
import { checkRule } from "../../schedule/recurrence.js";
import { cancelTimers, setTimer } from "../../schedule/timers.js";
import { databaseNow } from "../database-now.js";
import { refusingUnclear } from "../refusing-unclear.js";
import { cronTimer, nextCronTime } from "./fire-cron.js";
import { findMadeBefore, type Once } from "./make-once.js";
import { threadNotFound } from "./patch-thread.js";

/** Of a rule, between two times. */
const SHORTEST_MS = 60_000;

export type CronAsked = CronSettings &
  Readonly<{
    tenantId: TenantId;
    assistantId: AssistantId;
    threadId: ThreadId | null;
    userId: string | null;
    /** The threads that it may be made on. */
    within?: Within;
  }>;

/** Throws `bad_request` for a rule or zone that can't be meant, or that never comes, and `not_found` without its thread. */
export async function createCron(
  deps: Deps,
  asked: CronAsked,
  once: Once | null,
): Promise<Readonly<{ cron: CronRow; again: boolean }>> {
  const before = once === null ? undefined : await cronMadeBefore(deps, once);
  if (before !== undefined) return { cron: before, again: true };
  const { tenantId, threadId, within = null } = asked;
  const cronId = deps.ids.next<CronId>();
  const made = await deps.db.tx(async (sql) => {
    if (threadId !== null) {
      const thread = await lockThread(sql, { tenantId, threadId });
      const isTheirs = thread?.ephemeral === false && reaches(within, thread.metadata);
      if (!isTheirs) throw threadNotFound({ tenantId, threadId });
    }
    if (once !== null && !(await takeKey(sql, once, cronId))) return undefined;
    const nextAt = await nextOf(sql, asked);
    const cron = await insertCron(sql, { ...asked, cronId, nextAt });
    if (nextAt !== null) await setTimer(sql, cronTimer(deps, cron, nextAt));
    return cron;
  });
  // Another request with the key was faster.
  if (made === undefined) return createCron(deps, asked, once);
  deps.notifier.notify("timers");
  return { cron: made, again: false };
}

function cronMadeBefore({ db }: Deps, once: Once): Promise<CronRow | undefined> {
  const { tenantId } = once;
  return findMadeBefore(db, once, "cron", (id) => getCron(db, { tenantId, cronId: id as CronId }));
}

export function noCron(id: string): EngineError {
  return new EngineError("not_found", `Cron ${id} not found`, { details: { cron_id: id } });
}

/** Times that came while it wasn't enabled are not caught up with. Throws `not_found`, and `bad_request` as `createCron` does. */
export async function changeCron(
  deps: Deps,
  key: CronKey,
  asked: (cron: CronRow) => Promise<CronSettings>,
): Promise<CronRow> {
  const changed = await deps.db.tx(async (sql) => {
    const cron = await lockOrThrow(sql, key);
    const settings = await asked(cron);
    if (keepsItsTimes(cron, settings)) return updateCron(sql, key, { ...settings, nextAt: cron.nextAt });
    const nextAt = await nextOf(sql, settings);
    await cancelTimers(sql, { tenantId: key.tenantId, kinds: ["cron"], refIds: [key.cronId] });
    if (nextAt !== null) await setTimer(sql, cronTimer(deps, key, nextAt));
    return updateCron(sql, key, { ...settings, nextAt });
  });
  deps.notifier.notify("timers");
  return changed;
}

/** What its runs did stays. */
export async function deleteCron(deps: Deps, key: CronKey): Promise<void> {
  await deps.db.tx(async (sql) => {
    await lockOrThrow(sql, key);
    await cancelTimers(sql, { tenantId: key.tenantId, kinds: ["cron"], refIds: [key.cronId] });
    await deleteCronRow(sql, key);
  });
}

async function lockOrThrow(sql: Sql, key: CronKey): Promise<CronRow> {
  const cron = await lockCron(sql, key);
  if (cron === undefined) throw noCron(key.cronId);
  return cron;
}

function keepsItsTimes(cron: CronRow, settings: CronSettings): boolean {
  return (
    cron.schedule === settings.schedule &&
    cron.timeZone === settings.timeZone &&
    cron.enabled === settings.enabled &&
    cron.endTime?.getTime() === settings.endTime?.getTime()
  );
}

/** Null: it is not enabled. */
async function nextOf(sql: Sql, settings: CronSettings): Promise<Date | null> {
  const now = await databaseNow(sql);
  const { schedule: cron, timeZone } = settings;
  const nextAt = await refusingUnclear(() => {
    checkRule({ cron, timeZone: timeZone ?? "UTC" }, now, SHORTEST_MS);
    return nextCronTime(settings, now);
  });
  if (!settings.enabled) return null;
  if (nextAt === null) throw new EngineError("bad_request", "end_time: the schedule has no time before it");
  return nextAt;
}
