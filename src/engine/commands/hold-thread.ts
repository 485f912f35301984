// Holding a thread for something that is not one of its runs: an edit, with a lease like any other run.
import type { Lease } from "../../core/clock.js";
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { AssistantId, RunId, TenantId, ThreadId } from "../../core/ids.js";
import type { ThreadStatus } from "../../core/run.js";
import { renewLeases } from "../../runs/claim.js";
import { insertEdit } from "../../runs/new-runs.js";
import { giveKeyBack } from "../../runs/idempotency-keys.js";
import { deleteRuns, lockUnfinishedRuns } from "../../runs/runs.js";
import { type LockedThread, lockThread, updateThreadStatus } from "../../runs/thread-lock.js";
import { endEdit } from "./end-edit.js";
import { type Once, takeOnce } from "./make-once.js";
import { undoEdit } from "./undo-edit.js";

export type Hold = Readonly<{
  tenantId: TenantId;
  threadId: ThreadId;
  assistantId: AssistantId;
  graphId: string;
  /** Unique per process start. */
  owner: string;
  leaseMs: number;
}>;

export type Held = Readonly<{ lease: Lease; thread: LockedThread }>;
/** `quiet`: nothing happened for who sorts threads by their last change. */
type Manner = Readonly<{ quiet?: boolean }>;
/** `once`: the key that is taken with the thread. */
type Taking = Manner & Readonly<{ once?: Once | null }>;

/** Takes the thread. Throws `not_found`, `thread_busy` when a run of it is pending or running, `conflict` for a key that is taken. */
export async function takeThread(deps: Deps, hold: Hold, { once = null, ...manner }: Taking = {}): Promise<Held> {
  const runId = deps.ids.next<RunId>();
  const lease: Lease = { tenantId: hold.tenantId, threadId: hold.threadId, runId, attempt: 1, owner: hold.owner };
  const thread = await deps.db.tx(async (sql) => {
    const locked = await lockThread(sql, hold);
    if (locked === undefined) throw new EngineError("not_found", `Thread with ID ${hold.threadId} not found`);
    if ((await lockUnfinishedRuns(sql, hold)).length > 0) throw new EngineError("thread_busy", "Thread is busy");
    await takeOnce(sql, once, runId);
    await insertEdit(sql, { ...hold, runId, threadStatus: locked.status });
    await updateThreadStatus(sql, { tenantId: hold.tenantId, threadId: hold.threadId, status: "busy", ...manner });
    return locked;
  });
  return { lease, thread };
}

/**
 * Lets go of the thread after what it was held for failed: unless something was stored already, all is as it was, and nothing says that it was
 * held.
 */
export async function giveBack(
  deps: Deps,
  lease: Lease,
  threadStatus: ThreadStatus,
  { once = null, ...manner }: Taking = {},
): Promise<void> {
  try {
    const next = await deps.db.tx(async (sql) => {
      await lockThread(sql, lease);
      const own = (await lockUnfinishedRuns(sql, lease)).find((run) => run.runId === lease.runId);
      const begun = own?.begun ?? false;
      await endEdit(sql, lease, { checkpointId: null, errorCode: "edit_failed" });
      if (!begun) await deleteRuns(sql, { ...lease, runIds: [lease.runId] });
      if (!begun && once !== null) await giveKeyBack(sql, once, lease.runId);
      return undoEdit(sql, lease, { begun, threadStatus, ...manner });
    });
    if (next) deps.notifier.notify("runs");
  } catch (error) {
    // The sweeper ends it when its lease is over.
    const code = String((error as { code?: unknown }).code ?? "internal");
    deps.log.warn({ run_id: lease.runId, code }, "could not end a failed edit; it ends with its lease");
  }
}

/** Renews the lease while `work` goes on. When it is lost, the fence of what `work` wants to write says so. */
export async function whileRenewing<T>(deps: Deps, lease: Lease, leaseMs: number, work: () => Promise<T>): Promise<T> {
  const done = new AbortController();
  const renewing = (async () => {
    while (!done.signal.aborted) {
      await deps.clock.sleep(leaseMs / 3, done.signal);
      if (done.signal.aborted) return;
      await renewLeases(deps.db, { owner: lease.owner, leaseMs, runs: [lease] }).catch(() => undefined);
    }
  })();
  try {
    return await work();
  } finally {
    done.abort();
    await renewing;
  }
}
