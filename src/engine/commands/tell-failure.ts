// What was promised won't come: the log of the run that promised it says so, and where the account has words for that, the person is told.
import { appendEvent } from "../../runs/events.js";
import { getRun } from "../../runs/runs.js";
import { postDeliveries } from "../../delivery/outbox.js";
import { lockThreadIfFree } from "../../runs/thread-lock.js";
import { type FollowupRow, lockFollowup } from "../../schedule/followups.js";
import { claimDueTimer, finishTimer, type TimerRow } from "../../schedule/timers.js";
import type { Sql } from "../../core/deps.js";
import type { TellEngine } from "./tell-followup.js";

/** Returns whether there was something to tell. */
export async function tellFailure(engine: TellEngine, found: FollowupRow, timer: TimerRow): Promise<boolean> {
  const { deps } = engine;
  const failed = await deps.db.tx(async (sql) => {
    const thread = await lockThreadIfFree(sql, found);
    if (thread === "held") return undefined;
    if (!(await claimDueTimer(sql, timer))) return undefined;
    await finishTimer(sql, timer);
    const followup = thread && (await lockFollowup(sql, found));
    if (followup?.status !== "dead" && followup?.status !== "expired") return undefined;
    await note(sql, followup);
    await postDeliveries(sql, followup.tenantId, await engine.sorryOf(sql, followup));
    return followup;
  });
  if (failed === undefined) return false;
  const { tenantId, followupId, threadId, status, reason } = failed;
  deps.log.warn(
    { tenant_id: tenantId, followup_id: followupId, thread_id: threadId, status, reason },
    "a follow-up came to nothing: `perdure followups ls` lists it",
  );
  deps.notifier.notify("deliveries");
  return true;
}

async function note(sql: Sql, { tenantId, originRunId, followupId, status, reason }: FollowupRow): Promise<void> {
  const origin = originRunId === null ? undefined : await getRun(sql, { tenantId, runId: originRunId });
  if (origin === undefined) return;
  const payload = { followup_id: followupId, status, reason };
  await appendEvent(sql, origin, { type: "followup.failed", attempt: 0, payload });
}
