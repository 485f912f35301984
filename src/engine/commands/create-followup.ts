// A follow-up that somebody schedules over the API, on a thread that has been spoken on.
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { FollowupId, TenantId, ThreadId, TimerId } from "../../core/ids.js";
import { takeKey } from "../../runs/idempotency-keys.js";
import { listRuns } from "../../runs/runs.js";
import { getFollowup } from "../../schedule/followups.js";
import { type Once, madeAndGone, madeBefore } from "./make-once.js";
import { FOLLOWUP_LIMITS, type FollowupAsked, type Scheduled, scheduleFollowup } from "./schedule-followup.js";

export type MadeFollowup = Pick<Scheduled, "followup" | "warnings"> & Readonly<{ again: boolean }>;

/** Throws as `scheduleFollowup` does, and `conflict` when the thread has no run whose assistant could do it. */
export async function createFollowup(
  deps: Deps,
  create: FollowupAsked & Readonly<{ tenantId: TenantId; threadId: ThreadId; once: Once | null }>,
): Promise<MadeFollowup> {
  const { tenantId, threadId, once } = create;
  const before = once === null ? undefined : await followupMadeBefore(deps, once);
  if (before !== undefined) return { followup: before, warnings: [], again: true };
  const [newest] = await listRuns(deps.db, { tenantId, threadId, limit: 1, offset: 0 });
  if (newest === undefined) {
    throw new EngineError("conflict", `Thread ${threadId} isn't there, or has no run: nobody could follow up on it`);
  }
  const followupId = deps.ids.next<FollowupId>();
  const asked = {
    ...{ ...create, runId: newest.runId, followupId, timerId: deps.ids.next<TimerId>() },
    ...({ createdBy: "tenant", timeZone: null, limits: FOLLOWUP_LIMITS } as const),
  };
  const made = await deps.db.tx(async (sql) => {
    if (once !== null && !(await takeKey(sql, once, followupId))) return undefined;
    return scheduleFollowup(sql, asked);
  });
  // Another request with the key was faster.
  if (made === undefined) return createFollowup(deps, create);
  deps.notifier.notify("timers");
  return { ...made, again: false };
}

async function followupMadeBefore(deps: Deps, once: Once) {
  const followupId = (await madeBefore(deps.db, once)) as FollowupId | undefined;
  if (followupId === undefined) return undefined;
  const followup = await getFollowup(deps.db, { tenantId: once.tenantId, followupId });
  if (followup === undefined) throw madeAndGone(once, `follow-up ${followupId}`);
  return followup;
}
