// Labels a thread, and says how long it is kept: merges metadata, key by key.
import { reaches, type Within } from "../../core/access.js";
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { ThreadTtl } from "../../core/thread-ttl.js";
import { lockThread, type ThreadKey } from "../../runs/thread-lock.js";
import { patchThreadRow, type ThreadRow } from "../../runs/threads.js";

/** Throws `not_found`. */
export async function patchThread(
  deps: Deps,
  patch: ThreadKey & Readonly<{ metadata: Readonly<Record<string, unknown>>; ttl?: ThreadTtl | null; within?: Within }>,
): Promise<ThreadRow> {
  return deps.db.tx(async (sql) => {
    const thread = await lockThread(sql, patch);
    const isTheirs = thread?.ephemeral === false && reaches(patch.within ?? null, thread.metadata);
    const patched = isTheirs ? await patchThreadRow(sql, patch) : undefined;
    if (patched === undefined) throw threadNotFound(patch);
    return patched;
  });
}

/** The wire's words for a thread the tenant doesn't have. */
export function threadNotFound(key: ThreadKey): EngineError {
  return new EngineError("not_found", `Thread with ID ${key.threadId} not found`);
}
