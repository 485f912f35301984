// Ends unfinished runs of a locked thread from outside: runs, their timers and their log in one place.
import type { Sql } from "../../core/deps.js";
import type { RunId } from "../../core/ids.js";
import { appendEvent } from "../../runs/events.js";
import { cancelRuns } from "../../runs/runs.js";
import type { ThreadKey } from "../../runs/thread-lock.js";
import { cancelTimers } from "../../schedule/timers.js";

/** Cancels those of `runIds` that are unfinished; whoever works on them is fenced off from then on. Returns them. */
export async function endRuns(
  sql: Sql,
  end: ThreadKey & Readonly<{ runIds: readonly RunId[]; reason: string }>,
): Promise<RunId[]> {
  const ended = await cancelRuns(sql, end);
  const ids = ended.map((run) => run.runId);
  await cancelTimers(sql, { tenantId: end.tenantId, kinds: ["run.release"], refIds: ids });
  for (const run of ended) {
    await appendEvent(
      sql,
      { tenantId: end.tenantId, threadId: end.threadId, runId: run.runId },
      { type: "run.cancelled", attempt: run.attempt },
    );
  }
  return ids;
}
