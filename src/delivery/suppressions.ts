// Who wants no outreach: said by the person, by their channel or by the tenant. What was begun by the person is answered all the same.
import type { Sql } from "../core/deps.js";
import type { ChannelAccountId, ConversationId, SuppressionId, TenantId } from "../core/ids.js";

export type SuppressionCause = "stop" | "blocked" | "opted_out" | "api";

export type SuppressionRow = Readonly<{
  tenantId: TenantId;
  suppressionId: SuppressionId;
  /** Of a contact, wherever they are reached; or of an address. */
  contactKey: string | null;
  channelAccountId: ChannelAccountId | null;
  addressKey: string | null;
  scope: "all" | "marketing";
  cause: SuppressionCause;
  createdAt: Date;
}>;

const COLUMNS = `
  tenant_id as "tenantId", suppression_id as "suppressionId", contact_key as "contactKey",
  channel_account_id as "channelAccountId", address_key as "addressKey", scope, cause, created_at as "createdAt"`;

type What = Readonly<{ tenantId: TenantId; scope: SuppressionRow["scope"]; cause: SuppressionCause }>;
export type NewSuppression = What & Readonly<{ suppressionId: SuppressionId }>;

/** A conversation's address, and its person wherever else they are reached. Waits for a message that is just going out there. */
export async function suppressConversation(
  sql: Sql,
  suppression: NewSuppression & Readonly<{ conversationId: ConversationId }>,
): Promise<void> {
  const { tenantId, suppressionId, scope, cause, conversationId } = suppression;
  await lockConversations(sql, { tenantId, conversationId, contactKey: null });
  await sql.query(
    `insert into suppressions (tenant_id, suppression_id, channel_account_id, address_key, scope, cause)
    select c.tenant_id, $3, c.channel_account_id, c.address_key, $4, $5
    from conversations c
    where c.tenant_id = $1 and c.conversation_id = $2
    on conflict do nothing`,
    [tenantId, conversationId, suppressionId, scope, cause],
  );
  await sql.query(
    `insert into suppressions (tenant_id, suppression_id, contact_key, scope, cause)
    select p.tenant_id, gen_random_uuid(), p.key, $3, $4
    from contact_conversations l
    join contacts p on p.tenant_id = l.tenant_id and p.contact_id = l.contact_id
    where l.tenant_id = $1 and l.conversation_id = $2
    on conflict do nothing`,
    [tenantId, conversationId, scope, cause],
  );
}

/** A contact, by the tenant's key: also one that isn't there yet. */
export async function suppressContact(
  sql: Sql,
  suppression: NewSuppression & Readonly<{ contactKey: string }>,
): Promise<void> {
  const { tenantId, suppressionId, scope, cause, contactKey } = suppression;
  await lockConversations(sql, { tenantId, conversationId: null, contactKey });
  await sql.query(
    `insert into suppressions (tenant_id, suppression_id, contact_key, scope, cause)
    values ($1, $2, $3, $4, $5)
    on conflict do nothing`,
    [tenantId, suppressionId, contactKey, scope, cause],
  );
}

/** Of the person whose conversation it is, or whose key: what goes out there just now is waited for. */
async function lockConversations(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; conversationId: ConversationId | null; contactKey: string | null }>,
): Promise<void> {
  await sql.query(
    `select 1
    from conversations
    where tenant_id = $1 and conversation_id in (
      select $2::uuid where $2 is not null
      union
      select o.conversation_id
      from contact_conversations o
      join contacts p on p.tenant_id = o.tenant_id and p.contact_id = o.contact_id
      where o.tenant_id = $1 and (p.key = $3 or p.contact_id = (
        select l.contact_id from contact_conversations l where l.tenant_id = $1 and l.conversation_id = $2)))
    order by conversation_id
    for no key update`,
    [of.tenantId, of.conversationId, of.contactKey],
  );
}

/** What a person has said, or their channel since they had, and that they take back now: of the address and of the contact. */
export async function liftOwn(
  sql: Sql,
  at: Readonly<{ tenantId: TenantId; conversationId: ConversationId }>,
): Promise<void> {
  await sql.query(
    `delete from suppressions s
    using conversations c
    where c.tenant_id = $1 and c.conversation_id = $2 and s.tenant_id = c.tenant_id and s.cause in ('stop', 'blocked')
      and ((s.channel_account_id = c.channel_account_id and s.address_key = c.address_key)
        or s.contact_key in (
          select p.key
          from contact_conversations l
          join contacts p on p.tenant_id = l.tenant_id and p.contact_id = l.contact_id
          where l.tenant_id = c.tenant_id and l.conversation_id = c.conversation_id))`,
    [at.tenantId, at.conversationId],
  );
}

export async function deleteSuppression(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; suppressionId: SuppressionId }>,
): Promise<boolean> {
  const { rowCount } = await sql.query("delete from suppressions where tenant_id = $1 and suppression_id = $2", [
    key.tenantId,
    key.suppressionId,
  ]);
  return rowCount === 1;
}

/** Newest first. */
export async function listSuppressions(
  sql: Sql,
  filter: Readonly<{ tenantId: TenantId; contactKey: string | null; limit: number; offset: number }>,
): Promise<SuppressionRow[]> {
  const { rows } = await sql.query<SuppressionRow>(
    `select ${COLUMNS}
    from suppressions
    where tenant_id = $1 and ($2::text is null or contact_key = $2)
    order by created_at desc, suppression_id
    limit $3 offset $4`,
    [filter.tenantId, filter.contactKey, filter.limit, filter.offset],
  );
  return rows;
}
