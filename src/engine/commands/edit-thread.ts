// Edits of a thread's state are runs too: short, leased, fenced, ordered and logged.
import type { Question } from "../../core/approval.js";
import type { Lease } from "../../core/clock.js";
import type { Deps } from "../../core/deps.js";
import { appendEvent } from "../../runs/events.js";
import { retryTransient } from "../../db/retry-transient.js";
import { makeNextHead } from "../../runs/order.js";
import { lockUnfinishedRuns } from "../../runs/runs.js";
import { lockThread, updateThreadStatus } from "../../runs/thread-lock.js";
import { setTimer } from "../../schedule/timers.js";
import { endEdit } from "./end-edit.js";
import { giveBack, type Hold, takeThread } from "./hold-thread.js";
import type { Once } from "./make-once.js";
import { askQuestions, withdrawQuestions } from "./questions.js";

export type EditInput = Hold & Readonly<{ moveAfterMs: number; once: Once | null }>;

/** What the edit left behind: whether there is something to go on with, and which questions are open. */
export type Edited<T> = Readonly<{
  value: T;
  checkpointId: string | null;
  hasNext: boolean;
  interrupts: readonly Question[];
}>;

/**
 * Holds the thread while `work` writes its state under a lease; then settles thread and questions.
 * Throws `not_found`, `thread_busy` when a run is pending or running, and whatever `work` throws: then the thread is as it was,
 * unless a checkpoint was stored already.
 */
export async function editThread<T>(
  deps: Deps,
  edit: EditInput,
  work: (lease: Lease) => Promise<Edited<T>>,
): Promise<T> {
  const { lease, thread } = await takeThread(deps, edit, { once: edit.once });
  try {
    const edited = await work(lease);
    const settle = () => settleEdit(deps, lease, edited, edit.moveAfterMs);
    await retryTransient(settle, { ...deps, deadlineMs: edit.leaseMs });
    return edited.value;
  } catch (error) {
    await giveBack(deps, lease, thread.status, { once: edit.once });
    throw error;
  }
}

async function settleEdit<T>(deps: Deps, lease: Lease, edited: Edited<T>, moveAfterMs: number): Promise<void> {
  const next = await deps.db.tx(async (sql) => {
    await lockThread(sql, lease);
    const others = (await lockUnfinishedRuns(sql, lease)).filter((run) => run.runId !== lease.runId);
    await endEdit(sql, lease, { checkpointId: edited.checkpointId, errorCode: null });
    await appendEvent(sql, lease, { type: "run.settled", attempt: 1, payload: { outcome: "edit" } });
    await withdrawQuestions(sql, {
      tenantId: lease.tenantId,
      threadId: lease.threadId,
      reason: "the state was edited",
      except: edited.interrupts.map((i) => i.interruptId),
    });
    await askQuestions(deps, sql, {
      ...lease,
      checkpointId: edited.checkpointId,
      questions: edited.interrupts,
      answering: others.map((run) => run.runId),
    });
    await setTimer(sql, {
      tenantId: lease.tenantId,
      timerId: deps.ids.next(),
      kind: "move",
      refId: lease.threadId,
      when: { afterMs: moveAfterMs },
    });
    const head = await makeNextHead(sql, lease);
    const status = others.length > 0 ? "busy" : edited.hasNext ? "interrupted" : "idle";
    await updateThreadStatus(sql, { ...lease, status, stateChanged: true });
    return head;
  });
  if (next) deps.notifier.notify("runs");
}
