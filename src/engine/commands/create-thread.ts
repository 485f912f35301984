// Makes a thread, or hands out the one that has the id already when the caller allows that.
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { TenantId, ThreadId } from "../../core/ids.js";
import { getThread, insertThread, type ThreadRow } from "../../runs/threads.js";
import { refuseReuse } from "../../runs/tombstones.js";

/**
 * Throws `conflict` when the tenant has a thread with this id and `ifExists` is "raise", and always when the id was a
 * deleted thread's.
 */
export async function createThread(
  deps: Deps,
  thread: Readonly<{
    tenantId: TenantId;
    threadId?: ThreadId | undefined;
    metadata: Readonly<Record<string, unknown>>;
    ifExists: "raise" | "do_nothing";
  }>,
): Promise<ThreadRow> {
  const key = { tenantId: thread.tenantId, threadId: thread.threadId ?? deps.ids.next<ThreadId>() };
  return deps.db.tx(async (sql) => {
    const made = await insertThread(sql, { ...key, metadata: thread.metadata });
    if (made !== undefined) await refuseReuse(sql, key);
    const found = made ?? (thread.ifExists === "do_nothing" ? await getThread(sql, key) : undefined);
    if (found === undefined || (made === undefined && found.ephemeral)) {
      throw new EngineError("conflict", `Thread ${key.threadId} already exists`);
    }
    return found;
  });
}
