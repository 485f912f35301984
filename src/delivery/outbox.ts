// The outbox: what is to be sent, taken by deliverers, and what became of it. The functions are in migrations/0012_deliver.sql.
import type { Address, DeliverySource, DeliveryStatus, OnUnknown, Rendered } from "../core/channel.js";
import { PREPARED, type Sql } from "../core/deps.js";
import type { ConversationKey } from "./conversations.js";
import type { ChannelAccountId, ConversationId, DeliveryId, RunId, TenantId, ThreadId } from "../core/ids.js";

/** A message for the outbox, as `post_deliveries` reads it. */
export type Posted = Readonly<{
  delivery_id: DeliveryId;
  source_kind: DeliverySource;
  source_id: string;
  part: number;
  thread_id: ThreadId;
  run_id: RunId | null;
  conversation_id: ConversationId;
  kind: string;
  payload: string;
  on_unknown: OnUnknown;
  not_after: string | null;
  /** Why it isn't sent at all: it is only to be seen. */
  suppressed?: string;
}>;

/** What a source has to say there, one row for each message that it takes. */
export function postedOf(
  messages: readonly Rendered[],
  of: Readonly<{
    newId: () => DeliveryId;
    source: DeliverySource;
    sourceId: string;
    threadId: ThreadId;
    runId: RunId | null;
    conversationId: ConversationId;
    onUnknown: OnUnknown;
    notAfter?: Date | null;
    firstPart?: number;
  }>,
): Posted[] {
  return messages.map(({ kind, payload }, index) => ({
    delivery_id: of.newId(),
    source_kind: of.source,
    source_id: of.sourceId,
    part: (of.firstPart ?? 0) + index,
    thread_id: of.threadId,
    run_id: of.runId,
    conversation_id: of.conversationId,
    kind,
    payload: JSON.stringify(payload),
    on_unknown: of.onUnknown,
    not_after: of.notAfter?.toISOString() ?? null,
  }));
}

/** In the caller's transaction; returns how many weren't there already. */
export async function postDeliveries(sql: Sql, tenantId: TenantId, posted: readonly Posted[]): Promise<number> {
  if (posted.length === 0) return 0;
  const { rows } = await sql.query<{ n: number }>("select post_deliveries($1, $2) as n", [
    tenantId,
    JSON.stringify(posted),
  ]);
  return rows[0]?.n ?? 0;
}

/** A message that this process may send, as long as its lease is. */
export type ClaimedDelivery = Readonly<{
  tenantId: TenantId;
  deliveryId: DeliveryId;
  channelAccountId: ChannelAccountId;
  conversationId: ConversationId;
  threadId: ThreadId;
  runId: RunId | null;
  token: string;
  kind: string;
  payload: Buffer;
  attempts: number;
  refusals: number;
  sourceKind: DeliverySource;
  part: number;
  onUnknown: OnUnknown;
  /** Where it is to be put, once a place for it was taken. */
  reservedMessageId: string | null;
}>;

export async function claimDeliveries(
  sql: Sql,
  claim: Readonly<{ slots: number; worker: string; leaseMs: number }>,
): Promise<ClaimedDelivery[]> {
  const { rows } = await sql.query<ClaimedDelivery>(
    `select o_tenant_id as "tenantId", o_delivery_id as "deliveryId", o_channel_account_id as "channelAccountId",
      o_conversation_id as "conversationId", o_thread_id as "threadId", o_run_id as "runId", o_token as token, o_kind as kind,
      o_payload as payload, o_attempts as attempts, o_refusals as refusals, o_source_kind as "sourceKind", o_part as part,
      o_on_unknown as "onUnknown", o_reserved_message_id as "reservedMessageId"
    from claim_deliveries($1, $2, $3)`,
    [claim.slots, claim.worker, claim.leaseMs],
    PREPARED,
  );
  return rows;
}

type Try = Readonly<{ tenantId: TenantId; deliveryId: DeliveryId; token: string }>;

/** What decides how to send, as of the mark; undefined: the message is not this process's any more. */
export type Started = Readonly<{ leaseMs: number; expired: boolean; silentMs: number | null; address: Address }>;

/** Marks that it may have left from now on; must be committed before a byte does. */
export async function startDelivery(sql: Sql, { tenantId, deliveryId, token }: Try): Promise<Started | undefined> {
  const { rows } = await sql.query<Started>(
    `select o_lease_ms as "leaseMs", o_expired as expired, o_silent_ms as "silentMs", o_address as address
    from start_delivery($1, $2, $3)`,
    [tenantId, deliveryId, token],
    PREPARED,
  );
  return rows[0];
}

/** A place was taken for it; from now on it is put there. False: it is not this process's any more. */
export async function noteReserved(
  sql: Sql,
  { tenantId, deliveryId, token }: Try,
  messageId: string,
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update deliveries
    set reserved_message_id = $4
    where tenant_id = $1 and delivery_id = $2 and current_token = $3 and status = 'sending'`,
    [tenantId, deliveryId, token, messageId],
  );
  return rowCount === 1;
}

export type DeliveryOutcome = Readonly<{
  how: "sent" | "unknown" | "failed" | "later" | "expired" | "parked" | "suppressed";
  messageId: string | null;
  code: string | null;
  /** Until it is tried, or looked for, again. */
  afterMs: number;
  /** Whether a `later` counts among the tries. */
  counts: boolean;
  /** Until the next one to the same address may go. */
  spacingMs: number;
}>;

/** What an outcome says where nothing else is said. */
export const NO_OUTCOME = { messageId: null, code: null, afterMs: 0, counts: false, spacingMs: 0 } as const;

/** False when it came too late: another try has been made since. */
export async function settleDelivery(sql: Sql, tried: Try, outcome: DeliveryOutcome): Promise<boolean> {
  const { rows } = await sql.query<{ settled: boolean }>(
    "select settle_delivery($1, $2, $3, $4, $5, $6, $7, $8, $9) as settled",
    [
      tried.tenantId,
      tried.deliveryId,
      tried.token,
      outcome.how,
      outcome.messageId,
      outcome.code,
      outcome.afterMs,
      outcome.counts,
      outcome.spacingMs,
    ],
    PREPARED,
  );
  return rows[0]?.settled ?? false;
}

/** Why outreach waits that may not go at this hour. */
export const QUIET_HOURS = "quiet_hours";

/** The hour is over: what waited for it goes. */
export async function endQuietHours(sql: Sql, of: ConversationKey & Readonly<{ sourceId: string }>): Promise<void> {
  const { tenantId, conversationId } = of;
  await sql.query("select 1 from conversations where tenant_id = $1 and conversation_id = $2 for no key update", [
    tenantId,
    conversationId,
  ]);
  const { rowCount } = await sql.query(
    `update deliveries
    set status = 'pending', error_code = null, settled_at = null, next_at = clock_timestamp(), updated_at = clock_timestamp()
    where tenant_id = $1 and source_kind = 'outreach' and source_id = $2 and status = 'parked' and error_code = $3`,
    [tenantId, of.sourceId, QUIET_HOURS],
  );
  if (rowCount > 0) await sql.query("select next_delivery($1, $2)", [tenantId, conversationId]);
}

/** What a message is for, until when it is wanted, and whether the person was told that something waits for them. */
export async function sourceOfDelivery(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; deliveryId: DeliveryId }>,
): Promise<Readonly<{ sourceId: string; notAfter: Date | null; announced: boolean }> | undefined> {
  const { rows } = await sql.query<{ sourceId: string; notAfter: Date | null; announced: boolean }>(
    `select d.source_id as "sourceId", d.not_after as "notAfter", exists (
      select 1
      from deliveries o
      where o.tenant_id = d.tenant_id and o.thread_id = d.thread_id and o.conversation_id = d.conversation_id
        and o.seq > d.seq and o.source_kind = 'doorbell') as announced
    from deliveries d
    where d.tenant_id = $1 and d.delivery_id = $2`,
    [key.tenantId, key.deliveryId],
  );
  return rows[0];
}

/** Whose the message is that a receipt is of. */
export async function conversationOfReceipt(
  sql: Sql,
  receipt: Readonly<{
    tenantId: TenantId;
    channelAccountId: ChannelAccountId;
    messageId: string;
    token: string | null;
  }>,
): Promise<ConversationId | undefined> {
  const { rows } = await sql.query<{ conversationId: ConversationId }>(
    `select conversation_id as "conversationId"
    from deliveries
    where tenant_id = $1 and channel_account_id = $2 and (provider_message_id = $3 or delivery_id = (
      select delivery_id from delivery_attempts where tenant_id = $1 and token = $4))
    limit 1`,
    [receipt.tenantId, receipt.channelAccountId, receipt.messageId, receipt.token],
  );
  return rows[0]?.conversationId;
}

/** Messages whose deliverer is gone; returns how many. */
export async function recoverDeliveries(sql: Sql, unsureAfterMs: number): Promise<number> {
  const { rows } = await sql.query<{ n: number }>("select recover_deliveries($1) as n", [unsureAfterMs], PREPARED);
  return rows[0]?.n ?? 0;
}

/** What a source had to say, and which of its parts may not have arrived; `status` is the worst. */
export type Unheard = Readonly<{ at: Date; status: "unknown" | "failed"; parts: number; lost: number }>;

/** What the agent hasn't been told of yet; from now on it has. */
export async function takeUnheard(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
): Promise<Unheard[]> {
  const { rows } = await sql.query<Unheard>(
    `with noted as (
      update deliveries
      set noted_at = clock_timestamp()
      where tenant_id = $1 and thread_id = $2 and noted_at is null and status in ('unknown', 'failed', 'expired') and not head
        and source_kind in ('reply', 'question', 'followup', 'outreach')
      returning source_kind, source_id, status, created_at
    )
    select min(n.created_at) as at, case when bool_or(n.status <> 'unknown') then 'failed' else 'unknown' end as status,
      count(*)::int as lost, (
        select count(*)::int
        from deliveries d
        where d.tenant_id = $1 and d.source_kind = n.source_kind and d.source_id = n.source_id) as parts
    from noted n
    group by n.source_kind, n.source_id
    order by at`,
    [of.tenantId, of.threadId],
  );
  return rows;
}

/** Whether somebody is still to be told of what runs of the thread came to. */
export async function hasToTell(sql: Sql, of: Readonly<{ tenantId: TenantId; threadId: ThreadId }>): Promise<boolean> {
  const { rowCount } = await sql.query(
    `select 1
    from deliveries
    where tenant_id = $1 and thread_id = $2 and source_kind = 'webhook' and status in ('pending', 'sending', 'unknown')
    limit 1`,
    [of.tenantId, of.threadId],
  );
  return rowCount > 0;
}

/** Nothing arrives at an address: what else is to go there waits until the person writes. */
export async function parkPending(sql: Sql, at: ConversationKey, code: string): Promise<void> {
  await sql.query(
    `update deliveries
    set status = 'parked', head = false, error_code = $3, updated_at = clock_timestamp()
    where tenant_id = $1 and conversation_id = $2 and status = 'pending'`,
    [at.tenantId, at.conversationId, code],
  );
}

/** The threads whose questions were asked there, the newest first. */
export async function askingThreads(sql: Sql, at: ConversationKey): Promise<ThreadId[]> {
  const { rows } = await sql.query<{ threadId: ThreadId }>(
    `select thread_id as "threadId"
    from deliveries
    where tenant_id = $1 and conversation_id = $2 and source_kind = 'question'
    group by thread_id
    order by max(seq) desc
    limit 20`,
    [at.tenantId, at.conversationId],
  );
  return rows.map(({ threadId }) => threadId);
}

/** The person wrote: what waited for that goes, in its order. The caller has locked the conversation. Returns how many did. */
export async function unparkDeliveries(sql: Sql, at: ConversationKey): Promise<number> {
  const { rowCount } = await sql.query(
    `update deliveries
    set status = 'pending', error_code = null, settled_at = null, next_at = clock_timestamp(), updated_at = clock_timestamp()
    where tenant_id = $1 and conversation_id = $2 and status = 'parked'`,
    [at.tenantId, at.conversationId],
  );
  if (rowCount > 0) await sql.query("select next_delivery($1, $2)", [at.tenantId, at.conversationId]);
  return rowCount;
}

/** What a follow-up has to say isn't wanted any more: what waits isn't sent. How many that were, and how many had left. */
export async function suppressDeliveries(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; sourceId: string }>,
): Promise<Readonly<{ suppressed: number; left: number }>> {
  const { rows } = await sql.query<{ suppressed: number; left: number }>(
    "select o_suppressed as suppressed, o_left as left from suppress_deliveries($1, $2)",
    [of.tenantId, of.sourceId],
  );
  return rows[0] ?? { suppressed: 0, left: 0 };
}

/** A message of which nobody knows whether it arrived, and that is to be found out. */
export type UnsureDelivery = Try &
  Readonly<{
    channelAccountId: ChannelAccountId;
    conversationId: ConversationId;
    address: Address;
    kind: string;
    payload: Buffer;
    unsureMs: number;
    /** The channel has told of other messages since. */
    heard: boolean;
  }>;

/** Takes those that are due to be looked for; each is due again after `againMs`. */
export async function claimUnsure(
  sql: Sql,
  claim: Readonly<{ limit: number; againMs: number }>,
): Promise<UnsureDelivery[]> {
  const { rows } = await sql.query<UnsureDelivery>(
    `with due as (
      select tenant_id, delivery_id
      from deliveries
      where status = 'unknown' and head and next_at <= (select clock_timestamp())
      order by next_at
      limit $1
      for no key update skip locked
    )
    update deliveries d
    set next_at = clock_timestamp() + $2::float8 * interval '1 ms'
    from due
    join deliveries same using (tenant_id, delivery_id)
    join conversations c using (tenant_id, conversation_id)
    join channel_accounts a on a.tenant_id = c.tenant_id and a.channel_account_id = c.channel_account_id
    where d.tenant_id = due.tenant_id and d.delivery_id = due.delivery_id
    returning d.tenant_id as "tenantId", d.delivery_id as "deliveryId", d.current_token as token,
      d.channel_account_id as "channelAccountId", d.conversation_id as "conversationId", c.address, d.kind, d.payload,
      extract(epoch from clock_timestamp() - d.unknown_since)::float8 * 1000 as "unsureMs",
      coalesce(a.receipt_at > d.unknown_since, false) as heard`,
    [claim.limit, claim.againMs],
    PREPARED,
  );
  return rows;
}

/** Nobody can say what became of it: it stays unknown, for a person, and the next ones go. */
export async function leaveUnsure(sql: Sql, { tenantId, deliveryId, token }: Try): Promise<void> {
  await sql.query("select leave_unsure($1, $2, $3)", [tenantId, deliveryId, token]);
}

/** What a person says of a message that was left to them; false: it is in no state for that, or isn't there. */
export async function resolveDelivery(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; deliveryId: DeliveryId; how: "again" | "sent" }>,
): Promise<boolean> {
  const { rows } = await sql.query<{ resolved: boolean }>("select resolve_delivery($1, $2, $3) as resolved", [
    key.tenantId,
    key.deliveryId,
    key.how,
  ]);
  return rows[0]?.resolved ?? false;
}

/** Whether any message is on its way. */
export async function isSending(sql: Sql, tenantId: TenantId): Promise<boolean> {
  const { rows } = await sql.query<{ found: boolean }>(
    "select exists (select 1 from deliveries where tenant_id = $1 and status = 'sending') as found",
    [tenantId],
  );
  return rows[0]?.found ?? false;
}

/** How long until something is due to be sent, found out or recovered, in ms; null: nothing waits. */
export async function nextDeliveryInMs(sql: Sql): Promise<number | null> {
  const { rows } = await sql.query<{ ms: number | null }>("select next_delivery_in_ms() as ms", [], PREPARED);
  return rows[0]?.ms ?? null;
}

export type DeliveryRow = Readonly<{
  tenantId: TenantId;
  deliveryId: DeliveryId;
  sourceKind: DeliverySource;
  sourceId: string;
  part: number;
  threadId: ThreadId;
  runId: RunId | null;
  channelAccountId: ChannelAccountId;
  channel: string;
  conversationId: ConversationId;
  kind: string;
  onUnknown: OnUnknown;
  status: DeliveryStatus;
  nextAt: Date;
  notAfter: Date | null;
  attempts: number;
  providerMessageId: string | null;
  errorCode: string | null;
  duplicate: boolean;
  /** Some parts of what it is of arrived, and some didn't. */
  partial: boolean;
  createdAt: Date;
  updatedAt: Date;
  settledAt: Date | null;
}>;

/** Newest first. */
export async function listDeliveries(
  sql: Sql,
  filter: Readonly<{
    tenantId: TenantId;
    threadId: ThreadId | null;
    deliveryId?: DeliveryId | null;
    status: DeliveryStatus | null;
    limit: number;
    offset: number;
  }>,
): Promise<DeliveryRow[]> {
  const { rows } = await sql.query<DeliveryRow>(
    `select d.tenant_id as "tenantId", d.delivery_id as "deliveryId", d.source_kind as "sourceKind", d.source_id as "sourceId",
      d.part, d.thread_id as "threadId", d.run_id as "runId", d.channel_account_id as "channelAccountId", a.kind as channel,
      d.conversation_id as "conversationId", d.kind, d.on_unknown as "onUnknown", d.status, d.next_at as "nextAt",
      d.not_after as "notAfter", d.attempts, d.provider_message_id as "providerMessageId", d.error_code as "errorCode",
      d.duplicate, (
        select bool_or(o.status in ('sent', 'delivered', 'read')) and bool_or(o.status in ('unknown', 'failed', 'expired', 'suppressed'))
        from deliveries o
        where o.tenant_id = d.tenant_id and o.source_kind = d.source_kind and o.source_id = d.source_id) as partial,
      d.created_at as "createdAt", d.updated_at as "updatedAt", d.settled_at as "settledAt"
    from deliveries d
    join channel_accounts a using (tenant_id, channel_account_id)
    where d.tenant_id = $1 and ($2::uuid is null or d.thread_id = $2) and ($3::text is null or d.status = $3)
      and ($4::uuid is null or d.delivery_id = $4)
    order by d.seq desc
    limit $5 offset $6`,
    [filter.tenantId, filter.threadId, filter.status, filter.deliveryId ?? null, filter.limit, filter.offset],
  );
  return rows;
}
