// The inbox of a web conversation: what was said there, both ways, in order, and how far the person has got. The functions are in
// migrations/0015_widget.sql, and so is what puts messages to the person here.
import type { DeliverySource } from "../core/channel.js";
import type { Sql } from "../core/deps.js";
import type { ConversationId, DeliveryId, TenantId, ThreadId } from "../core/ids.js";
import type { ConversationKey } from "./conversations.js";

export type InboxItemRow = Readonly<{
  seq: number;
  /** Null: the person wrote it, and their browser named it. */
  deliveryId: DeliveryId | null;
  clientMessageId: string | null;
  sourceKind: DeliverySource | null;
  threadId: ThreadId | null;
  payload: Buffer;
  createdAt: Date;
}>;

const ITEMS = `
  select i.seq::float8 as seq, i.delivery_id as "deliveryId", i.client_message_id as "clientMessageId",
    d.source_kind as "sourceKind", d.thread_id as "threadId", coalesce(d.payload, i.payload) as payload, i.created_at as "createdAt"
  from inbox_items i
  left join deliveries d on d.tenant_id = i.tenant_id and d.delivery_id = i.delivery_id
  where i.tenant_id = $1 and i.conversation_id = $2`;

/** Oldest first. `beforeSeq`: the last ones before it; else the first ones after `afterSeq`. */
export async function inboxItems(
  sql: Sql,
  page: ConversationKey & Readonly<{ afterSeq: number; beforeSeq: number | null; limit: number }>,
): Promise<InboxItemRow[]> {
  const { tenantId, conversationId, afterSeq, beforeSeq, limit } = page;
  if (beforeSeq === null) {
    const { rows } = await sql.query<InboxItemRow>(`${ITEMS} and i.seq > $3 order by i.seq limit $4`, [
      ...[tenantId, conversationId, afterSeq, limit],
    ]);
    return rows;
  }
  const { rows } = await sql.query<InboxItemRow>(
    `${ITEMS} and i.seq > $3 and i.seq < $5 order by i.seq desc limit $4`,
    [tenantId, conversationId, afterSeq, limit, beforeSeq],
  );
  return rows.reverse();
}

export async function ownItem(
  sql: Sql,
  key: ConversationKey & Readonly<{ clientMessageId: string }>,
): Promise<InboxItemRow | undefined> {
  const { rows } = await sql.query<InboxItemRow>(`${ITEMS} and i.client_message_id = $3`, [
    ...[key.tenantId, key.conversationId, key.clientMessageId],
  ]);
  return rows[0];
}

/** In the transaction that takes it in. */
export async function writeInbox(
  sql: Sql,
  item: ConversationKey & Readonly<{ clientMessageId: string; text: string }>,
): Promise<void> {
  const payload = Buffer.from(JSON.stringify({ text: item.text }), "utf8");
  await sql.query("select write_inbox($1, $2, $3, $4)", [
    ...[item.tenantId, item.conversationId, item.clientMessageId, payload],
  ]);
}

/** A client has everything up to there; `seen`: and the person has seen it. */
export async function takeInbox(
  sql: Sql,
  taken: ConversationKey & Readonly<{ upTo: number; seen: boolean }>,
): Promise<void> {
  await sql.query("select take_inbox($1, $2, $3, $4)", [taken.tenantId, taken.conversationId, taken.upTo, taken.seen]);
}

export type InboxHead = Readonly<{
  conversationId: ConversationId;
  threadId: ThreadId;
  lastSeq: number;
  receivedSeq: number;
  readSeq: number;
  unread: number;
}>;

/** How far each of these conversations has got. */
export async function inboxHeads(
  sql: Sql,
  of: Readonly<{ tenantId: TenantId; conversationIds: readonly ConversationId[] }>,
): Promise<InboxHead[]> {
  const { rows } = await sql.query<InboxHead>(
    `select c.conversation_id as "conversationId", c.thread_id as "threadId", c.last_seq::float8 as "lastSeq",
      c.received_seq::float8 as "receivedSeq", c.read_seq::float8 as "readSeq", (
        select count(*)::int
        from inbox_items i
        where i.tenant_id = c.tenant_id and i.conversation_id = c.conversation_id and i.seq > c.read_seq
          and i.delivery_id is not null
      ) as unread
    from conversations c
    where c.tenant_id = $1 and c.conversation_id = any($2::uuid[])`,
    [of.tenantId, of.conversationIds],
  );
  return rows;
}

/** The last questions that were asked there. */
export async function inboxQuestions(
  sql: Sql,
  key: ConversationKey & Readonly<{ limit: number }>,
): Promise<Pick<InboxItemRow, "threadId" | "payload">[]> {
  const { rows } = await sql.query<Pick<InboxItemRow, "threadId" | "payload">>(
    `select thread_id as "threadId", payload
    from deliveries
    where tenant_id = $1 and conversation_id = $2 and source_kind = 'question'
    order by seq desc
    limit $3`,
    [key.tenantId, key.conversationId, key.limit],
  );
  return rows;
}
