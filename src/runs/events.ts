// The run's log (table `events`): append only, in the transaction that makes the change.
import type { Sql } from "../core/deps.js";
import type { RunEvent, RunEventType } from "../core/events.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";

/** Appends one event to the run's log. */
export async function appendEvent(
  sql: Sql,
  run: Readonly<{ tenantId: TenantId; threadId: ThreadId; runId: RunId }>,
  event: RunEvent,
): Promise<void> {
  await sql.query(
    `insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
    values ($1, $2, $3, $4, $5, $6)`,
    [run.tenantId, run.threadId, run.runId, event.attempt, event.type, JSON.stringify(event.payload ?? {})],
  );
}

/** A CTE that appends the rows of another one, `from`, which has the columns it names. */
export function eventsCte(from: string): string {
  return `new_events as (
  insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
  select tenant_id, thread_id, run_id, attempt, type, payload
  from ${from}
)`;
}

export type EventRow = Readonly<{
  seq: number;
  attempt: number;
  type: RunEventType;
  payload: Readonly<Record<string, unknown>>;
  createdAt: Date;
}>;

/** Events of a run after `afterSeq`, in order. */
export async function listEvents(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; runId: RunId; afterSeq?: number; limit?: number }>,
): Promise<EventRow[]> {
  const { rows } = await sql.query<EventRow>(
    `select seq, attempt, type, payload, created_at as "createdAt"
    from events
    where tenant_id = $1 and run_id = $2 and seq > $3
    order by seq
    limit $4`,
    [key.tenantId, key.runId, key.afterSeq ?? 0, key.limit ?? 1_000],
  );
  return rows;
}

/** For how long workers have worked on the run, in ms, the attempt under way included. */
export async function activeMs(sql: Sql, key: Readonly<{ tenantId: TenantId; runId: RunId }>): Promise<number> {
  const { rows } = await sql.query<{ ms: number }>(
    `select coalesce(sum(extract(epoch from coalesce(over_at, clock_timestamp()) - created_at)), 0)::float8 * 1000 as ms
    from (
      select type, created_at, lead(created_at) over (order by seq) as over_at
      from events
      where tenant_id = $1 and run_id = $2 and type in ('run.claimed', 'run.released', 'run.lease_lost', 'run.sleeping',
        'run.retrying', 'run.waiting', 'run.settled', 'run.cancelled', 'run.gave_up')
    ) e
    where type = 'run.claimed'`,
    [key.tenantId, key.runId],
  );
  return rows[0]?.ms ?? 0;
}
