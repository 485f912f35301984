// Runs and the versions that may execute them (`runs.pin`, migration 0010): what a new one would get, bringing those that are there
// to what their assistant says, and those that wait for a version.
import type { Sql } from "../core/deps.js";
import type { AssistantId, TenantId, ThreadId } from "../core/ids.js";

type AssistantKey = Readonly<{ tenantId: TenantId; assistantId: AssistantId }>;

/** Keeps runs of the assistant from being made until the transaction ends, once those on their way are there. */
export async function lockPin(sql: Sql, key: AssistantKey): Promise<void> {
  await sql.query("select pg_advisory_xact_lock(pin_lock($1, $2))", [key.tenantId, key.assistantId]);
}

/** The only version that may execute a run made now; empty: any. `goesOn`: it takes up what an earlier run of its thread has left. */
export async function pinOfNext(
  sql: Sql,
  next: AssistantKey & Readonly<{ threadId: ThreadId | null; goesOn: boolean }>,
): Promise<string> {
  const { rows } = await sql.query<{ pin: string }>("select pin from run_pin($1, $2, $3, $4)", [
    next.tenantId,
    next.assistantId,
    next.threadId,
    next.goesOn,
  ]);
  return rows[0]?.pin ?? "";
}

/** Before the first of all threads. */
const FIRST = "00000000-0000-0000-0000-000000000000";

/**
 * Brings the unfinished runs of the next `most` threads behind `after` to what their assistant says; those of threads that somebody
 * holds stay as they are. How many runs, and the thread to go on behind; null: there are no more.
 */
export async function followPin(
  sql: Sql,
  next: AssistantKey & Readonly<{ after: string | null; most: number }>,
): Promise<Readonly<{ moved: number; last: string | null }>> {
  const { rows } = await sql.query<{ moved: number; last: string | null }>(
    "select moved, last from follow_pin($1, $2, $3, $4)",
    [next.tenantId, next.assistantId, next.after ?? FIRST, next.most],
  );
  return rows[0] ?? { moved: 0, last: null };
}

/** Whether all unfinished runs are as their assistant says, until the transaction ends. */
export async function isPinFollowed(sql: Sql, key: AssistantKey): Promise<boolean> {
  const { rows } = await sql.query<{ followed: boolean }>("select pin_followed($1, $2) as followed", [
    key.tenantId,
    key.assistantId,
  ]);
  return rows[0]?.followed ?? true;
}

export type WaitingPin = Readonly<{
  assistantId: AssistantId;
  graphId: string;
  pin: string;
  /** Runs that could start, were there a worker with this version. */
  runs: number;
  /** Since when the one has that waits longest. */
  since: Date;
}>;

/** Versions that runs wait for, by graph. */
export async function waitingPins(sql: Sql, tenantId: TenantId): Promise<WaitingPin[]> {
  const { rows } = await sql.query<WaitingPin>(
    `select assistant_id as "assistantId", graph_id as "graphId", pin, count(*)::int as runs, min(updated_at) as since
    from runs
    where tenant_id = $1 and status = 'pending' and head and available_at is null and pin <> ''
    group by 1, 2, 3
    order by 2, 1, 3`,
    [tenantId],
  );
  return rows;
}
