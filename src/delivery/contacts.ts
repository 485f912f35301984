// Persons of the tenant: what is known of them, where they are reached, and whether they have agreed to marketing.
import type { Sql } from "../core/deps.js";
import type { ContactId, ConversationId, TenantId } from "../core/ids.js";

export type ContactRow = Readonly<{
  tenantId: TenantId;
  contactId: ContactId;
  /** What the tenant calls the person. */
  key: string;
  attributes: Readonly<Record<string, unknown>>;
  timeZone: string | null;
  locale: string | null;
  optedInAt: Date | null;
  optInSource: string | null;
  /** The first choice first. */
  conversationIds: readonly ConversationId[];
  version: number;
  createdAt: Date;
  updatedAt: Date;
}>;

const COLUMNS = `
  p.tenant_id as "tenantId", p.contact_id as "contactId", p.key, p.attributes, p.time_zone as "timeZone", p.locale,
  p.opted_in_at as "optedInAt", p.opt_in_source as "optInSource", p.version, p.created_at as "createdAt",
  p.updated_at as "updatedAt", array(
    select l.conversation_id
    from contact_conversations l
    where l.tenant_id = p.tenant_id and l.contact_id = p.contact_id
    order by l.position) as "conversationIds"`;

export type ContactKey = Readonly<{ tenantId: TenantId; contactId: ContactId }>;

export async function getContact(sql: Sql, key: ContactKey): Promise<ContactRow | undefined> {
  const { rows } = await sql.query<ContactRow>(
    `select ${COLUMNS} from contacts p where p.tenant_id = $1 and p.contact_id = $2`,
    [key.tenantId, key.contactId],
  );
  return rows[0];
}

/** By the tenant's key. */
export async function listContacts(
  sql: Sql,
  filter: Readonly<{ tenantId: TenantId; key: string | null; limit: number; offset: number }>,
): Promise<ContactRow[]> {
  const { rows } = await sql.query<ContactRow>(
    `select ${COLUMNS}
    from contacts p
    where p.tenant_id = $1 and ($2::text is null or p.key = $2)
    order by p.key
    limit $3 offset $4`,
    [filter.tenantId, filter.key, filter.limit, filter.offset],
  );
  return rows;
}

export type ContactChange = Readonly<{
  /** Merged in; null takes one away. */
  attributes?: Readonly<Record<string, unknown>> | undefined;
  timeZone?: string | null | undefined;
  locale?: string | null | undefined;
  /** What shows that they have agreed to marketing; null: they haven't, or not any more. */
  optInSource?: string | null | undefined;
}>;

/** Makes the contact with this key or changes it, and locks it. `contactId` is for a new one. */
export async function putContact(
  sql: Sql,
  contact: ContactKey & Readonly<{ key: string }> & ContactChange,
): Promise<Readonly<{ contactId: ContactId; made: boolean }>> {
  const { rows } = await sql.query<{ contactId: ContactId; made: boolean }>(
    `insert into contacts as p (tenant_id, contact_id, key, attributes, time_zone, locale, opted_in_at, opt_in_source)
    values ($1, $2, $3, jsonb_strip_nulls($4), $6, $8, case when $10::text is not null then clock_timestamp() end, $10)
    on conflict on constraint contacts_key do update
    set attributes = (p.attributes || $4::jsonb) - array(select key from jsonb_each($4::jsonb) where value = 'null'),
      time_zone = case when $5 then $6 else p.time_zone end,
      locale = case when $7 then $8 else p.locale end,
      opted_in_at = case when not $9 then p.opted_in_at when $10::text is not null
        then coalesce(p.opted_in_at, clock_timestamp()) end,
      opt_in_source = case when $9 then $10 else p.opt_in_source end,
      version = p.version + 1, updated_at = clock_timestamp()
    returning contact_id as "contactId", version = 1 as made`,
    [
      contact.tenantId,
      contact.contactId,
      contact.key,
      JSON.stringify(contact.attributes ?? {}),
      contact.timeZone !== undefined,
      contact.timeZone ?? null,
      contact.locale !== undefined,
      contact.locale ?? null,
      contact.optInSource !== undefined,
      contact.optInSource ?? null,
    ],
  );
  return rows[0] as { contactId: ContactId; made: boolean };
}

/** They are reached there, in this order; a conversation that was another contact's is this one's now. Returns those that there are. */
export async function setConversations(
  sql: Sql,
  contact: ContactKey & Readonly<{ conversationIds: readonly ConversationId[] }>,
): Promise<ConversationId[]> {
  const { tenantId, contactId, conversationIds } = contact;
  await sql.query("delete from contact_conversations where tenant_id = $1 and contact_id = $2", [tenantId, contactId]);
  const { rows } = await sql.query<{ conversationId: ConversationId }>(
    `insert into contact_conversations (tenant_id, conversation_id, contact_id, position)
    select c.tenant_id, c.conversation_id, $2, min(x.position)
    from unnest($3::uuid[]) with ordinality x(conversation_id, position)
    join conversations c on c.tenant_id = $1 and c.conversation_id = x.conversation_id
    group by c.tenant_id, c.conversation_id
    order by c.conversation_id
    on conflict (tenant_id, conversation_id) do update set contact_id = excluded.contact_id, position = excluded.position
    returning conversation_id as "conversationId"`,
    [tenantId, contactId, conversationIds],
  );
  return rows.map(({ conversationId }) => conversationId);
}

export async function deleteContact(sql: Sql, key: ContactKey): Promise<boolean> {
  const { rowCount } = await sql.query("delete from contacts where tenant_id = $1 and contact_id = $2", [
    key.tenantId,
    key.contactId,
  ]);
  return rowCount === 1;
}
