// What an edit of a state that may come again (Idempotency-Key) has stored. Its key is taken with the thread, before the state is
// written: an edit whose process died or which was refused has stored nothing, and its key is free again.
import { newestCheckpointOfRun } from "../../checkpoint/queries.js";
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { RunId, ThreadId } from "../../core/ids.js";
import { giveKeyBack } from "../../runs/idempotency-keys.js";
import { editStatus } from "../../runs/runs.js";
import { madeAndGone, madeBefore, type Once } from "./make-once.js";

/**
 * The checkpoint that an earlier request with this key has stored in a namespace of the thread; undefined when none has.
 * Throws `thread_busy` while it is under way, `expired` when it is gone, and `conflict` when it was another request.
 */
export async function checkpointMadeBefore(
  deps: Deps,
  once: Once,
  { threadId, ns }: Readonly<{ threadId: ThreadId; ns: string }>,
): Promise<string | undefined> {
  const runId = (await madeBefore(deps.db, once)) as RunId | undefined;
  if (runId === undefined) return undefined;
  const { tenantId } = once;
  const status = await editStatus(deps.db, { tenantId, runId });
  if (status === "running") throw new EngineError("thread_busy", "Thread is busy");
  const stored = await newestCheckpointOfRun(deps.db, { tenantId, threadId, runId }, ns);
  if (stored !== undefined) return stored;
  // It was refused meanwhile, and has left nothing.
  if (status === undefined && (await madeBefore(deps.db, once)) === undefined) return undefined;
  // One that has ended well has stored something, which was pruned since.
  if (status === undefined || status === "success") throw madeAndGone(once, `a checkpoint of edit ${runId}`);
  await giveKeyBack(deps.db, once, runId);
  return undefined;
}
