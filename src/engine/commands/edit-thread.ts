// Edits of a thread's state are runs too: short, leased, fenced, ordered and logged.
import type { Lease } from "../../core/clock.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { AssistantId, RunId, TenantId, ThreadId } from "../../core/ids.js";
import type { PendingInterrupt, ThreadStatus } from "../../core/run.js";
import { askApprovals, withdrawApprovals } from "../../approvals/approvals.js";
import { appendEvent } from "../../runs/events.js";
import { retryTransient } from "../../db/retry-transient.js";
import { insertEdit, lockUnfinishedRuns, makeNextHead } from "../../runs/runs.js";
import { endAttempt } from "../../runs/settle.js";
import { lockThread, updateThreadStatus } from "../../runs/thread-lock.js";
import { setTimer } from "../../schedule/timers.js";
import { leaseLost } from "./settle-run.js";
import { undoEdit } from "./undo-edit.js";

export type EditInput = Readonly<{
  tenantId: TenantId;
  threadId: ThreadId;
  assistantId: AssistantId;
  graphId: string;
  /** Unique per process start. */
  owner: string;
  leaseMs: number;
  moveAfterMs: number;
}>;

/** What the edit left behind: whether there is something to go on with, and which questions are open. */
export type Edited<T> = Readonly<{
  value: T;
  checkpointId: string | null;
  hasNext: boolean;
  interrupts: readonly PendingInterrupt[];
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
  const runId = deps.ids.next<RunId>();
  const lease: Lease = { tenantId: edit.tenantId, threadId: edit.threadId, runId, attempt: 1, owner: edit.owner };
  const threadStatus = await deps.db.tx(async (sql) => {
    const thread = await lockThread(sql, edit);
    if (thread === undefined) throw new EngineError("not_found", `Thread with ID ${edit.threadId} not found`);
    if ((await lockUnfinishedRuns(sql, edit)).length > 0) throw new EngineError("thread_busy", "Thread is busy");
    await insertEdit(sql, { ...edit, runId, threadStatus: thread.status });
    await updateThreadStatus(sql, { ...edit, status: "busy" });
    return thread.status;
  });
  try {
    const edited = await work(lease);
    const settle = () => settleEdit(deps, lease, edited, edit.moveAfterMs);
    await retryTransient(settle, { ...deps, deadlineMs: edit.leaseMs });
    return edited.value;
  } catch (error) {
    await abandonEdit(deps, lease, threadStatus);
    throw error;
  }
}

async function settleEdit<T>(deps: Deps, lease: Lease, edited: Edited<T>, moveAfterMs: number): Promise<void> {
  const next = await deps.db.tx(async (sql) => {
    await lockThread(sql, lease);
    const others = (await lockUnfinishedRuns(sql, lease)).filter((run) => run.runId !== lease.runId);
    await end(sql, lease, edited.checkpointId, null);
    await appendEvent(sql, lease, { type: "run.settled", attempt: 1, payload: { outcome: "edit" } });
    await withdrawApprovals(sql, {
      tenantId: lease.tenantId,
      threadId: lease.threadId,
      reason: "the state was edited",
      except: edited.interrupts.map((i) => i.interruptId),
    });
    await askApprovals(sql, {
      ...lease,
      checkpointId: edited.checkpointId,
      questions: edited.interrupts.map((i) => ({ approvalId: deps.ids.next(), ...i })),
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

async function abandonEdit(deps: Deps, lease: Lease, threadStatus: ThreadStatus): Promise<void> {
  try {
    const next = await deps.db.tx(async (sql) => {
      await lockThread(sql, lease);
      const own = (await lockUnfinishedRuns(sql, lease)).find((run) => run.runId === lease.runId);
      await end(sql, lease, null, "edit_failed");
      return undoEdit(sql, lease, { begun: own?.begun ?? false, threadStatus });
    });
    if (next) deps.notifier.notify("runs");
  } catch (error) {
    // The sweeper ends it when its lease is over.
    const code = String((error as { code?: unknown }).code ?? "internal");
    deps.log.warn({ run_id: lease.runId, code }, "could not end a failed edit; it ends with its lease");
  }
}

async function end(sql: Sql, lease: Lease, checkpointId: string | null, errorCode: string | null): Promise<void> {
  const ended = await endAttempt(sql, lease, {
    status: errorCode === null ? "success" : "error",
    waitsFor: null,
    resultCheckpointId: checkpointId,
    errorCode,
    errorType: null,
    errorPreview: null,
    error: null,
  });
  if (!ended) throw leaseLost(lease);
}
