// Takes a follow-up back, or puts it off, at any moment: what isn't on its way yet is not sent, and what is, is said plainly.
import type { Sql } from "../../core/deps.js";
import type { FollowupLimits } from "../../core/followup-limits.js";
import type { FollowupId, TenantId, ThreadId, TimerId } from "../../core/ids.js";
import { suppressDeliveries } from "../../delivery/outbox.js";
import { type FollowupRow, lockFollowup, timerKindOf, updateFollowup } from "../../schedule/followups.js";
import { cancelTimers, setTimer } from "../../schedule/timers.js";
import { instantOf, type When } from "../../schedule/when.js";
import { databaseNow } from "../database-now.js";
import { FollowupRefused, refuseFarAndNear } from "./schedule-followup.js";

type Of = Readonly<{
  tenantId: TenantId;
  followupId: FollowupId;
  /** Only if it is of this thread. */
  threadId: ThreadId | null;
  timerId: TimerId;
}>;

export type Cancelled = Readonly<{ followup: FollowupRow; outcome: "cancelled" | "suppressed" | "too late" | "over" }>;

/**
 * In the caller's transaction. cancelled: it won't be done; suppressed: it was done, and isn't sent; too late: it is on its way, or
 * was sent. Throws `FollowupRefused` when there is none.
 */
export async function cancelFollowupIn(sql: Sql, cancel: Of & Readonly<{ reason: string }>): Promise<Cancelled> {
  const followup = await lockOwn(sql, cancel);
  const { tenantId, followupId, status } = followup;
  switch (status) {
    case "pending":
    case "parked":
    case "running":
    case "waiting_approval":
      await cancelTimers(sql, { tenantId, kinds: [timerKindOf(followup), "followup.tell"], refIds: [followupId] });
      await updateFollowup(sql, followup, { status: "cancelled", reason: cancel.reason });
      // Its run, if it has begun, is ended by whoever fires this.
      if (status !== "pending" && status !== "parked") await setTimer(sql, tellTimer(cancel));
      await suppressDeliveries(sql, { tenantId, sourceId: followupId });
      return { followup: { ...followup, status: "cancelled" }, outcome: "cancelled" };
    case "produced": {
      const { suppressed, left } = await suppressDeliveries(sql, { tenantId, sourceId: followupId });
      return { followup, outcome: left > 0 ? "too late" : suppressed > 0 ? "suppressed" : "over" };
    }
    case "cancelled":
    case "expired":
    case "skipped":
    case "dead":
      return { followup, outcome: "over" };
  }
}

/** In the caller's transaction. Throws `FollowupRefused` when it isn't pending any more, and `UnclearTime`. */
export async function rescheduleFollowupIn(
  sql: Sql,
  change: Of & Readonly<{ when: When; timeZone: string | null; limits: FollowupLimits }>,
): Promise<FollowupRow> {
  const followup = await lockOwn(sql, change);
  const { tenantId, followupId, status, notAfter, fireAt } = followup;
  if (status !== "pending" && status !== "parked")
    throw new FollowupRefused(`Follow-up ${followupId} is ${status}: it can't be put off any more`);
  const now = await databaseNow(sql);
  const zone = followup.timeZone ?? change.timeZone ?? "UTC";
  const { at, localTime, timeZone } = instantOf(change.when, now, zone);
  refuseFarAndNear(at, now, change.limits);
  const later = notAfter && new Date(notAfter.getTime() + at.getTime() - fireAt.getTime());
  await cancelTimers(sql, { tenantId, kinds: [timerKindOf(followup)], refIds: [followupId] });
  await setTimer(sql, {
    tenantId,
    timerId: change.timerId,
    kind: timerKindOf(followup),
    refId: followupId,
    when: { at },
  });
  const changed = { ...({ status: "pending", reason: null } as const), fireAt: at, localTime, timeZone };
  await updateFollowup(sql, followup, { ...changed, ...(later && { notAfter: later }) });
  return { ...followup, ...changed };
}

function tellTimer({ tenantId, followupId, timerId }: Of) {
  return { tenantId, timerId, kind: "followup.tell", refId: followupId, when: { afterMs: 0 } } as const;
}

async function lockOwn(sql: Sql, { tenantId, followupId, threadId }: Of): Promise<FollowupRow> {
  const followup = await lockFollowup(sql, { tenantId, followupId });
  if (followup === undefined || (threadId !== null && followup.threadId !== threadId)) {
    throw new FollowupRefused(`There is no follow-up ${followupId}`);
  }
  return followup;
}
