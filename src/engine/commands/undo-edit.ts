// What becomes of a thread whose edit failed or died: as it was before, if nothing of the edit was stored.
import type { Sql } from "../../core/deps.js";
import type { ThreadStatus } from "../../core/run.js";
import { makeNextHead } from "../../runs/order.js";
import { hasUnfinishedRuns } from "../../runs/runs.js";
import { type ThreadKey, updateThreadStatus } from "../../runs/thread-lock.js";
import { withdrawQuestions } from "./questions.js";

/** Frees the thread of an edit that was ended without success. The thread must be locked. Returns whether a run may start now. */
export async function undoEdit(
  sql: Sql,
  thread: ThreadKey,
  edit: Readonly<{ begun: boolean; threadStatus: ThreadStatus; quiet?: boolean }>,
): Promise<boolean> {
  const { tenantId, threadId } = thread;
  // Once its checkpoint is the head, what was asked at the one before can't be answered any more.
  if (edit.begun) await withdrawQuestions(sql, { tenantId, threadId, reason: "the state was edited" });
  const next = await makeNextHead(sql, thread);
  const status = edit.begun ? "idle" : edit.threadStatus;
  const busy = await hasUnfinishedRuns(sql, thread);
  await updateThreadStatus(sql, { tenantId, threadId, status: busy ? "busy" : status, quiet: edit.quiet ?? false });
  return next;
}
