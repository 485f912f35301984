// Taking a thread and changing its status: what every command that touches a thread's runs does first and last.
import { PREPARED, type Sql } from "../core/deps.js";
import type { TenantId, ThreadId } from "../core/ids.js";
import type { ThreadStatus } from "../core/run.js";

export type ThreadKey = Readonly<{ tenantId: TenantId; threadId: ThreadId }>;
export type LockedThread = ThreadKey &
  Readonly<{
    status: ThreadStatus;
    ephemeral: boolean;
    metadata: Readonly<Record<string, unknown>>;
    config: Readonly<Record<string, unknown>>;
  }>;

const LOCK = `
  select tenant_id as "tenantId", thread_id as "threadId", status, ephemeral, metadata, config
  from threads
  where tenant_id = $1 and thread_id = $2
  for no key update`;

/** Locks the thread row until the transaction ends. A statement of its own: inside a larger one heads get lost (measured). */
export async function lockThread(sql: Sql, key: ThreadKey): Promise<LockedThread | undefined> {
  const { rows } = await sql.query<LockedThread>(LOCK, [key.tenantId, key.threadId], PREPARED);
  return rows[0];
}

/** As `lockThread`, for loops that go through many threads: "held" when somebody else has the row, which is not waited for. */
export async function lockThreadIfFree(sql: Sql, key: ThreadKey): Promise<LockedThread | "held" | undefined> {
  const { rows } = await sql.query<LockedThread>(`${LOCK} skip locked`, [key.tenantId, key.threadId]);
  if (rows[0] !== undefined) return rows[0];
  const { rowCount } = await sql.query("select 1 from threads where tenant_id = $1 and thread_id = $2", [
    key.tenantId,
    key.threadId,
  ]);
  return rowCount === 0 ? undefined : "held";
}

/** Sets the status, merges `metadata` in, and notes what changed; with `quiet` nothing did for who sorts threads by that. */
export async function updateThreadStatus(
  sql: Sql,
  change: ThreadKey &
    Readonly<{
      status: ThreadStatus;
      metadata?: Readonly<Record<string, unknown>>;
      stateChanged?: boolean;
      quiet?: boolean;
    }>,
): Promise<void> {
  await sql.query(
    `update threads
    set status = $3, metadata = metadata || $4::jsonb,
      updated_at = case when $6 then updated_at else clock_timestamp() end,
      state_updated_at = case when $5 then clock_timestamp() else state_updated_at end
    where tenant_id = $1 and thread_id = $2`,
    [
      change.tenantId,
      change.threadId,
      change.status,
      JSON.stringify(change.metadata ?? {}),
      change.stateChanged ?? false,
      change.quiet ?? false,
    ],
  );
}
