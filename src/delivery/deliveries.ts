// Messages of the outbox as people, agents and other commands look at them, and what a person says of one that was left to them.
import { type Within, withinParam } from "../core/access.js";
import type { DeliverySource, DeliveryStatus, OnUnknown } from "../core/channel.js";
import type { Sql } from "../core/deps.js";
import type { ChannelAccountId, ConversationId, DeliveryId, RunId, TenantId, ThreadId } from "../core/ids.js";
import type { ConversationKey } from "./conversations.js";

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
    within?: Within;
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
      and ($5::jsonb is null or d.thread_id in (select * from threads_within($1, $5)))
    order by d.seq desc
    limit $6 offset $7`,
    [
      filter.tenantId,
      filter.threadId,
      filter.status,
      filter.deliveryId ?? null,
      withinParam(filter.within),
      filter.limit,
      filter.offset,
    ],
  );
  return rows;
}
