// Says which version of its graph's code the runs of an assistant are executed with, and brings those that are not over to it.
import { type AssistantRow, getAssistant, setAssistantPin } from "../../assistants/queries.js";
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { AssistantId, TenantId } from "../../core/ids.js";
import { followPin, isPinFollowed, lockPin } from "../../runs/pins.js";
import { claimDueTimer, finishTimer, postponeTimer, setTimer, type TimerRow } from "../../schedule/timers.js";

/** So many threads are held at a time, for some tenths of a second. */
const AT_ONCE = 1_000;
/** What held a thread is over by then. */
const AGAIN_MS = 1_000;
/** As long as runs of the assistant may have to wait until they are accepted. */
export const LOCK_TIMEOUT = "set local lock_timeout = '2s'";

/**
 * Pins an assistant: `latest`, `own` or a version. From then on new runs are for that; those that are there, also those that are being
 * executed for when their worker is lost, follow until this returns, or a timer sees to it where somebody holds their threads.
 * Throws `not_found`, and `unavailable` when somebody who makes a run of it doesn't come to an end: nothing was changed then.
 */
export async function pinAssistant(
  deps: Deps,
  pin: Readonly<{ tenantId: TenantId; idOrGraphId: string; pin: string }>,
): Promise<AssistantRow> {
  const { tenantId, idOrGraphId } = pin;
  const found = await getAssistant(deps.db, { tenantId, idOrGraphId });
  if (found === undefined) throw noAssistant(idOrGraphId);
  const { assistantId } = found;
  const set = deps.db.tx(async (sql) => {
    await sql.query(LOCK_TIMEOUT);
    // Before the lock, as where it fires.
    await setTimer(sql, {
      ...{ tenantId, timerId: deps.ids.next(), kind: "assistant.pin", refId: assistantId },
      when: { afterMs: 0 },
    });
    await lockPin(sql, { tenantId, assistantId });
    return setAssistantPin(sql, { tenantId, assistantId, pin: pin.pin });
  });
  const pinned = await set.catch((error: unknown) => {
    throw isLockTimeout(error) ? tooBusy(idOrGraphId, error) : error;
  });
  if (pinned === undefined) throw noAssistant(idOrGraphId);
  await followAll(deps, { tenantId, assistantId });
  deps.notifier.notify("timers");
  return pinned;
}

/** Sees to it where whoever changed the pin did not come to the end. Returns whether that is done. */
export async function fireFollowPin(deps: Deps, timer: TimerRow): Promise<boolean> {
  const key = { tenantId: timer.tenantId, assistantId: timer.refId as AssistantId };
  await followAll(deps, key);
  return deps.db.tx(async (sql) => {
    if (!(await claimDueTimer(sql, timer))) return false;
    const followed = await isPinFollowed(sql, key);
    await (followed ? finishTimer(sql, timer) : postponeTimer(sql, { ...timer, afterMs: AGAIN_MS }));
    return followed;
  });
}

async function followAll(deps: Deps, key: Readonly<{ tenantId: TenantId; assistantId: AssistantId }>): Promise<void> {
  for (let after: string | null = null; ; ) {
    const { moved, last }: Awaited<ReturnType<typeof followPin>> = await followPin(deps.db, {
      ...key,
      after,
      most: AT_ONCE,
    });
    if (moved > 0) deps.notifier.notify("runs");
    if (last === null) return;
    after = last;
  }
}

export const isLockTimeout = (error: unknown): boolean => (error as { code?: unknown } | null)?.code === "55P03";

function tooBusy(idOrGraphId: string, cause: unknown): EngineError {
  return new EngineError(
    "unavailable",
    `Assistant ${JSON.stringify(idOrGraphId)} was not pinned: a run of it has been in the making for 2 s; try again`,
    { cause },
  );
}

export function noAssistant(idOrGraphId: string): EngineError {
  return new EngineError(
    "not_found",
    `There is no assistant ${JSON.stringify(idOrGraphId)}; \`perdure assistants ls\` lists them`,
  );
}
