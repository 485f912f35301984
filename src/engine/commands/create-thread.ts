// Makes a thread, or hands out the one that has the id already when the caller allows that.
import { reaches, type Within } from "../../core/access.js";
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { TenantId, ThreadId } from "../../core/ids.js";
import type { ThreadTtl } from "../../core/thread-ttl.js";
import { takeKey } from "../../runs/idempotency-keys.js";
import { getThread, insertThread, type ThreadRow } from "../../runs/threads.js";
import { refuseReuse } from "../../runs/tombstones.js";
import { findMadeBefore, type Once } from "./make-once.js";

/** `again`: an earlier request with the same key has made it. */
export type MadeThread = Readonly<{ thread: ThreadRow; again: boolean }>;

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
    ttl: ThreadTtl | null;
    ifExists: "raise" | "do_nothing";
    /** Which threads the caller may see: to it another one with this id exists, and no more. */
    within?: Within;
    once: Once | null;
  }>,
): Promise<MadeThread> {
  const { tenantId, once, within = null } = thread;
  const before = once === null ? undefined : await threadMadeBefore(deps, once);
  if (before !== undefined) return { thread: before, again: true };
  const key = { tenantId, threadId: thread.threadId ?? deps.ids.next<ThreadId>() };
  const made = await deps.db.tx(async (sql) => {
    if (once !== null && !(await takeKey(sql, once, key.threadId))) return undefined;
    const made = await insertThread(sql, { ...key, metadata: thread.metadata, ttl: thread.ttl });
    if (made !== undefined) await refuseReuse(sql, key);
    const found = made ?? (thread.ifExists === "do_nothing" ? await getThread(sql, key) : undefined);
    if (found === undefined || (made === undefined && (found.ephemeral || !reaches(within, found.metadata)))) {
      throw new EngineError("conflict", `Thread ${key.threadId} already exists`);
    }
    return found;
  });
  // Another request with the key was faster.
  return made === undefined ? createThread(deps, thread) : { thread: made, again: false };
}

/** The thread an earlier request with this key has made. Throws `conflict` when that was another request, `expired` when it is gone. */
export function threadMadeBefore({ db }: Deps, once: Once): Promise<ThreadRow | undefined> {
  return findMadeBefore(db, once, "thread", async (id) => {
    const thread = await getThread(db, { tenantId: once.tenantId, threadId: id as ThreadId });
    return thread?.ephemeral ? undefined : thread;
  });
}
