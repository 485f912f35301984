// Accounts of channels with their credentials readable: they are sealed in the database wherever there is a secret key.
import { isSealed, keyIdOf, seal, type SecretKey, unseal } from "../bodies/envelope.js";
import type { Sql } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import type { ChannelAccountId, TenantId } from "../core/ids.js";
import { type AccountKey, type AccountRow, getAccount } from "../delivery/accounts.js";
import type { Account, ChannelAdapter, Channels } from "../delivery/channel.js";

export type SecretKeys = Readonly<{ current: SecretKey | null; old: readonly SecretKey[] }>;

/** An account, and what speaks for it. */
export type OpenAccount = Readonly<{ row: AccountRow; account: Account; adapter: ChannelAdapter }>;

export type Accounts = Readonly<{
  channels: Channels;
  /** Throws `not_found`, or `config_invalid` when a key or an adapter is missing here. */
  open(sql: Sql, key: AccountKey): Promise<OpenAccount>;
  opened(row: AccountRow): OpenAccount;
  sealed(key: AccountKey, credentials: Readonly<Record<string, string>>): Buffer;
}>;

/** `apiRoots`: by kind, where an account doesn't say. */
export function createAccounts(
  channels: Channels,
  keys: SecretKeys,
  apiRoots: Readonly<Record<string, string | null>> = {},
): Accounts {
  const all = keys.current === null ? keys.old : [keys.current, ...keys.old];
  const opened = (row: AccountRow): OpenAccount => ({
    row,
    adapter: adapterOf(channels, row.kind),
    account: {
      channelAccountId: row.channelAccountId,
      credentials: credentialsOf(row, all),
      settings: { ...(apiRoots[row.kind] ? { api_root: apiRoots[row.kind] } : {}), ...row.settings },
    },
  });
  return {
    channels,
    opened,
    async open(sql, key) {
      const row = await getAccount(sql, key);
      if (row === undefined) throw noAccount(key.channelAccountId);
      return opened(row);
    },
    sealed(key, credentials) {
      const bytes = Buffer.from(JSON.stringify(credentials), "utf8");
      return keys.current === null ? bytes : seal(keys.current, nameOf(key), bytes);
    },
  };
}

export function noAccount(id: string): EngineError {
  return new EngineError("not_found", `Channel account ${id} not found`, { details: { channel_account_id: id } });
}

export function adapterOf(channels: Channels, kind: string): ChannelAdapter {
  const adapter = channels.get(kind);
  if (adapter !== undefined) return adapter;
  const known = [...channels.keys()].join(", ");
  throw new EngineError("config_invalid", `kind: there is no channel "${kind}" here; known are ${known}`);
}

function credentialsOf(row: AccountRow, keys: readonly SecretKey[]): Readonly<Record<string, string>> {
  return JSON.parse(readable(row, keys).toString("utf8")) as Record<string, string>;
}

function readable(row: AccountRow, keys: readonly SecretKey[]): Buffer {
  if (!isSealed(row.credentials)) return row.credentials;
  const id = keyIdOf(row.credentials);
  const key = keys.find((each) => each.id === id);
  if (key !== undefined) return unseal(key, nameOf(row), row.credentials, { first: 0, whole: true });
  throw new EngineError(
    "config_invalid",
    `the credentials of channel account ${row.channelAccountId} are sealed with key ${id}: add it to PERDURE_SECRET_KEY or PERDURE_OLD_SECRET_KEYS`,
  );
}

const nameOf = ({ tenantId, channelAccountId }: Readonly<{ tenantId: TenantId; channelAccountId: ChannelAccountId }>) =>
  `${tenantId}/channel-accounts/${channelAccountId}`;
