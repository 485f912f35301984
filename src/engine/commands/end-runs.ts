// Ends unfinished runs of a locked thread from outside: runs, their timers, stale questions and their log in one place.
import type { Sql } from "../../core/deps.js";
import type { RunId } from "../../core/ids.js";
import { supersedes } from "../../core/run.js";
import { appendEvent } from "../../runs/events.js";
import { cancelRuns, type RunRow } from "../../runs/runs.js";
import { appendFinalChunk } from "../../runs/stream-chunks.js";
import type { ThreadKey } from "../../runs/thread-lock.js";
import { cancelTimers } from "../../schedule/timers.js";
import { withdrawQuestions } from "./questions.js";

/** Cancels those of `runIds` that are unfinished; whoever works on them is fenced off from then on. Returns them. */
export async function endRuns(
  sql: Sql,
  end: ThreadKey & Readonly<{ runIds: readonly RunId[]; reason: string }>,
): Promise<RunId[]> {
  const { tenantId, threadId } = end;
  const ended = await cancelRuns(sql, end);
  const ids = ended.map((run) => run.runId);
  await cancelTimers(sql, { tenantId, kinds: ["run.release"], refIds: ids });
  // Its settling would have done so: what was asked before its input is not what the state waits for any more.
  if (ended.some((run) => run.begun && supersedes(run))) {
    await withdrawQuestions(sql, { tenantId, threadId, reason: "the thread moved on" });
  }
  for (const run of ended) {
    await appendEvent(sql, run, { type: "run.cancelled", attempt: run.attempt, payload: { reason: end.reason } });
    await tellWatchers(sql, run, end.reason);
  }
  return ids;
}

/** Whoever saw something of it learns that what came after the last state is not kept. */
async function tellWatchers(sql: Sql, run: RunRow, reason: string): Promise<void> {
  const { runId, attempt } = run;
  if (attempt === 0) return;
  const json = JSON.stringify({ run_id: runId, attempt, cancel_reason: reason });
  await appendFinalChunk(sql, run, { event: "metadata", json });
}
