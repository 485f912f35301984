// A run that waits for more messages: which one it is on a thread, and what is added to it.
import type { Sql } from "../core/deps.js";
import type { ConversationId, RunId, TenantId, ThreadId } from "../core/ids.js";
import type { Priority } from "../core/run.js";
import { RUN_COLUMNS, type RunKey, type RunRow } from "./runs.js";

/** `request`: UTF-8 JSON of what it was asked until now; null when it was moved. */
export type WaitingRun = RunRow & Readonly<{ request: Buffer | null }>;

/**
 * The last run in the order of a thread, locked, if it still waits for messages. Whatever came after it would be overtaken by what
 * it took in, so that only the last one does. The thread must be locked.
 */
export async function lockWaitingRun(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
): Promise<WaitingRun | undefined> {
  const { rows } = await sql.query<WaitingRun & { open: boolean }>(
    `select ${RUN_COLUMNS}, request,
      status = 'pending' and attempt = 0 and coalesce(merge_until > clock_timestamp(), false) as open
    from runs
    where tenant_id = $1 and thread_id = $2 and status in ('pending', 'running')
      and (head or available_at is null or merge_until is not null)
    order by seq desc
    limit 1
    for no key update`,
    [key.tenantId, key.threadId],
  );
  const [last] = rows;
  return last?.open === true ? last : undefined;
}

/**
 * Replaces what a locked waiting run is asked by that and one more request, and makes it as urgent as the more urgent one;
 * undefined when a worker was faster.
 */
export async function mergeIntoRun(
  sql: Sql,
  run: RunKey & Readonly<{ request: Buffer; priority: Priority }>,
): Promise<RunRow | undefined> {
  const { rows } = await sql.query<RunRow>(
    `update runs
    set request = $3, priority = least(priority, greatest($4, (select best_priority from tenants where tenant_id = $1))),
      merged = merged + 1, updated_at = clock_timestamp()
    where tenant_id = $1 and run_id = $2 and status = 'pending' and attempt = 0
    returning ${RUN_COLUMNS}`,
    [run.tenantId, run.runId, run.request, run.priority],
  );
  return rows[0];
}

export type WaitingRequest = Readonly<{ runId: RunId; request: Buffer }>;

/**
 * What the runs of a conversation are asked that no worker has looked at yet, in their order; locked, so that none does. The thread must be
 * locked. Those that answer a question aren't among them.
 */
export async function lockWaitingRequests(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; threadId: ThreadId; conversationId: ConversationId }>,
): Promise<WaitingRequest[]> {
  const { rows } = await sql.query<WaitingRequest & { seq: string }>(
    `with locked as materialized (
      select run_id, request, seq
      from runs
      where tenant_id = $1 and thread_id = $2 and status = 'pending' and attempt = 0 and kind = 'run' and not resumes
        and conversation_id = $3 and followup_id is null and request is not null
      order by run_id
      for no key update
    )
    select run_id as "runId", request from locked order by seq`,
    [key.tenantId, key.threadId, key.conversationId],
  );
  return rows;
}

/** Of a locked waiting run. */
export async function replaceRequest(sql: Sql, { tenantId, runId }: RunKey, request: Buffer): Promise<void> {
  await sql.query("update runs set request = $3, updated_at = clock_timestamp() where tenant_id = $1 and run_id = $2", [
    tenantId,
    runId,
    request,
  ]);
}
