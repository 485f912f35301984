// Addresses in channels, each tied to a thread: what is said on the thread in a turn of theirs goes there and nowhere else.
import { type Within, withinParam } from "../core/access.js";
import type { Address, Person } from "../core/channel.js";
import type { Sql } from "../core/deps.js";
import type { ChannelAccountId, ConversationId, TenantId, ThreadId } from "../core/ids.js";

export type ConversationRow = Readonly<{
  tenantId: TenantId;
  conversationId: ConversationId;
  channelAccountId: ChannelAccountId;
  kind: string;
  address: Address;
  threadId: ThreadId;
  person: Readonly<Record<string, unknown>>;
  timeZone: string | null;
  locale: string | null;
  lastInboundAt: Date | null;
  unreachableCode: string | null;
  unreachableAt: Date | null;
  createdAt: Date;
}>;

const COLUMNS = `
  c.tenant_id as "tenantId", c.conversation_id as "conversationId", c.channel_account_id as "channelAccountId", a.kind,
  c.address, c.thread_id as "threadId", c.person, c.time_zone as "timeZone", c.locale, c.last_inbound_at as "lastInboundAt",
  c.unreachable_code as "unreachableCode", c.unreachable_at as "unreachableAt", c.created_at as "createdAt"`;
const WITH_ACCOUNT = "join channel_accounts a using (tenant_id, channel_account_id)";

export type ConversationKey = Readonly<{ tenantId: TenantId; conversationId: ConversationId }>;
export type AddressRef = Readonly<{ tenantId: TenantId; channelAccountId: ChannelAccountId; addressKey: string }>;

export async function getConversation(sql: Sql, key: ConversationKey): Promise<ConversationRow | undefined> {
  const { rows } = await sql.query<ConversationRow>(
    `select ${COLUMNS} from conversations c ${WITH_ACCOUNT} where c.tenant_id = $1 and c.conversation_id = $2`,
    [key.tenantId, key.conversationId],
  );
  return rows[0];
}

export async function findConversation(sql: Sql, at: AddressRef): Promise<ConversationRow | undefined> {
  const { rows } = await sql.query<ConversationRow>(
    `select ${COLUMNS} from conversations c ${WITH_ACCOUNT}
    where c.tenant_id = $1 and c.channel_account_id = $2 and c.address_key = $3`,
    [at.tenantId, at.channelAccountId, at.addressKey],
  );
  return rows[0];
}

/** Ties an address to a thread; nothing changes when it is tied to one. */
export async function insertConversation(
  sql: Sql,
  conversation: AddressRef &
    ConversationKey &
    Readonly<{ address: Address; threadId: ThreadId; person: Person | null }>,
): Promise<boolean> {
  const { person } = conversation;
  const { rowCount } = await sql.query(
    `insert into conversations (tenant_id, conversation_id, channel_account_id, address, address_key, thread_id, person,
      time_zone, locale)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    on conflict do nothing`,
    [
      conversation.tenantId,
      conversation.conversationId,
      conversation.channelAccountId,
      JSON.stringify(conversation.address),
      conversation.addressKey,
      conversation.threadId,
      personJson(person),
      person?.timeZone ?? null,
      person?.locale ?? null,
    ],
  );
  return rowCount === 1;
}

/** Changes what is given. */
export async function updateConversation(
  sql: Sql,
  key: ConversationKey,
  change: Readonly<{ threadId: ThreadId | null; timeZone: string | null; locale: string | null }>,
): Promise<void> {
  await sql.query(
    `update conversations
    set thread_id = coalesce($3, thread_id), time_zone = coalesce($4, time_zone), locale = coalesce($5, locale),
      updated_at = clock_timestamp()
    where tenant_id = $1 and conversation_id = $2`,
    [key.tenantId, key.conversationId, change.threadId, change.timeZone, change.locale],
  );
}

/** Something came from there: from now on messages arrive again. `person`: who wrote; null where somebody only pressed a button. */
export async function noteInbound(sql: Sql, key: ConversationKey, person: Person | null): Promise<void> {
  await sql.query(
    `update conversations
    set last_inbound_at = clock_timestamp(), unreachable_code = null, unreachable_at = null,
      person = person || $3::jsonb, locale = coalesce($4, locale), time_zone = coalesce($5, time_zone),
      updated_at = clock_timestamp()
    where tenant_id = $1 and conversation_id = $2`,
    [key.tenantId, key.conversationId, personJson(person), person?.locale ?? null, person?.timeZone ?? null],
  );
}

/** Nothing arrives there (`code` says why), until the person writes; null: it does again. */
export async function setReachable(sql: Sql, key: ConversationKey, code: string | null): Promise<void> {
  await sql.query(
    `update conversations
    set unreachable_code = $3, unreachable_at = case when $3::text is not null then clock_timestamp() end,
      updated_at = clock_timestamp()
    where tenant_id = $1 and conversation_id = $2`,
    [key.tenantId, key.conversationId, code],
  );
}

/** Why nothing arrives there, if so; locked until the transaction ends. */
export async function lockReachability(sql: Sql, key: ConversationKey): Promise<string | null> {
  const { rows } = await sql.query<{ code: string | null }>(
    `select unreachable_code as code
    from conversations
    where tenant_id = $1 and conversation_id = $2 and unreachable_at is not null
    for no key update`,
    [key.tenantId, key.conversationId],
  );
  return rows[0]?.code ?? null;
}

/** The same place has another address. False when that one is known as a conversation of its own. */
export async function moveConversation(
  sql: Sql,
  from: AddressRef,
  to: Readonly<{ address: Address; addressKey: string }>,
): Promise<boolean> {
  // Who wanted nothing there wants nothing here.
  await sql.query(
    `update suppressions s
    set address_key = $4
    where s.tenant_id = $1 and s.channel_account_id = $2 and s.address_key = $3 and not exists (
      select 1
      from suppressions o
      where o.tenant_id = $1 and o.channel_account_id = $2 and o.address_key = $4 and o.scope = s.scope and o.cause = s.cause)`,
    [from.tenantId, from.channelAccountId, from.addressKey, to.addressKey],
  );
  const { rowCount } = await sql.query(
    `update conversations c
    set address = $4, address_key = $5, updated_at = clock_timestamp()
    where tenant_id = $1 and channel_account_id = $2 and address_key = $3
      and not exists (
        select 1
        from conversations o
        where o.tenant_id = c.tenant_id and o.channel_account_id = c.channel_account_id and o.address_key = $5)`,
    [from.tenantId, from.channelAccountId, from.addressKey, JSON.stringify(to.address), to.addressKey],
  );
  return rowCount === 1;
}

export async function listConversations(
  sql: Sql,
  filter: Readonly<{
    tenantId: TenantId;
    threadId: ThreadId | null;
    within?: Within;
    limit: number;
    offset: number;
  }>,
): Promise<ConversationRow[]> {
  const { rows } = await sql.query<ConversationRow>(
    `select ${COLUMNS} from conversations c ${WITH_ACCOUNT}
    where c.tenant_id = $1 and ($2::uuid is null or c.thread_id = $2)
      and ($3::jsonb is null or c.thread_id in (select * from threads_within($1, $3)))
    order by c.created_at desc, c.conversation_id
    limit $4 offset $5`,
    [filter.tenantId, filter.threadId, withinParam(filter.within), filter.limit, filter.offset],
  );
  return rows;
}

/** What Postgres can hold of it: names are anything. */
function personJson(person: Person | null): string {
  return JSON.stringify(person ?? {}, (_, value: unknown) =>
    typeof value === "string" ? value.replaceAll(/[\0\p{Surrogate}]/gu, "\u{fffd}") : value,
  );
}
