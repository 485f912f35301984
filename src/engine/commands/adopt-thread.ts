// Adopting a thread, as an edit that makes its thread: begun, settled, or undone as if it had never been. Until it is settled
// the thread is hidden, as those of stateless runs are, so that nobody goes on from half a history.
import { doomThread } from "../../checkpoint/queries.js";
import type { Question } from "../../core/approval.js";
import type { Lease } from "../../core/clock.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError, isEngineError } from "../../core/errors.js";
import type { AssistantId, RunId, TimerId } from "../../core/ids.js";
import type { ThreadStatus } from "../../core/run.js";
import { type AdoptedFrom, adoptionOf, showAdopted } from "../../runs/adoptions.js";
import { appendEvent } from "../../runs/events.js";
import { insertEdit } from "../../runs/new-runs.js";
import { lockUnfinishedRuns } from "../../runs/runs.js";
import { type Ending, endAttempt } from "../../runs/settle.js";
import { lockThread, type ThreadKey } from "../../runs/thread-lock.js";
import { deleteThreadRow, getThread, insertThread } from "../../runs/threads.js";
import { isTombstoned, refuseReuse } from "../../runs/tombstones.js";
import { setTimer } from "../../schedule/timers.js";
import { leaseLost } from "../lease-lost.js";
import { removeDoomed } from "../remove-doomed.js";
import { askQuestions } from "./questions.js";

export type Adoption = ThreadKey &
  Readonly<{
    from: AdoptedFrom;
    assistantId: AssistantId;
    graphId: string;
    /** Unique per process start. */
    owner: string;
    leaseMs: number;
  }>;

/** What stands in the way, or the lease to write with. */
export type Begun =
  | Readonly<{ kind: "lease"; lease: Lease }>
  /** It is there already. */
  | Readonly<{ kind: "adopted" }>
  /** Somebody else is at it, or died over it: wait for the end of its lease. */
  | Readonly<{ kind: "busy" }>
  /** It was deleted here. */
  | Readonly<{ kind: "deleted" }>
  /** The id is another thread's. */
  | Readonly<{ kind: "taken" }>;

/** Takes the thread for one try. What an earlier try that died has written is written again, to the same effect. */
export async function beginAdoption(deps: Deps, adoption: Adoption): Promise<Begun> {
  const runId = deps.ids.next<RunId>();
  const { tenantId, threadId, owner } = adoption;
  const lease: Lease = { tenantId, threadId, runId, attempt: 1, owner };
  try {
    return await deps.db.tx(async (sql) => {
      const made = await insertThread(sql, { ...adoption, ephemeral: true });
      if (made !== undefined) await refuseReuse(sql, adoption);
      // A thread that was deleted since.
      if ((await lockThread(sql, adoption)) === undefined) return { kind: "busy" };
      const unfinished = await lockUnfinishedRuns(sql, adoption);
      if (made === undefined) {
        const there = await whatIsThere(sql, adoption);
        if (there !== "half" && there !== "nothing") return { kind: there };
        if (unfinished.length > 0) return { kind: "busy" };
      }
      await insertEdit(sql, { ...adoption, runId, threadStatus: "idle", metadata: { adopted_from: adoption.from } });
      return { kind: "lease", lease };
    });
  } catch (error) {
    if (isEngineError(error, "conflict")) return { kind: "deleted" };
    throw error;
  }
}

/** What stands under the thread's id. `half`: an adoption of it that is not settled. */
export async function whatIsThere(
  sql: Sql,
  adoption: Adoption,
): Promise<"nothing" | "half" | "adopted" | "deleted" | "taken"> {
  const thread = await getThread(sql, adoption);
  if (thread === undefined) return (await isTombstoned(sql, adoption)) ? "deleted" : "nothing";
  const before = await adoptionOf(sql, adoption);
  if (before === undefined || before.from.thread_id !== adoption.from.thread_id) return "taken";
  return before.status === "success" ? "adopted" : "half";
}

/** What the source says of the thread as a whole. */
export type AdoptedHead = Readonly<{
  checkpointId: string | null;
  labels: Readonly<Record<string, unknown>>;
  status: ThreadStatus;
  interrupts: readonly Question[];
  createdAt: Date | null;
  updatedAt: Date | null;
}>;

/** Shows the thread, with its open questions. May run twice. Throws `lease_lost`: then it is as it was. */
export async function settleAdoption(
  deps: Deps,
  lease: Lease,
  adoption: Adoption,
  head: AdoptedHead,
  moveAfterMs: number,
): Promise<void> {
  await deps.db.tx(async (sql) => {
    await lockThread(sql, lease);
    await lockUnfinishedRuns(sql, lease);
    if (!(await end(sql, lease, head.checkpointId, null))) {
      // A reply that was lost: it is settled already.
      if ((await adoptionOf(sql, lease))?.status === "success") return;
      throw leaseLost(lease);
    }
    await appendEvent(sql, lease, { type: "run.settled", attempt: 1, payload: { outcome: "adopted" } });
    await askQuestions(deps, sql, {
      ...lease,
      checkpointId: head.checkpointId,
      questions: head.interrupts,
      answering: [],
    });
    const { tenantId, threadId } = lease;
    const timerId = deps.ids.next<TimerId>();
    await setTimer(sql, { tenantId, timerId, kind: "move", refId: threadId, when: { afterMs: moveAfterMs } });
    await showAdopted(sql, { ...lease, ...head, metadata: { ...head.labels, ...threadMetadata(adoption) } });
  });
}

/** What an adopted thread is found by. */
export function threadMetadata({ graphId, assistantId, from }: Adoption): Readonly<Record<string, string>> {
  return { graph_id: graphId, assistant_id: assistantId, source_thread_id: from.thread_id };
}

/** Removes everything of an adoption that failed, unless somebody else has taken it over. */
export async function abandonAdoption(deps: Deps, lease: Lease): Promise<void> {
  const objects = await deps.db.tx(async (sql) => {
    await lockThread(sql, lease);
    await lockUnfinishedRuns(sql, lease);
    if (!(await end(sql, lease, null, "adoption_failed"))) return [];
    if ((await getThread(sql, lease))?.ephemeral !== true)
      throw new EngineError("internal", `Thread ${lease.threadId} is shown`);
    const doomed = await doomThread(sql, lease);
    await deleteThreadRow(sql, lease);
    return doomed;
  });
  await removeDoomed(deps, objects);
}

async function end(
  sql: Sql,
  lease: Lease,
  resultCheckpointId: string | null,
  errorCode: string | null,
): Promise<boolean> {
  const ending: Ending = {
    status: errorCode === null ? "success" : "error",
    waitsFor: null,
    resultCheckpointId,
    errorCode,
    errorType: null,
    errorPreview: null,
    error: null,
  };
  return endAttempt(sql, lease, ending);
}
