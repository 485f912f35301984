// The scheduler table: what must happen at a time is one row. Due rows are claimed and turned into their effect in one transaction.
import { PREPARED, type Sql } from "../core/deps.js";
import type { TenantId, TimerId } from "../core/ids.js";

/**
 * `run.release`: a delayed or sleeping run may go on. `run.wake`: a branch that slept beside the questions of a run may.
 * `thread.delete`: an ephemeral thread goes. `thread.ttl`: one on which nothing happened for its time to live does, or its old states. `move`: bodies to the object store. `repack`: packs of which little is in use.
 * `prune`: bodies that nothing in a thread names any more, though no state is to go.
 * `retention`: what is kept for a time only goes, for the whole tenant. `approval.…`: nobody answered in time, those who may are
 * reminded, others may as well. `assistant.pin`: unfinished runs are brought to the version that their assistant is pinned to.
 * `followup`: it is due; `followup.tell`: its work is done, and is to be told. `schedule.fire`: a schedule is; `outreach`, `outreach.work`: what it
 * made for one recipient is.
 * `cron`: a run is to be made again. `run.webhook`: a run is over, and somebody wants to be told.
 * `run.prune`: a run is over of which only the last state stays.
 */
export const TIMER_KINDS = [
  "run.release",
  "run.wake",
  "thread.delete",
  "thread.ttl",
  "move",
  "repack",
  "prune",
  "retention",
  "approval.deadline",
  "approval.remind",
  "approval.escalate",
  "assistant.pin",
  "followup",
  "followup.tell",
  "schedule.fire",
  "outreach",
  "outreach.work",
  "cron",
  "run.webhook",
  "run.prune",
] as const;
export type TimerKind = (typeof TIMER_KINDS)[number];

export type TimerRow = Readonly<{
  tenantId: TenantId;
  timerId: TimerId;
  kind: TimerKind;
  refId: string;
  status: "due" | "fired" | "cancelled";
  dueAt: Date;
  attempts: number;
  lastError: string | null;
  createdAt: Date;
}>;

const COLUMNS = `
  tenant_id as "tenantId", timer_id as "timerId", kind, ref_id as "refId", status, due_at as "dueAt",
  attempts, last_error as "lastError", created_at as "createdAt"`;

export type TimerRef = Readonly<{ tenantId: TenantId; kind: TimerKind; refId: string }>;
export type TimerWhen = Readonly<{ at: Date }> | Readonly<{ afterMs: number }>;

/** Sets the one due timer of (kind, ref): new, or moved to the earlier of the two instants. */
export async function setTimer(
  sql: Sql,
  timer: TimerRef & Readonly<{ timerId: TimerId; when: TimerWhen }>,
): Promise<void> {
  await sql.query(
    `insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
    values ($1, $2, $3, $4, coalesce($5::timestamptz, clock_timestamp() + $6::float8 * interval '1 ms'))
    on conflict (tenant_id, kind, ref_id) where status = 'due'
    do update set due_at = least(timers.due_at, excluded.due_at), updated_at = clock_timestamp()`,
    [
      timer.tenantId,
      timer.timerId,
      timer.kind,
      timer.refId,
      "at" in timer.when ? timer.when.at : null,
      "at" in timer.when ? null : timer.when.afterMs,
    ],
    PREPARED,
  );
}

/** Makes due timers due now, each at a random moment of the next `spreadMs`. */
export async function bringForward(
  sql: Sql,
  forward: Readonly<{ tenantId: TenantId; kind: TimerKind; refIds: readonly string[]; spreadMs: number }>,
): Promise<void> {
  if (forward.refIds.length === 0) return;
  await sql.query(
    `with locked as materialized (
      select timer_id
      from timers
      where tenant_id = $1 and kind = $2 and ref_id = any($3::uuid[]) and status = 'due'
      order by timer_id
      for update
    )
    update timers
    set due_at = least(due_at, clock_timestamp() + random() * $4::float8 * interval '1 ms'),
      updated_at = clock_timestamp()
    where tenant_id = $1 and timer_id in (select timer_id from locked)`,
    [forward.tenantId, forward.kind, forward.refIds, forward.spreadMs],
  );
}

export async function cancelTimers(
  sql: Sql,
  cancel: Readonly<{ tenantId: TenantId; kinds: readonly TimerKind[]; refIds: readonly string[] }>,
): Promise<number> {
  const { rowCount } = await sql.query(
    `update timers
    set status = 'cancelled', updated_at = clock_timestamp()
    where tenant_id = $1 and kind = any($2::text[]) and ref_id = any($3::uuid[]) and status = 'due'`,
    [cancel.tenantId, cancel.kinds, cancel.refIds],
  );
  return rowCount;
}

/** Due timers of these kinds that nobody has locked, the oldest of each kind first. Only looks: who acts on one claims it first. */
export async function peekDueTimers(
  sql: Sql,
  peek: Readonly<{ kinds: readonly TimerKind[]; limit: number }>,
): Promise<TimerRow[]> {
  const { rows } = await sql.query<TimerRow>(
    // Kind by kind, in the order of the index: what is not due yet is not looked at.
    `select due.*
    from unnest($1::text[]) k(kind)
    cross join lateral (
      select ${COLUMNS}
      from timers t
      where t.status = 'due' and t.kind = k.kind and t.due_at <= (select clock_timestamp())
      order by t.due_at, t.timer_id
      limit $2
      for update skip locked
    ) due
    order by row_number() over (partition by due.kind order by due."dueAt", due."timerId"), due."dueAt", due."timerId"
    limit $2`,
    [peek.kinds, peek.limit],
  );
  return rows;
}

/** Those of `refIds` that have a timer of this kind ahead of them. */
export async function dueTimerRefs(
  sql: Sql,
  find: Readonly<{ tenantId: TenantId; kind: TimerKind; refIds: readonly string[] }>,
): Promise<string[]> {
  const { rows } = await sql.query<{ refId: string }>(
    `select ref_id as "refId"
    from timers
    where tenant_id = $1 and kind = $2 and ref_id = any ($3::uuid[]) and status = 'due'`,
    [find.tenantId, find.kind, find.refIds],
  );
  return rows.map(({ refId }) => refId);
}

type TimerKey = Readonly<{ tenantId: TenantId; timerId: TimerId }>;

/** Locks a timer if it is still due; false when another scheduler has it or had it. */
export async function claimDueTimer(sql: Sql, key: TimerKey): Promise<boolean> {
  const { rowCount } = await sql.query(
    `select 1
    from timers
    where tenant_id = $1 and timer_id = $2 and status = 'due' and due_at <= clock_timestamp()
    for update skip locked`,
    [key.tenantId, key.timerId],
  );
  return rowCount === 1;
}

/** Marks a claimed timer as fired. */
export async function finishTimer(sql: Sql, key: TimerKey): Promise<void> {
  await sql.query(
    `update timers
    set status = 'fired', attempts = attempts + 1, updated_at = clock_timestamp()
    where tenant_id = $1 and timer_id = $2 and status = 'due'`,
    [key.tenantId, key.timerId],
  );
}

/** Puts a timer off: its effect failed (`error` is a code), or is being worked on until then. */
export async function postponeTimer(
  sql: Sql,
  timer: TimerKey & Readonly<{ afterMs: number; error?: string }>,
): Promise<void> {
  await sql.query(
    `update timers
    set due_at = clock_timestamp() + $3::float8 * interval '1 ms', attempts = attempts + 1,
      last_error = $4, updated_at = clock_timestamp()
    where tenant_id = $1 and timer_id = $2 and status = 'due'`,
    [timer.tenantId, timer.timerId, timer.afterMs, timer.error ?? null],
  );
}

/** How long until the next timer of these kinds is due, in ms; null when there is none. Negative when overdue. */
export async function nextDueInMs(sql: Sql, kinds: readonly TimerKind[]): Promise<number | null> {
  const { rows } = await sql.query<{ ms: number | null }>(
    `select extract(epoch from min(first.due_at) - clock_timestamp())::float8 * 1000 as ms
    from unnest($1::text[]) k(kind)
    cross join lateral (
      select t.due_at from timers t where t.status = 'due' and t.kind = k.kind order by t.due_at limit 1
    ) first`,
    [kinds],
  );
  return rows[0]?.ms ?? null;
}

/** Timers for people: soonest first. */
export async function listTimers(
  sql: Sql,
  filter: Readonly<{ tenantId: TenantId; status?: TimerRow["status"]; limit: number; offset: number }>,
): Promise<TimerRow[]> {
  const { rows } = await sql.query<TimerRow>(
    `select ${COLUMNS}
    from timers
    where tenant_id = $1 and ($2::text is null or status = $2)
    order by due_at, timer_id
    limit $3 offset $4`,
    [filter.tenantId, filter.status ?? null, filter.limit, filter.offset],
  );
  return rows;
}

/** Removes what fired or was cancelled longer ago than `olderThanMs`. */
export async function deleteOldTimers(sql: Sql, olderThanMs: number): Promise<number> {
  const { rowCount } = await sql.query(
    `delete from timers
    where status <> 'due' and updated_at < clock_timestamp() - $1::float8 * interval '1 ms'`,
    [olderThanMs],
  );
  return rowCount;
}
