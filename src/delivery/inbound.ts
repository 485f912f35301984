// What came in, by the channel's own ids: the second copy of a webhook finds the row of the first.
import type { ChannelAccountId, ConversationId, RunId, TenantId } from "../core/ids.js";
import type { Sql } from "../core/deps.js";

export type InboundKey = Readonly<{ tenantId: TenantId; channelAccountId: ChannelAccountId; externalId: string }>;

/** False when it is known. */
export async function noteReceived(
  sql: Sql,
  event: InboundKey & Readonly<{ kind: string; runId: RunId | null; place?: number }>,
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `insert into inbound_events (tenant_id, channel_account_id, external_id, kind, run_id, place)
    values ($1, $2, $3, $4, $5, $6)
    on conflict do nothing`,
    [event.tenantId, event.channelAccountId, event.externalId, event.kind, event.runId, event.place ?? null],
  );
  return rowCount === 1;
}

/** Which run a message has become part of. */
export async function noteRun(sql: Sql, event: InboundKey, runId: RunId): Promise<void> {
  await sql.query(
    "update inbound_events set run_id = $4 where tenant_id = $1 and channel_account_id = $2 and external_id = $3",
    [event.tenantId, event.channelAccountId, event.externalId, runId],
  );
}

/** The places of messages among those of their conversation, by their external ids; of those that have one. */
export async function placesOf(
  sql: Sql,
  of: Omit<InboundKey, "externalId"> & Readonly<{ externalIds: readonly string[] }>,
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql.query<{ externalId: string; place: number }>(
    `select external_id as "externalId", place::float8 as place
    from inbound_events
    where tenant_id = $1 and channel_account_id = $2 and external_id = any($3::text[]) and place is not null`,
    [of.tenantId, of.channelAccountId, of.externalIds],
  );
  return new Map(rows.map(({ externalId, place }) => [externalId, place]));
}

/** Forgets what came longer ago than any channel sends it again. */
export async function deleteOldInbound(sql: Sql, olderThanMs: number): Promise<number> {
  const { rowCount } = await sql.query(
    "delete from inbound_events where received_at < clock_timestamp() - $1::float8 * interval '1 ms'",
    [olderThanMs],
  );
  return rowCount;
}

/**
 * What the channel told of a message, whose own row may not be there yet. Changes what is known of it, by rank. Returns the
 * conversation where a message that was taken at first waits for the person now.
 */
export async function noteReceipt(
  sql: Sql,
  receipt: Omit<InboundKey, "externalId"> &
    Readonly<{
      messageId: string;
      status: "sent" | "delivered" | "read" | "failed";
      token: string | null;
      code: string | null;
    }>,
): Promise<ConversationId | null> {
  const { rows } = await sql.query<{ parked: ConversationId | null }>(
    "select note_receipt($1, $2, $3, $4, $5, $6) as parked",
    [receipt.tenantId, receipt.channelAccountId, receipt.messageId, receipt.status, receipt.token, receipt.code],
  );
  return rows[0]?.parked ?? null;
}
