// Claims of timers whose work doesn't fit into one transaction: due_at is pushed ahead, so that another process takes the
// timer when this one dies. The pushed due_at is the claim: whoever sets the timer again meanwhile takes it away, and the
// work that is being done doesn't count for what was asked later.
import { PREPARED, type Sql } from "../core/deps.js";
import type { TenantId, TimerId } from "../core/ids.js";
import type { TimerKind } from "./timers.js";

export type TimerClaim = Readonly<{
  tenantId: TenantId;
  timerId: TimerId;
  refId: string;
  /** This claim's number among those of the timer. */
  attempts: number;
  claim: string;
}>;

/** Takes due timers of one kind, oldest first; they are due again after `forMs` unless the claim is ended before. */
export async function claimTimers(
  sql: Sql,
  wanted: Readonly<{ kind: TimerKind; limit: number; forMs: number }>,
): Promise<TimerClaim[]> {
  const { rows } = await sql.query<TimerClaim>(
    `with due as (
      select tenant_id, timer_id
      from timers
      where status = 'due' and due_at <= (select clock_timestamp()) and kind = $1
      order by due_at, timer_id
      limit $2
      for update skip locked
    )
    update timers t
    set due_at = clock_timestamp() + $3::float8 * interval '1 ms', attempts = t.attempts + 1, updated_at = clock_timestamp()
    from due
    where t.tenant_id = due.tenant_id and t.timer_id = due.timer_id
    returning t.tenant_id as "tenantId", t.timer_id as "timerId", t.ref_id as "refId", t.attempts,
      extract(epoch from t.due_at)::text as claim`,
    [wanted.kind, wanted.limit, wanted.forMs],
    PREPARED,
  );
  return rows;
}

/** The work is done. False when the timer was set again meanwhile: then it stays due. */
export async function endClaim(sql: Sql, timer: TimerClaim): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update timers
    set status = 'fired', last_error = null, updated_at = clock_timestamp()
    where tenant_id = $1 and timer_id = $2 and status = 'due' and extract(epoch from due_at)::text = $3`,
    [timer.tenantId, timer.timerId, timer.claim],
    PREPARED,
  );
  return rowCount === 1;
}

/** The work is to be done (again) after a pause; `error` is a code. */
export async function postponeClaim(
  sql: Sql,
  timer: TimerClaim,
  postpone: Readonly<{ afterMs: number; error: string | null }>,
): Promise<void> {
  await sql.query(
    `update timers
    set due_at = clock_timestamp() + $4::float8 * interval '1 ms', last_error = $5, updated_at = clock_timestamp()
    where tenant_id = $1 and timer_id = $2 and status = 'due' and extract(epoch from due_at)::text = $3`,
    [timer.tenantId, timer.timerId, timer.claim, postpone.afterMs, postpone.error],
  );
}
