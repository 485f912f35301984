// What schedules make for one recipient each: follow-ups whose schedule, recipient and occurrence say which they are, so that none is made
// twice, whoever makes it.
import type { Sql } from "../core/deps.js";
import type { AssistantId, ConversationId, FollowupId, RunId, ScheduleId, TenantId, ThreadId } from "../core/ids.js";
import type { FollowupStatus } from "./followups.js";
import type { QuietHours } from "./quiet-hours.js";
import type { ScheduleKey } from "./schedules.js";
import { takeTurn } from "./turns.js";

/** As `insertOccurrences` takes it: JSON. */
export type NewOccurrence = Readonly<{
  followup_id: FollowupId;
  thread_id: ThreadId | null;
  assistant_id: AssistantId | null;
  graph_id: string | null;
  conversation_id: ConversationId | null;
  recipient: string;
  occurrence: string;
  content: string;
  fire_at: Date;
  time_zone: string;
  not_after: Date | null;
  status: "pending" | "skipped" | "expired";
  reason: string | null;
}>;

/** With the timers of those that wait. Returns how many weren't there: of them, those that wait. */
export async function insertOccurrences(
  sql: Sql,
  key: ScheduleKey,
  of: Readonly<{
    mode: "remind" | "work";
    occurrenceAt: Date;
    occurrences: readonly NewOccurrence[];
    /** Those that were passed over then are judged again. */
    again: boolean;
  }>,
): Promise<Readonly<{ made: number; skipped: number }>> {
  const json = JSON.stringify(of.occurrences);
  if (of.again) {
    await sql.query(
      `delete from followups f
      using json_to_recordset($3) as o(recipient uuid, occurrence text)
      where f.tenant_id = $1 and f.schedule_id = $2 and f.recipient = o.recipient and f.occurrence = o.occurrence
        and f.status = 'skipped'`,
      [key.tenantId, key.scheduleId, json],
    );
  }
  const { rows } = await sql.query<{ made: number; skipped: number }>(
    `with made as (
      insert into followups (tenant_id, followup_id, thread_id, assistant_id, graph_id, created_by, mode, content, conversation_id,
        fire_at, time_zone, not_after, status, reason, depth, chain_id, dedupe_sha256, schedule_id, recipient, occurrence,
        occurrence_at)
      select $1, o.followup_id, o.thread_id, o.assistant_id, o.graph_id, 'tenant', $3, convert_to(o.content, 'UTF8'),
        o.conversation_id, o.fire_at, o.time_zone, o.not_after, o.status, o.reason, 0, o.followup_id,
        sha256(convert_to(o.followup_id::text, 'UTF8')), $2, o.recipient, o.occurrence, $4
      from json_to_recordset($5) as o(followup_id uuid, thread_id uuid, assistant_id uuid, graph_id text, conversation_id uuid,
        recipient uuid, occurrence text, content text, fire_at timestamptz, time_zone text, not_after timestamptz, status text,
        reason text)
      on conflict do nothing
      returning followup_id, fire_at, status
    ), waiting as (
      insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
      select $1, gen_random_uuid(), case $3 when 'work' then 'outreach.work' else 'outreach' end, followup_id, fire_at
      from made
      where status = 'pending'
      on conflict (tenant_id, kind, ref_id) where status = 'due' do nothing
    )
    select (count(*) filter (where status = 'pending'))::int as made, (count(*) filter (where status <> 'pending'))::int as skipped
    from made`,
    [key.tenantId, key.scheduleId, of.mode, of.occurrenceAt, json],
  );
  return rows[0] ?? { made: 0, skipped: 0 };
}

/** Those of the recipients who have one of this schedule that isn't over. */
export async function busyRecipients(sql: Sql, key: ScheduleKey, recipients: readonly string[]): Promise<Set<string>> {
  const { rows } = await sql.query<{ recipient: string }>(
    `select distinct recipient
    from followups
    where tenant_id = $1 and schedule_id = $2 and recipient = any ($3::uuid[])
      and status in ('pending', 'running', 'waiting_approval')`,
    [key.tenantId, key.scheduleId, recipients],
  );
  return new Set(rows.map(({ recipient }) => recipient));
}

/** What decides about one at the moment when it goes out. */
export type OutreachRules = Readonly<{
  scheduleId: ScheduleId;
  status: "active" | "paused" | "ended";
  marketing: boolean;
  quietHours: QuietHours | null;
  timeZone: string;
  recipient: string;
  /** Of any schedule, that went to this person within a day. */
  recent: number;
}>;

const DAY_MS = 24 * 60 * 60_000;

/** Undefined when it is of no schedule, or of one that is gone. */
export async function outreachRules(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; followupId: FollowupId }>,
): Promise<OutreachRules | undefined> {
  const { rows } = await sql.query<OutreachRules>(
    `select s.schedule_id as "scheduleId", s.status, s.purpose = 'marketing' as marketing, s.quiet_hours as "quietHours",
      s.time_zone as "timeZone", f.recipient, (
        select count(*)::int
        from followups o
        where o.tenant_id = f.tenant_id and o.recipient = f.recipient
          and o.fired_at > clock_timestamp() - $3::float8 * interval '1 ms') as recent
    from followups f
    join schedules s on s.tenant_id = f.tenant_id and s.schedule_id = f.schedule_id
    where f.tenant_id = $1 and f.followup_id = $2`,
    [key.tenantId, key.followupId, DAY_MS],
  );
  return rows[0];
}

/** One at a time for a person, so that how much they get in a day holds; false: somebody else is at it. */
export function lockRecipient(sql: Sql, of: Readonly<{ tenantId: TenantId; recipient: string }>): Promise<boolean> {
  return takeTurn(sql, "recipient", `${of.tenantId} ${of.recipient}`);
}

/** One at a time for a tenant, so that as much work goes on as may and no more; false: another scheduler is at it. */
export function lockWork(sql: Sql, { tenantId }: Readonly<{ tenantId: TenantId }>): Promise<boolean> {
  return takeTurn(sql, "work", tenantId);
}

/** It goes out now. */
export async function markFired(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; followupId: FollowupId }>,
): Promise<void> {
  await sql.query("update followups set fired_at = clock_timestamp() where tenant_id = $1 and followup_id = $2", [
    key.tenantId,
    key.followupId,
  ]);
}

/** The work that goes on for schedules, up to `most`. */
export async function workUnderWay(sql: Sql, of: Readonly<{ tenantId: TenantId; most: number }>): Promise<RunId[]> {
  const { rows } = await sql.query<{ runId: RunId }>(
    `select run_id as "runId"
    from followups
    where tenant_id = $1 and schedule_id is not null and status = 'running' and mode = 'work' and tell_run_id is null
    limit $2`,
    [of.tenantId, of.most],
  );
  return rows.map(({ runId }) => runId);
}

/** What a schedule has made and hasn't gone out is taken back. Returns how many. */
export async function cancelPending(sql: Sql, key: ScheduleKey, reason: string): Promise<number> {
  await holdPending(sql, key);
  const { rowCount } = await sql.query(
    `update followups
    set status = 'cancelled', reason = $3, updated_at = clock_timestamp()
    where tenant_id = $1 and schedule_id = $2 and status = 'pending'`,
    [key.tenantId, key.scheduleId, reason],
  );
  return rowCount;
}

/** What a schedule has made and hasn't gone out waits until `releasePending`. */
export async function holdPending(sql: Sql, key: ScheduleKey): Promise<void> {
  await sql.query(
    `update timers t
    set status = 'cancelled', updated_at = clock_timestamp()
    from followups f
    where f.tenant_id = $1 and f.schedule_id = $2 and f.status = 'pending' and t.tenant_id = f.tenant_id
      and t.ref_id = f.followup_id and t.kind in ('outreach', 'outreach.work') and t.status = 'due'`,
    [key.tenantId, key.scheduleId],
  );
}

export async function releasePending(sql: Sql, key: ScheduleKey): Promise<void> {
  await sql.query(
    `insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
    select tenant_id, gen_random_uuid(), case mode when 'work' then 'outreach.work' else 'outreach' end, followup_id, fire_at
    from followups
    where tenant_id = $1 and schedule_id = $2 and status = 'pending'
    on conflict (tenant_id, kind, ref_id) where status = 'due' do nothing`,
    [key.tenantId, key.scheduleId],
  );
}

export type OccurrenceRow = Readonly<{
  followupId: FollowupId;
  recipient: string;
  occurrence: string;
  occurrenceAt: Date;
  status: FollowupStatus;
  reason: string | null;
  fireAt: Date;
  timeZone: string | null;
  notAfter: Date | null;
  firedAt: Date | null;
  threadId: ThreadId | null;
  conversationId: ConversationId | null;
  runId: RunId | null;
  tellRunId: RunId | null;
}>;

/** Newest first. */
export async function listOccurrences(
  sql: Sql,
  key: ScheduleKey,
  filter: Readonly<{ status: FollowupStatus | null; recipient: string | null; limit: number; offset: number }>,
): Promise<OccurrenceRow[]> {
  const { rows } = await sql.query<OccurrenceRow>(
    `select followup_id as "followupId", recipient, occurrence, occurrence_at as "occurrenceAt", status, reason,
      fire_at as "fireAt", time_zone as "timeZone", not_after as "notAfter", fired_at as "firedAt", thread_id as "threadId",
      conversation_id as "conversationId", run_id as "runId", tell_run_id as "tellRunId"
    from followups
    where tenant_id = $1 and schedule_id = $2 and ($3::text is null or status = $3)
      and ($4::uuid is null or recipient = $4)
    order by occurrence_at desc, recipient, occurrence
    limit $5 offset $6`,
    [key.tenantId, key.scheduleId, filter.status, filter.recipient, filter.limit, filter.offset],
  );
  return rows;
}
