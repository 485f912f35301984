// Follow-ups: what is to be done later, for whom, and how far it has come.
import { type Within, withinParam } from "../core/access.js";
import { PREPARED, type Sql } from "../core/deps.js";
import type {
  AssistantId,
  ConversationId,
  FollowupId,
  RunId,
  ScheduleId,
  TenantId,
  ThreadId,
  TimerId,
} from "../core/ids.js";
import type { TimerKind } from "./timers.js";

export const FOLLOWUP_STATUSES = [
  "pending",
  "parked",
  "running",
  "waiting_approval",
  "produced",
  "cancelled",
  "expired",
  "skipped",
  "dead",
] as const;
export type FollowupStatus = (typeof FOLLOWUP_STATUSES)[number];
export type FollowupMode = "remind" | "work";

export type FollowupRow = Readonly<{
  tenantId: TenantId;
  followupId: FollowupId;
  threadId: ThreadId;
  originRunId: RunId | null;
  assistantId: AssistantId;
  graphId: string;
  createdBy: "agent" | "user" | "tenant";
  mode: FollowupMode;
  /** JSON {about, instruction}. */
  content: Buffer;
  conversationId: ConversationId | null;
  fireAt: Date;
  localTime: string | null;
  timeZone: string | null;
  notAfter: Date | null;
  cancelOnInbound: boolean;
  status: FollowupStatus;
  reason: string | null;
  runId: RunId | null;
  tellRunId: RunId | null;
  depth: number;
  chainId: string;
  /** Which made it; null: it was promised, or asked for. */
  scheduleId: ScheduleId | null;
  createdAt: Date;
  updatedAt: Date;
}>;

const COLUMNS = `
  tenant_id as "tenantId", followup_id as "followupId", thread_id as "threadId", origin_run_id as "originRunId",
  assistant_id as "assistantId", graph_id as "graphId", created_by as "createdBy", mode, content,
  conversation_id as "conversationId", fire_at as "fireAt", local_time as "localTime", time_zone as "timeZone",
  not_after as "notAfter", cancel_on_inbound as "cancelOnInbound", status, reason, run_id as "runId",
  tell_run_id as "tellRunId", depth, chain_id as "chainId", schedule_id as "scheduleId", created_at as "createdAt", updated_at as "updatedAt"`;

export type FollowupKey = Readonly<{ tenantId: TenantId; followupId: FollowupId }>;
export type NewFollowup = Omit<
  FollowupRow,
  "status" | "reason" | "runId" | "tellRunId" | "scheduleId" | "createdAt" | "updatedAt"
> &
  Readonly<{ dedupeSha256: Buffer }>;

/** What fires it: what a schedule makes is not in the way of what was promised. */
export function timerKindOf({ scheduleId, mode }: Pick<FollowupRow, "scheduleId" | "mode">): TimerKind {
  if (scheduleId === null) return "followup";
  return mode === "work" ? "outreach.work" : "outreach";
}

/** Undefined when it is there already. */
export async function insertFollowup(sql: Sql, followup: NewFollowup): Promise<FollowupRow | undefined> {
  const { rows } = await sql.query<FollowupRow>(
    `insert into followups (tenant_id, followup_id, thread_id, origin_run_id, assistant_id, graph_id, created_by, mode, content,
      conversation_id, fire_at, local_time, time_zone, not_after, cancel_on_inbound, depth, chain_id, dedupe_sha256)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
    on conflict (tenant_id, followup_id) do nothing
    returning ${COLUMNS}`,
    [
      followup.tenantId,
      followup.followupId,
      followup.threadId,
      followup.originRunId,
      followup.assistantId,
      followup.graphId,
      followup.createdBy,
      followup.mode,
      followup.content,
      followup.conversationId,
      followup.fireAt,
      followup.localTime,
      followup.timeZone,
      followup.notAfter,
      followup.cancelOnInbound,
      followup.depth,
      followup.chainId,
      followup.dedupeSha256,
    ],
  );
  return rows[0];
}

export async function getFollowup(sql: Sql, key: FollowupKey): Promise<FollowupRow | undefined> {
  const { rows } = await sql.query<FollowupRow>(
    `select ${COLUMNS} from followups where tenant_id = $1 and followup_id = $2`,
    [key.tenantId, key.followupId],
  );
  return rows[0];
}

export async function getFollowups(sql: Sql, keys: readonly FollowupKey[]): Promise<FollowupRow[]> {
  const { rows } = await sql.query<FollowupRow>(
    `select ${COLUMNS}
    from followups
    where (tenant_id, followup_id) in (select * from unnest($1::text[], $2::uuid[]))`,
    [keys.map(({ tenantId }) => tenantId), keys.map(({ followupId }) => followupId)],
    PREPARED,
  );
  return rows;
}

/** A reminder and the run that tells it, as `tell_reminders` of migrations/0014_schedules.sql reads it. */
export type Telling = Readonly<{
  tenant_id: TenantId;
  timer_id: TimerId;
  followup_id: FollowupId;
  thread_id: ThreadId;
  run_id: RunId;
  assistant_id: AssistantId;
  graph_id: string;
  priority: number;
  metadata_below: Readonly<Record<string, unknown>>;
  metadata: Readonly<Record<string, unknown>>;
  request: string;
}>;

/** The timers of those that are told now, each by its run; the others have to be looked at one by one. No two may be on one thread. */
export async function tellReminders(sql: Sql, due: readonly Telling[]): Promise<Set<TimerId>> {
  const { rows } = await sql.query<{ timerId: TimerId }>(
    'select o_timer_id as "timerId" from tell_reminders($1)',
    [JSON.stringify(due)],
    PREPARED,
  );
  return new Set(rows.map(({ timerId }) => timerId));
}

/** Locked until the transaction ends. */
export async function lockFollowup(sql: Sql, key: FollowupKey): Promise<FollowupRow | undefined> {
  const { rows } = await sql.query<FollowupRow>(
    `select ${COLUMNS} from followups where tenant_id = $1 and followup_id = $2 for no key update`,
    [key.tenantId, key.followupId],
  );
  return rows[0];
}

/** Newest first. */
export async function listFollowups(
  sql: Sql,
  filter: Readonly<{
    tenantId: TenantId;
    threadId: ThreadId | null;
    status: FollowupStatus | null;
    within?: Within;
    limit: number;
    offset: number;
  }>,
): Promise<FollowupRow[]> {
  const { rows } = await sql.query<FollowupRow>(
    `select ${COLUMNS}
    from followups
    where tenant_id = $1 and ($2::uuid is null or thread_id = $2) and ($3::text is null or status = $3)
      and ($4::jsonb is null or thread_id in (select * from threads_within($1, $4)))
    order by created_at desc, followup_id
    limit $5 offset $6`,
    [filter.tenantId, filter.threadId, filter.status, withinParam(filter.within), filter.limit, filter.offset],
  );
  return rows;
}

/** The same, about the same time: what was asked for a moment ago. */
export async function findTwin(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; dedupeSha256: Buffer; fireAt: Date; withinMs: number }>,
): Promise<FollowupRow | undefined> {
  const { rows } = await sql.query<FollowupRow>(
    `select ${COLUMNS}
    from followups
    where tenant_id = $1 and dedupe_sha256 = $2 and status in ('pending', 'parked')
      and fire_at between $3::timestamptz - $4::float8 * interval '1 ms' and $3::timestamptz + $4::float8 * interval '1 ms'
    order by created_at
    limit 1`,
    [of.tenantId, of.dedupeSha256, of.fireAt, of.withinMs],
  );
  return rows[0];
}

/** How many that were promised are open on the thread, and of the tenant; no more than `most` are counted. */
export async function countOpen(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; threadId: ThreadId; most: number }>,
): Promise<Readonly<{ thread: number; tenant: number }>> {
  const { rows } = await sql.query<{ thread: number; tenant: number }>(
    `select
      (select count(*)::int from followups
        where tenant_id = $1 and thread_id = $2 and schedule_id is null
          and status in ('pending', 'parked', 'running', 'waiting_approval')) as thread,
      (select count(*)::int from (
        select 1 from followups
        where tenant_id = $1 and schedule_id is null and status in ('pending', 'parked', 'running', 'waiting_approval')
        limit $3) open) as tenant`,
    [of.tenantId, of.threadId, of.most],
  );
  return rows[0] ?? { thread: 0, tenant: 0 };
}

/** Changes what is given; the caller has locked it. */
export async function updateFollowup(
  sql: Sql,
  key: FollowupKey,
  change: Readonly<{
    status?: FollowupStatus;
    reason?: string | null;
    runId?: RunId;
    tellRunId?: RunId;
    fireAt?: Date;
    localTime?: string | null;
    timeZone?: string | null;
    notAfter?: Date;
  }>,
): Promise<void> {
  await sql.query(
    `update followups
    set status = coalesce($3, status), reason = case when $4 then $5 else reason end, run_id = coalesce($6, run_id),
      tell_run_id = coalesce($7, tell_run_id), fire_at = coalesce($8, fire_at),
      local_time = case when $8::timestamptz is null then local_time else $9 end, time_zone = coalesce($10, time_zone),
      not_after = coalesce($11, not_after),
      updated_at = clock_timestamp()
    where tenant_id = $1 and followup_id = $2`,
    [
      key.tenantId,
      key.followupId,
      change.status ?? null,
      change.reason !== undefined,
      change.reason ?? null,
      change.runId ?? null,
      change.tellRunId ?? null,
      change.fireAt ?? null,
      change.localTime ?? null,
      change.timeZone ?? null,
      change.notAfter ?? null,
    ],
  );
}

/** Those of a thread whose work has begun. */
export async function workedFollowups(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
): Promise<FollowupId[]> {
  const { rows } = await sql.query<{ followupId: FollowupId }>(
    `select followup_id as "followupId"
    from followups
    where tenant_id = $1 and thread_id = $2 and mode = 'work' and run_id is not null`,
    [of.tenantId, of.threadId],
  );
  return rows.map(({ followupId }) => followupId);
}

/** Those that nobody wants any more once the person writes. */
export async function cancelledByWriting(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
): Promise<FollowupId[]> {
  const { rows } = await sql.query<{ followupId: FollowupId }>(
    `update followups
    set status = 'cancelled', reason = 'the person wrote', updated_at = clock_timestamp()
    where tenant_id = $1 and thread_id = $2 and status in ('pending', 'parked') and cancel_on_inbound
    returning followup_id as "followupId"`,
    [of.tenantId, of.threadId],
  );
  return rows.map(({ followupId }) => followupId);
}
