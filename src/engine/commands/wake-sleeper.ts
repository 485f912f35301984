// Goes on with a branch that slept beside open questions, when its time has come. The questions stay open.
import { pendingApprovals } from "../../approvals/approvals.js";
import type { Deps } from "../../core/deps.js";
import type { RunId } from "../../core/ids.js";
import { isInOrder } from "../../core/run.js";
import { lockUnfinishedRuns } from "../../runs/runs.js";
import { lockThreadIfFree } from "../../runs/thread-lock.js";
import { claimDueTimer, finishTimer, type TimerRow } from "../../schedule/timers.js";
import { followupOf, insertAccepted } from "./create-run.js";
import { settingsOfRun } from "./settings-of-run.js";

/** Makes a run for the branch, unless the thread has moved on or is about to. Returns whether it did. */
export async function wakeSleeper(deps: Deps, timer: TimerRow): Promise<boolean> {
  const runId = timer.refId as RunId;
  const asking = await settingsOfRun(deps, { tenantId: timer.tenantId, runId });
  const woken = await deps.db.tx(async (sql) => {
    const thread = asking && (await lockThreadIfFree(sql, asking.run));
    if (thread === "held") return undefined;
    if (!(await claimDueTimer(sql, timer))) return undefined;
    await finishTimer(sql, timer);
    if (asking === undefined || thread === undefined) return undefined;
    const ahead = (await lockUnfinishedRuns(sql, thread)).filter(isInOrder);
    const asked = (await pendingApprovals(sql, thread)).some((question) => question.runId === runId);
    // Whoever is ahead looks at the sleeping branch itself; answered or withdrawn questions mean that somebody was.
    if (ahead.length > 0 || !asked) return undefined;
    const { tenantId } = timer;
    const { assistant, priority, run } = asking;
    const { conversationId, webhook, keepsLast } = run;
    const usual = { metadata: {}, multitaskStrategy: "enqueue", afterSeconds: null } as const;
    return insertAccepted(deps, sql, {
      input: { tenantId, assistant, ...usual, priority, conversationId, webhook, keepsLast, followup: followupOf(run) },
      thread,
      runId: deps.ids.next(),
      request: asking.request,
      threadFree: true,
    });
  });
  if (woken !== undefined) deps.notifier.notify("runs");
  return woken !== undefined;
}
