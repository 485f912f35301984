// Whom outreach is for: contacts or conversations, named or found by their attributes, each with the conversation that it goes to.
import type { Sql } from "../core/deps.js";
import type { ChannelAccountId, ContactId, ConversationId, TenantId, ThreadId } from "../core/ids.js";

export const CONDITION_OPS = ["eq", "ne", "in", "exists", "absent", "lt", "lte", "gt", "gte"] as const;
export type Condition = Readonly<{ attribute: string; op: (typeof CONDITION_OPS)[number]; value?: unknown }>;

/** `channelAccountId`: of the conversations of contacts, the first of that account; otherwise the first of all. */
export type Audience = Readonly<{ channelAccountId: ChannelAccountId | null }> &
  (
    | Readonly<{ contacts: readonly ContactId[] }>
    | Readonly<{ conversations: readonly ConversationId[] }>
    /** Contacts of which all of it holds; none: all contacts. */
    | Readonly<{ where: readonly Condition[] }>
  );

export type Recipient = Readonly<{
  /** The contact's id, or the conversation's where it is nobody's. */
  recipient: string;
  /** Where a walk over the audience goes on after it. */
  at: string;
  contactKey: string | null;
  attributes: Readonly<Record<string, unknown>>;
  timeZone: string | null;
  optedIn: boolean;
  suppressed: boolean;
  conversationId: ConversationId | null;
  threadId: ThreadId | null;
  /** Who speaks there. */
  assistant: string | null;
}>;

const RECIPIENT = `
  coalesce(p.contact_id, c.conversation_id) as recipient, p.key as "contactKey", coalesce(p.attributes, '{}') as attributes,
  coalesce(p.time_zone, c.time_zone) as "timeZone", p.opted_in_at is not null as "optedIn",
  coalesce(is_suppressed(c.tenant_id, c.conversation_id, $3), false) as suppressed,
  c.conversation_id as "conversationId", c.thread_id as "threadId", a.settings ->> 'assistant_id' as assistant`;

export type AudienceStep = Readonly<{
  tenantId: TenantId;
  audience: Audience;
  marketing: boolean;
  /** Null: from the beginning. */
  after: string | null;
  limit: number;
  /** Only those whose attribute begins with one of these dates. */
  dated: Readonly<{ attribute: string; dates: readonly string[] }> | null;
}>;

/** The next of an audience, in the order of their ids. */
export async function nextRecipients(sql: Sql, step: AudienceStep): Promise<Recipient[]> {
  const { audience } = step;
  return "conversations" in audience
    ? ofConversations(sql, step, audience.conversations)
    : ofContacts(
        sql,
        step,
        "contacts" in audience ? audience.contacts : null,
        "where" in audience ? audience.where : [],
      );
}

async function ofContacts(
  sql: Sql,
  { tenantId, audience, marketing, after, limit, dated }: AudienceStep,
  contacts: readonly ContactId[] | null,
  where: readonly Condition[],
): Promise<Recipient[]> {
  const { rows } = await sql.query<Recipient>(
    `select p.contact_id as at, ${RECIPIENT}
    from (
      select *
      from contacts
      where tenant_id = $1 and ($2::uuid is null or contact_id > $2) and ($4::uuid[] is null or contact_id = any ($4))
        and fits(attributes, $5) and ($8::text is null or left(attributes ->> $8, 10) = any ($9::text[]))
      order by contact_id
      limit $7
    ) p
    left join lateral (
      select o.*
      from contact_conversations l
      join conversations o on o.tenant_id = l.tenant_id and o.conversation_id = l.conversation_id
      where l.tenant_id = p.tenant_id and l.contact_id = p.contact_id
        and ($6::uuid is null or o.channel_account_id = $6)
      order by l.position
      limit 1
    ) c on true
    left join channel_accounts a on a.tenant_id = c.tenant_id and a.channel_account_id = c.channel_account_id
    order by p.contact_id`,
    [tenantId, after, marketing, contacts, JSON.stringify(where), audience.channelAccountId, limit, ...datesOf(dated)],
  );
  return rows;
}

async function ofConversations(
  sql: Sql,
  { tenantId, marketing, after, limit, dated }: AudienceStep,
  conversations: readonly ConversationId[],
): Promise<Recipient[]> {
  const { rows } = await sql.query<Recipient>(
    `select c.conversation_id as at, ${RECIPIENT}
    from conversations c
    join channel_accounts a on a.tenant_id = c.tenant_id and a.channel_account_id = c.channel_account_id
    left join contact_conversations l on l.tenant_id = c.tenant_id and l.conversation_id = c.conversation_id
    left join contacts p on p.tenant_id = l.tenant_id and p.contact_id = l.contact_id
    where c.tenant_id = $1 and ($2::uuid is null or c.conversation_id > $2) and c.conversation_id = any ($4)
      and ($6::text is null or left(p.attributes ->> $6, 10) = any ($7::text[]))
    order by c.conversation_id
    limit $5`,
    [tenantId, after, marketing, conversations, limit, ...datesOf(dated)],
  );
  return rows;
}

function datesOf(dated: AudienceStep["dated"]): [string | null, readonly string[]] {
  return [dated?.attribute ?? null, dated?.dates ?? []];
}

/** What counts at the moment when something goes out to a person. */
export type Standing = Readonly<{ timeZone: string | null; optedIn: boolean; suppressed: boolean }>;

/** Waits for who changes it just now, where `lock` says so: what they say counts. Undefined when the conversation is gone. */
export async function standingOf(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; conversationId: ConversationId; marketing: boolean; lock: boolean }>,
): Promise<Standing | undefined> {
  const { tenantId, conversationId, marketing } = of;
  if (of.lock) {
    await sql.query("select 1 from conversations where tenant_id = $1 and conversation_id = $2 for no key update", [
      tenantId,
      conversationId,
    ]);
  }
  const { rows } = await sql.query<Standing>(
    `select coalesce(p.time_zone, c.time_zone) as "timeZone", p.opted_in_at is not null as "optedIn",
      is_suppressed(c.tenant_id, c.conversation_id, $3) as suppressed
    from conversations c
    left join contact_conversations l on l.tenant_id = c.tenant_id and l.conversation_id = c.conversation_id
    left join contacts p on p.tenant_id = l.tenant_id and p.contact_id = l.contact_id
    where c.tenant_id = $1 and c.conversation_id = $2`,
    [tenantId, conversationId, marketing],
  );
  return rows[0];
}

/** What an audience names and isn't there. */
export async function unknownIn(sql: Sql, tenantId: TenantId, audience: Audience): Promise<string[]> {
  const { channelAccountId } = audience;
  const { rows } = await sql.query<{ id: string }>(
    `select id
    from unnest($2::uuid[]) id
    where not exists (select 1 from contacts where tenant_id = $1 and contact_id = id)
    union all
    select id
    from unnest($3::uuid[]) id
    where not exists (select 1 from conversations where tenant_id = $1 and conversation_id = id)
    union all
    select id
    from unnest($4::uuid[]) id
    where not exists (select 1 from channel_accounts where tenant_id = $1 and channel_account_id = id)`,
    [
      tenantId,
      "contacts" in audience ? audience.contacts : [],
      "conversations" in audience ? audience.conversations : [],
      channelAccountId === null ? [] : [channelAccountId],
    ],
  );
  return rows.map(({ id }) => id);
}
