// Threads adopted from another saver's tables: an edit per try says from where, and until one succeeded nobody sees the thread.
import type { Sql } from "../core/deps.js";
import type { RunStatus, ThreadStatus } from "../core/run.js";
import type { ThreadKey } from "./thread-lock.js";

/** What an adopting edit remembers, under `adopted_from` in its metadata. */
export type AdoptedFrom = Readonly<{ schema: string; thread_id: string }>;

/** The adoption that made this thread, or else the last that tried to. */
export async function adoptionOf(
  sql: Sql,
  key: ThreadKey,
): Promise<Readonly<{ status: RunStatus; from: AdoptedFrom }> | undefined> {
  const { rows } = await sql.query<{ status: RunStatus; from: AdoptedFrom }>(
    `select status, metadata -> 'adopted_from' as "from"
    from runs
    where tenant_id = $1 and thread_id = $2 and kind = 'edit' and metadata ? 'adopted_from'
    order by (status = 'success') desc, seq desc
    limit 1`,
    [key.tenantId, key.threadId],
  );
  return rows[0];
}

/** Shows the thread, with the times it had where it was. The thread must be locked. */
export async function showAdopted(
  sql: Sql,
  thread: ThreadKey &
    Readonly<{
      status: ThreadStatus;
      metadata: Readonly<Record<string, unknown>>;
      /** Null where they aren't known. */
      createdAt: Date | null;
      updatedAt: Date | null;
    }>,
): Promise<void> {
  await sql.query(
    `update threads
    set ephemeral = false, status = $3, metadata = metadata || $4::jsonb, created_at = coalesce($5, created_at),
      updated_at = coalesce($6, updated_at), state_updated_at = coalesce($6, updated_at)
    where tenant_id = $1 and thread_id = $2`,
    [
      thread.tenantId,
      thread.threadId,
      thread.status,
      JSON.stringify(thread.metadata),
      thread.createdAt,
      thread.updatedAt,
    ],
  );
}
