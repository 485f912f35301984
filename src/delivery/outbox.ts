// The outbox: what is to be sent, taken by deliverers, and what became of it. The functions are in migrations/0012_deliver.sql.
import type { Address, DeliverySource, OnUnknown, Rendered } from "../core/channel.js";
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
  await sql.query("select 1 from conversations where tenant_id = $1 and conversation_id = $2 for no key update", [
    ...[of.tenantId, of.conversationId],
  ]);
  await release(sql, of, "and source_kind = 'outreach' and source_id = $3 and error_code = $4", [
    ...[of.sourceId, QUIET_HOURS],
  ]);
}

/** Messages whose deliverer is gone; returns how many. */
export async function recoverDeliveries(sql: Sql, unsureAfterMs: number): Promise<number> {
  const { rows } = await sql.query<{ n: number }>("select recover_deliveries($1) as n", [unsureAfterMs], PREPARED);
  return rows[0]?.n ?? 0;
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

/** The person wrote: what waited for that goes, in its order. The caller has locked the conversation. Returns how many did. */
export async function unparkDeliveries(sql: Sql, at: ConversationKey): Promise<number> {
  return release(sql, at, "", []);
}

async function release(sql: Sql, at: ConversationKey, which: string, more: readonly string[]): Promise<number> {
  const { rowCount } = await sql.query(
    `update deliveries
    set status = 'pending', error_code = null, settled_at = null, next_at = clock_timestamp(), updated_at = clock_timestamp()
    where tenant_id = $1 and conversation_id = $2 and status = 'parked' ${which}`,
    [at.tenantId, at.conversationId, ...more],
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

/** How long until something is due to be sent, found out or recovered, in ms; null: nothing waits. */
export async function nextDeliveryInMs(sql: Sql): Promise<number | null> {
  const { rows } = await sql.query<{ ms: number | null }>("select next_delivery_in_ms() as ms", [], PREPARED);
  return rows[0]?.ms ?? null;
}
