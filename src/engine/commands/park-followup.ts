// Nothing arrives where a follow-up is to go: it waits until the person writes, or until it isn't wanted any more; the log of the run
// that promised it says so.
import type { Deps, Sql } from "../../core/deps.js";
import { appendEvent } from "../../runs/events.js";
import { getRun } from "../../runs/runs.js";
import { type FollowupRow, updateFollowup } from "../../schedule/followups.js";
import { finishTimer, postponeTimer, type TimerRow } from "../../schedule/timers.js";
import { databaseNow } from "../database-now.js";

/** In the transaction that has locked its conversation: once that is reachable again its timer is due (migrations/0013_followups.sql). */
export async function parkFollowup(
  deps: Deps,
  sql: Sql,
  { timer, followup, code }: Readonly<{ timer: TimerRow; followup: FollowupRow; code: string }>,
): Promise<void> {
  const { tenantId, followupId, threadId, originRunId, notAfter, status } = followup;
  if (notAfter === null) await finishTimer(sql, timer);
  else await postponeTimer(sql, { ...timer, afterMs: notAfter.getTime() - (await databaseNow(sql)).getTime() + 1 });
  if (status === "parked") return;
  await updateFollowup(sql, followup, { status: "parked", reason: code });
  const origin = originRunId === null ? undefined : await getRun(sql, { tenantId, runId: originRunId });
  const payload = { followup_id: followupId, code };
  if (origin !== undefined) await appendEvent(sql, origin, { type: "followup.parked", attempt: 0, payload });
  const fields = { tenant_id: tenantId, followup_id: followupId, thread_id: threadId, code };
  deps.log.warn(fields, "a follow-up waits: nothing arrives where it is to go until the person writes");
}
