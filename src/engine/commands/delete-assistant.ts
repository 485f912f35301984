// Deletes an assistant: what it still has to do first, itself last. Who dies half way has left an assistant that can be deleted again.
import { type AssistantRow } from "../../assistants/queries.js";
import { deleteAssistantRow } from "../../assistants/versions.js";
import type { Within } from "../../core/access.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError, unlessGone } from "../../core/errors.js";
import type { AssistantId, TenantId } from "../../core/ids.js";
import { lockPin } from "../../runs/pins.js";
import { unfinishedRunsOf } from "../../runs/runs.js";
import { cancelRun } from "./cancel-run.js";
import { isSystemAssistant } from "./create-assistant.js";
import { deleteThreadsLike } from "./delete-thread.js";
import { isLockTimeout, LOCK_TIMEOUT } from "./pin-assistant.js";

const AT_ONCE = 100;

type Deletion = Readonly<{
  tenantId: TenantId;
  assistant: Pick<AssistantRow, "assistantId" | "graphId">;
  /** With the threads that are its own, and that who asks may delete. */
  deleteThreads: boolean;
  threadsWithin?: Within;
  moveAfterMs: number;
}>;

/**
 * Ends its unfinished runs and deletes it with its versions. Runs that are over stay in the history of their threads.
 * Throws `forbidden` for a graph's own assistant, which the next start would make again, and `unavailable` when somebody who makes a
 * run of it doesn't come to an end.
 */
export async function deleteAssistant(deps: Deps, deletion: Deletion): Promise<void> {
  const { tenantId, assistant, deleteThreads } = deletion;
  if (isSystemAssistant(assistant)) {
    throw new EngineError("forbidden", `The assistant of graph "${assistant.graphId}" can't be deleted`);
  }
  const key = { tenantId, assistantId: assistant.assistantId };
  for (;;) {
    if (deleteThreads) {
      const metadata = { assistant_id: assistant.assistantId };
      await deleteThreadsLike(deps, { tenantId, metadata, within: deletion.threadsWithin ?? null });
    }
    await endRunsOf(deps, key, deletion.moveAfterMs);
    const done = await deps.db
      .tx((sql) => deleteIfDone(sql, key))
      .catch((error: unknown) => {
        throw isLockTimeout(error) ? tooBusy(key, error) : error;
      });
    if (done) return;
  }
}

type Key = Readonly<{ tenantId: TenantId; assistantId: AssistantId }>;

async function endRunsOf(deps: Deps, key: Key, moveAfterMs: number): Promise<void> {
  for (;;) {
    const runs = await unfinishedRunsOf(deps.db, { ...key, limit: AT_ONCE });
    if (runs.length === 0) return;
    for (const run of runs) {
      const cancel = { ...run, tenantId: key.tenantId, moveAfterMs, reason: "its assistant was deleted" };
      await unlessGone(cancelRun(deps, cancel));
    }
  }
}

/** Runs of it are kept from being made meanwhile; false when some were made since. */
async function deleteIfDone(sql: Sql, key: Key): Promise<boolean> {
  await sql.query(LOCK_TIMEOUT);
  await lockPin(sql, key);
  if ((await unfinishedRunsOf(sql, { ...key, limit: 1 })).length > 0) return false;
  await deleteAssistantRow(sql, key);
  return true;
}

function tooBusy({ assistantId }: Key, cause: unknown): EngineError {
  return new EngineError(
    "unavailable",
    `Assistant ${assistantId} was not deleted: a run of it has been in the making for 2 s; try again`,
    { cause },
  );
}
