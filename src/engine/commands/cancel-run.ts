// Cancels a run from outside: terminal at once, whatever its worker still does is refused by the fence.
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { RunId, TenantId, ThreadId } from "../../core/ids.js";
import { makeNextHead } from "../../runs/order.js";
import { getRun, lockUnfinishedRuns, type RunRow } from "../../runs/runs.js";
import { lockThread, updateThreadStatus } from "../../runs/thread-lock.js";
import { setCleanupTimers } from "./cleanup-timers.js";
import { endRuns } from "./end-runs.js";
import { statusLeft, withdrawQuestions } from "./questions.js";

type Cancel = Readonly<{
  tenantId: TenantId;
  threadId: ThreadId;
  runId: RunId;
  reason: string;
  moveAfterMs: number;
  /** Not if other requests' messages are part of it: they are not this caller's to take away. */
  unlessShared?: boolean;
}>;

/**
 * Ends the run if it is unfinished, or withdraws its open questions if it waits for answers. Cancelling a finished run
 * changes nothing. Returns the run as it is afterwards. Throws `not_found`.
 */
export async function cancelRun(deps: Deps, cancel: Cancel): Promise<RunRow> {
  const { run, ended } = await deps.db.tx(async (sql) => {
    const thread = await lockThread(sql, cancel);
    const found = thread && (await getRun(sql, cancel));
    if (thread === undefined || found === undefined) {
      throw new EngineError("not_found", `Run ${cancel.runId} not found on thread ${cancel.threadId}`);
    }
    if (cancel.unlessShared === true && found.merged > 0) return { run: found, ended: [] };
    await lockUnfinishedRuns(sql, cancel);
    const endedIds = await endRuns(sql, { ...cancel, runIds: [cancel.runId] });
    if (endedIds.length > 0) {
      await makeNextHead(sql, cancel);
      await setCleanupTimers(deps, sql, thread, cancel.moveAfterMs);
      await updateThreadStatus(sql, { ...cancel, status: await statusLeft(sql, cancel) });
    } else if (found.waitsFor === "approval" && (await withdraw(sql, cancel)).length > 0) {
      await makeNextHead(sql, cancel);
      await updateThreadStatus(sql, { ...cancel, status: await statusLeft(sql, cancel) });
    }
    return { run: (await getRun(sql, cancel)) ?? found, ended: endedIds };
  });
  for (const runId of ended) {
    deps.notifier.notify("cancel", runId);
    deps.notifier.notify("stream", runId);
    deps.notifier.notify("ended", runId);
    deps.notifier.notify("runs");
  }
  return run;
}

function withdraw(sql: Sql, { tenantId, threadId, runId }: Cancel) {
  return withdrawQuestions(sql, { tenantId, threadId, runId, reason: "run cancelled" });
}
