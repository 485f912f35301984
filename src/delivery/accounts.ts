// Accounts of channels: who speaks there, with what credentials, and whether it may.
import type { Sql } from "../core/deps.js";
import type { ChannelAccountId, TenantId } from "../core/ids.js";

export type AccountRow = Readonly<{
  tenantId: TenantId;
  channelAccountId: ChannelAccountId;
  kind: string;
  name: string;
  /** JSON, perhaps sealed. */
  credentials: Buffer;
  settings: Readonly<Record<string, unknown>>;
  status: "open" | "paused";
  pausedCode: string | null;
  pausedAt: Date | null;
  blockedUntil: Date | null;
  /** Messages in a row without a proper answer. */
  troubles: number;
  cursor: string | null;
  version: number;
  createdAt: Date;
  updatedAt: Date;
}>;

const COLUMNS = `
  tenant_id as "tenantId", channel_account_id as "channelAccountId", kind, name, credentials, settings, status,
  paused_code as "pausedCode", paused_at as "pausedAt", blocked_until as "blockedUntil", troubles, cursor, version,
  created_at as "createdAt", updated_at as "updatedAt"`;

export type AccountKey = Readonly<{ tenantId: TenantId; channelAccountId: ChannelAccountId }>;

/** Undefined when the name is taken. */
export async function insertAccount(
  sql: Sql,
  account: AccountKey & Pick<AccountRow, "kind" | "name" | "credentials" | "settings"> & { perSecond: number | null },
): Promise<AccountRow | undefined> {
  const { rows } = await sql.query<AccountRow>(
    `insert into channel_accounts (tenant_id, channel_account_id, kind, name, credentials, settings, per_second, tokens)
    values ($1, $2, $3, $4, $5, $6, $7::float8, greatest($7::float8, 1))
    on conflict on constraint channel_accounts_name do nothing
    returning ${COLUMNS}`,
    [
      account.tenantId,
      account.channelAccountId,
      account.kind,
      account.name,
      account.credentials,
      JSON.stringify(account.settings),
      account.perSecond,
    ],
  );
  return rows[0];
}

export async function getAccount(sql: Sql, key: AccountKey): Promise<AccountRow | undefined> {
  const { rows } = await sql.query<AccountRow>(
    `select ${COLUMNS} from channel_accounts where tenant_id = $1 and channel_account_id = $2`,
    [key.tenantId, key.channelAccountId],
  );
  return rows[0];
}

/** Of any tenant: a webhook comes with the account's id alone. */
export async function findAccount(sql: Sql, channelAccountId: ChannelAccountId): Promise<AccountRow | undefined> {
  const { rows } = await sql.query<AccountRow>(
    `select ${COLUMNS} from channel_accounts where channel_account_id = $1`,
    [channelAccountId],
  );
  return rows[0];
}

/** Whether pages of that origin may speak to any account of kind web, whose ever it is. */
export async function isOriginKnown(sql: Sql, origin: string): Promise<boolean> {
  const { rowCount } = await sql.query(
    "select 1 from channel_accounts where kind = 'web' and settings -> 'allowed_origins' ? $1 limit 1",
    [origin],
  );
  return rowCount > 0;
}

export async function listAccounts(sql: Sql, filter: Readonly<{ tenantId: TenantId }>): Promise<AccountRow[]> {
  const { rows } = await sql.query<AccountRow>(
    `select ${COLUMNS} from channel_accounts where tenant_id = $1 order by created_at, channel_account_id`,
    [filter.tenantId],
  );
  return rows;
}

/** Takes the accounts that are to be polled, which no webhook reaches, for `forMs`: one process polls an account. Of all tenants. */
export async function claimPolling(sql: Sql, claim: Readonly<{ owner: string; forMs: number }>): Promise<AccountRow[]> {
  const { rows } = await sql.query<AccountRow>(
    `with free as (
      select tenant_id, channel_account_id
      from channel_accounts
      where settings ->> 'mode' = 'polling' and status = 'open'
        and (poll_until is null or poll_until < clock_timestamp() or poll_owner = $1)
      order by channel_account_id
      for no key update skip locked
    )
    update channel_accounts
    set poll_owner = $1, poll_until = clock_timestamp() + $2::float8 * interval '1 ms'
    where (tenant_id, channel_account_id) in (select tenant_id, channel_account_id from free)
    returning ${COLUMNS}`,
    [claim.owner, claim.forMs],
  );
  return rows;
}

export async function setCursor(sql: Sql, key: AccountKey, cursor: string | null): Promise<void> {
  await sql.query(
    "update channel_accounts set cursor = $3 where tenant_id = $1 and channel_account_id = $2 and cursor is distinct from $3",
    [key.tenantId, key.channelAccountId, cursor],
  );
}

/** Its webhooks reach us: what they don't tell hasn't happened. */
export async function noteHeard(sql: Sql, key: AccountKey): Promise<void> {
  await sql.query(
    `update channel_accounts
    set receipt_at = clock_timestamp()
    where tenant_id = $1 and channel_account_id = $2
      and (receipt_at is null or receipt_at < clock_timestamp() - interval '5 s')`,
    [key.tenantId, key.channelAccountId],
  );
}

/** So many messages in a row without a proper answer, and the account rests: from so long, to so long at most. */
const MOST_TROUBLES = 5;
const REST_MS = 15_000;
const MOST_REST_MS = 10 * 60_000;

/**
 * What a try said of the channel: that it is out of order, or that it isn't. After some in a row nothing is sent for a while, then one message,
 * so that an outage doesn't make everything that waits something of which nobody knows. Returns until when it rests, where it has just begun to.
 */
export async function noteTrouble(sql: Sql, key: AccountKey, isTrouble: boolean): Promise<Date | null> {
  const { rows } = await sql.query<{ blockedUntil: Date | null }>(
    `update channel_accounts
    set troubles = case when $3 then troubles + 1 else 0 end,
      blocked_until = case when $3 and troubles + 1 >= ${MOST_TROUBLES}
        then clock_timestamp() + least(${MOST_REST_MS}, ${REST_MS} * power(2, troubles + 1 - ${MOST_TROUBLES})) * interval '1 ms' end
    where tenant_id = $1 and channel_account_id = $2 and ($3 or troubles > 0)
    returning blocked_until as "blockedUntil"`,
    [key.tenantId, key.channelAccountId, isTrouble],
  );
  return rows[0]?.blockedUntil ?? null;
}

/** Nothing more of it goes out. True for the first to say so. */
export async function pauseAccount(sql: Sql, key: AccountKey, code: string): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update channel_accounts
    set status = 'paused', paused_code = $3, paused_at = clock_timestamp(), updated_at = clock_timestamp()
    where tenant_id = $1 and channel_account_id = $2 and status = 'open'`,
    [key.tenantId, key.channelAccountId, code],
  );
  return rowCount === 1;
}

/** Changes what is given; an account that was paused goes on. Undefined: there is none. */
export async function updateAccount(
  sql: Sql,
  key: AccountKey,
  change: Readonly<{
    credentials: Buffer | null;
    settings: Readonly<Record<string, unknown>> | null;
    paused: boolean | null;
  }>,
): Promise<AccountRow | undefined> {
  const { rows } = await sql.query<AccountRow>(
    `update channel_accounts
    set credentials = coalesce($3, credentials), settings = coalesce($4::jsonb, settings), version = version + 1,
      status = case when $5::boolean then 'paused' when $5 is null then status else 'open' end,
      paused_code = case when $5::boolean then 'by_hand' when $5 is null then paused_code end,
      paused_at = case when $5::boolean then clock_timestamp() when $5 is null then paused_at end,
      blocked_until = case when $5 is null then blocked_until end, troubles = case when $5 is null then troubles else 0 end,
      updated_at = clock_timestamp()
    where tenant_id = $1 and channel_account_id = $2
    returning ${COLUMNS}`,
    [
      key.tenantId,
      key.channelAccountId,
      change.credentials,
      change.settings === null ? null : JSON.stringify(change.settings),
      change.paused,
    ],
  );
  return rows[0];
}
