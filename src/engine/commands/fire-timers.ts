// Turns due timers into their effect, in the transaction that marks them fired: a row needs no lease.
import { pendingApprovals } from "../../approvals/approvals.js";
import type { Deps, Sql } from "../../core/deps.js";
import { isEngineError } from "../../core/errors.js";
import type { RunId, ThreadId } from "../../core/ids.js";
import { backoffMs } from "../../core/retry.js";
import { supersedes } from "../../core/run.js";
import { takeTurn } from "../../runs/breakers.js";
import { appendEvent } from "../../runs/events.js";
import { hasToTell } from "../../delivery/deliveries.js";
import { makeNextHead, releaseRun } from "../../runs/order.js";
import { getRun, runThread } from "../../runs/runs.js";
import { lockThreadIfFree, type ThreadKey, updateThreadStatus } from "../../runs/thread-lock.js";
import { claimDueTimer, finishTimer, peekDueTimers, postponeTimer, type TimerRow } from "../../schedule/timers.js";
import { deleteThread } from "./delete-thread.js";
import { fireFollowPin } from "./pin-assistant.js";
import { fireDeadline, fireNotice } from "./question-timers.js";
import { QUESTION_TIMERS, statusLeft } from "./questions.js";
import { fireCron } from "./fire-cron.js";
import { fireFollowup } from "./fire-followup.js";
import { fireReminders } from "./fire-reminders.js";
import { fireSchedule } from "./fire-schedule.js";
import { fireTell, type TellEngine } from "./tell-followup.js";
import { fireRunWebhook } from "./tell-run-end.js";
import { wakeSleeper } from "./wake-sleeper.js";

/** The kinds that become their effect inside one transaction; the others belong to the mover and the pruner. */
export const FIRED_KINDS = [
  "run.release",
  "run.wake",
  "thread.delete",
  "assistant.pin",
  "followup",
  "followup.tell",
  "schedule.fire",
  "outreach",
  "outreach.work",
  "cron",
  "run.webhook",
  ...QUESTION_TIMERS,
] as const;
const NEEDS_TELLING = /^(followup|outreach|cron|run\.webhook)/;
const BATCH = 100;
/** Each is one person's, and takes no time but the database's. */
const PERSONAL: ReadonlySet<string> = new Set(["followup", "outreach"]);
/** Of one kind at the same time: more of them would only wait for the same thing. */
const MOST_UNDER_WAY = 20;
/** A pause that has just ended isn't looked at again at once. */
const MIN_WAIT_MS = 1_000;
const RETRY_MS = 5_000;
const UNTIL_TOLD_MS = 60_000;
const MAX_RETRY_MS = 5 * 60_000;

/** One round over what is due by database time, all of it waited for. Returns how many fired. */
export async function fireTimers(deps: Deps, telling: TellEngine | null = null): Promise<number> {
  return createFiring(deps, Number.POSITIVE_INFINITY, telling).round();
}

export type Firing = Readonly<{
  /** One round over what is due by database time. Returns how many fired. */
  round(): Promise<number>;
  /** Resolves when nothing is under way any more. */
  done(): Promise<unknown>;
}>;

/**
 * Fires timers in their order: `atOnce` of those that concern one person each, all others one after the other. Nothing keeps the others from firing: what somebody else holds is passed
 * over and stays due, and what takes longer than `patienceMs`, as when the object store is slow, goes on beside the next.
 * Without `telling` what follow-ups and runs have come to is left to other processes.
 */
export function createFiring(deps: Deps, patienceMs: number, telling: TellEngine | null = null, atOnce = 1): Firing {
  const underWay = new Map<string, Readonly<{ kind: string; fired: Promise<Fired> }>>();
  const underWayOf = (kind: string): number => [...underWay.values()].filter((each) => each.kind === kind).length;
  const isCrowded = (kind: string): boolean => underWayOf(kind) >= MOST_UNDER_WAY;
  const atOnceOf = (kind: string): number => (PERSONAL.has(kind) ? atOnce : 1);
  const start = (timer: TimerRow): Promise<Fired> => {
    const fired = fireOrPostpone(deps, telling, timer).finally(() => underWay.delete(timer.timerId));
    underWay.set(timer.timerId, { kind: timer.kind, fired });
    return fired;
  };
  return {
    async round() {
      const kinds = FIRED_KINDS.filter((kind) => !isCrowded(kind) && (telling !== null || !NEEDS_TELLING.test(kind)));
      const due = await peekDueTimers(deps.db, { kinds, limit: BATCH });
      const full = new Set<string>();
      let fired = 0;
      const together = telling === null ? new Set() : await fireReminders(telling, due);
      // What was left out comes with the next round, which is at once.
      const isLeft = ({ timerId, kind }: TimerRow): boolean =>
        !together.has(timerId) && (kind !== "followup" || together.size === 0 || atOnce === 1);
      const fireAll = async (timers: TimerRow[]): Promise<void> => {
        for (let timer = timers.shift(); timer !== undefined; timer = timers.shift()) {
          if (underWay.has(timer.timerId) || isCrowded(timer.kind) || full.has(timer.kind)) continue;
          // Once one of its kind is slow, the next would only be slow one after the other.
          const isSlow = underWayOf(timer.kind) >= atOnceOf(timer.kind);
          const how = await patiently(start(timer), isSlow ? 0 : patienceMs);
          if (how === "full") full.add(timer.kind);
          else if (how) fired += 1;
        }
      };
      await fireAll(due.filter((timer) => isLeft(timer) && atOnceOf(timer.kind) === 1));
      // Where several processes look at the same rows, each begins with others.
      const many = shuffled(
        due.filter((timer) => isLeft(timer) && atOnceOf(timer.kind) > 1),
        deps.random,
      );
      await Promise.all(Array.from({ length: atOnce }, () => fireAll(many)));
      return fired + together.size;
    },
    done: () => Promise.all([...underWay.values()].map(({ fired }) => fired)),
  };
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => ({ item, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

/** Whether it fired; "full": no other of its kind can before something ends. */
type Fired = boolean | "full";

/** What `work` says; false when it takes longer. */
async function patiently(work: Promise<Fired>, forMs: number): Promise<Fired> {
  if (forMs === Number.POSITIVE_INFINITY) return work;
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<false>((resolve) => (timer = setTimeout(resolve, forMs, false)));
  return Promise.race([work, over]).finally(() => clearTimeout(timer));
}

async function fireOrPostpone(deps: Deps, telling: TellEngine | null, timer: TimerRow): Promise<Fired> {
  try {
    return await fire(deps, telling, timer);
  } catch (error) {
    const code = isEngineError(error) ? error.code : ((error as { code?: string }).code ?? "internal");
    deps.log.error({ timer_id: timer.timerId, kind: timer.kind, ref_id: timer.refId, code }, "a timer failed");
    const afterMs = backoffMs(timer.attempts + 1, deps.random(), RETRY_MS, MAX_RETRY_MS);
    await postponeTimer(deps.db, { ...timer, afterMs, error: code }).catch(() => undefined);
    return false;
  }
}

async function fire(deps: Deps, telling: TellEngine | null, timer: TimerRow): Promise<Fired> {
  switch (timer.kind) {
    case "run.release":
      return fireRelease(deps, timer);
    case "run.wake":
      return wakeSleeper(deps, timer);
    case "thread.delete":
      return fireDelete(deps, timer);
    case "assistant.pin":
      return fireFollowPin(deps, timer);
    case "approval.deadline":
      return fireDeadline(deps, timer);
    case "approval.remind":
      return fireNotice(deps, timer, "reminded");
    case "approval.escalate":
      return fireNotice(deps, timer, "escalated");
    case "schedule.fire":
      return fireSchedule(deps, timer);
    case "followup":
    case "outreach":
    case "outreach.work":
      return telling === null ? false : fireFollowup(telling, timer);
    case "cron":
      return telling === null ? false : fireCron(telling, timer);
    case "followup.tell":
      return telling === null ? false : fireTell(telling, timer);
    case "run.webhook":
      return telling === null ? false : fireRunWebhook(telling, timer);
    case "move":
    case "repack":
    case "prune":
    case "retention":
    case "thread.ttl":
    case "run.prune":
      return false;
  }
}

async function fireRelease(deps: Deps, timer: TimerRow): Promise<boolean> {
  const runId = timer.refId as RunId;
  const released = await deps.db.tx(async (sql) => {
    const threadId = await runThread(sql, { tenantId: timer.tenantId, runId });
    // The thread first, as everywhere: then the timer, which another scheduler may have fired meanwhile.
    const thread = threadId && (await lockThreadIfFree(sql, { tenantId: timer.tenantId, threadId }));
    if (thread === "held") return false;
    if (!(await claimDueTimer(sql, timer))) return false;
    const waitMs = thread === undefined ? null : await outageInTheWay(sql, timer, runId, thread.threadId);
    if (waitMs !== null) {
      await postponeTimer(sql, { ...timer, afterMs: waitMs });
      return false;
    }
    await finishTimer(sql, timer);
    if (thread === undefined) return false;
    return release(sql, timer, runId, thread.threadId);
  });
  if (released) deps.notifier.notify("runs");
  return released;
}

/** For how many ms a run still has to wait for what was out of reach; null when it may go on, perhaps as the one that tries. */
async function outageInTheWay(sql: Sql, timer: TimerRow, runId: RunId, threadId: ThreadId): Promise<number | null> {
  const { tenantId } = timer;
  const run = await getRun(sql, { tenantId, runId, threadId });
  if (run?.waitsFor !== "provider" || run.provider === null) return null;
  const waitMs = await takeTurn(sql, { tenantId, provider: run.provider, runId });
  return waitMs === null ? null : Math.max(waitMs, MIN_WAIT_MS);
}

async function release(sql: Sql, timer: TimerRow, runId: RunId, threadId: ThreadId): Promise<boolean> {
  const thread = { tenantId: timer.tenantId, threadId };
  const held = await comesAfterAnswer(sql, { ...thread, runId });
  const run = await releaseRun(sql, { tenantId: timer.tenantId, runId, held });
  if (run === undefined) return false;
  await makeNextHead(sql, thread);
  if (held) await updateThreadStatus(sql, { ...thread, status: await statusLeft(sql, thread) });
  await appendEvent(sql, run, { type: "run.woken", attempt: run.attempt });
  return true;
}

/** Whether it is a delayed input, and a question is open for whose answer inputs wait. */
async function comesAfterAnswer(sql: Sql, key: ThreadKey & Readonly<{ runId: RunId }>): Promise<boolean> {
  const run = await getRun(sql, key);
  if (run === undefined || run.head || run.begun || !supersedes(run)) return false;
  return (await pendingApprovals(sql, key)).some(({ policy }) => policy.onMessage === "queue");
}

async function fireDelete(deps: Deps, timer: TimerRow): Promise<boolean> {
  const threadId = timer.refId as ThreadId;
  if (await hasToTell(deps.db, { tenantId: timer.tenantId, threadId })) {
    await postponeTimer(deps.db, { ...timer, afterMs: UNTIL_TOLD_MS, error: "waits for its webhooks" });
    return false;
  }
  await deleteThread(deps, { tenantId: timer.tenantId, threadId });
  await finishTimer(deps.db, timer);
  return true;
}
