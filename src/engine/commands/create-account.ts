// Makes an account of a channel, or changes one: what its adapter can't use is refused by its place.
import { randomBytes } from "node:crypto";
import type { Deps } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { ChannelAccountId, TenantId } from "../../core/ids.js";
import { type AccountKey, type AccountRow, getAccount, insertAccount, updateAccount } from "../../delivery/accounts.js";
import type { ChannelAdapter } from "../../delivery/channel.js";
import { RUN_WEBHOOK } from "../../delivery/channels/run-webhook.js";
import { takeKey } from "../../runs/idempotency-keys.js";
import { adapterOf, type Accounts, noAccount } from "../channel-accounts.js";
import { parsed } from "../parsed.js";
import { findMadeBefore, type Once } from "./make-once.js";

type Given = Readonly<{
  credentials: Readonly<Record<string, string>>;
  settings: Readonly<Record<string, unknown>>;
}>;

export type MadeAccount = Readonly<{ account: AccountRow; again: boolean }>;

/** Throws `bad_request` with the path that can't be used, and `conflict` when the name is taken. */
export async function createAccount(
  deps: Deps,
  accounts: Accounts,
  create: Given & Readonly<{ tenantId: TenantId; kind: string; name: string; once: Once | null }>,
): Promise<MadeAccount> {
  const { tenantId, kind, name, once } = create;
  const before = once === null ? undefined : await accountMadeBefore(deps, once);
  if (before !== undefined) return { account: before, again: true };
  if (kind === RUN_WEBHOOK || name === RUN_WEBHOOK) throw ownAccount();
  const adapter = knownAdapter(accounts, kind);
  const given = checked(adapter, withSecret(create));
  const key = { tenantId, channelAccountId: deps.ids.next<ChannelAccountId>() };
  const sealed = accounts.sealed(key, given.credentials);
  const made = await deps.db.tx(async (sql) => {
    if (once !== null && !(await takeKey(sql, once, key.channelAccountId))) return undefined;
    const { settings } = given;
    const row = { ...key, kind, name, settings, credentials: sealed, perSecond: adapter.defaults.perSecond };
    const account = await insertAccount(sql, row);
    if (account === undefined) throw new EngineError("conflict", `name: there is a channel account "${name}" already`);
    return account;
  });
  // Another request with the key was faster.
  return made === undefined ? createAccount(deps, accounts, create) : { account: made, again: false };
}

/** Credentials are replaced as a whole, settings one by one; null takes one away. Throws as `createAccount` does, and `not_found`. */
export async function changeAccount(
  deps: Deps,
  accounts: Accounts,
  key: AccountKey,
  change: Readonly<{
    credentials: Given["credentials"] | null;
    settings: Given["settings"] | null;
    paused: boolean | null;
  }>,
): Promise<AccountRow> {
  const row = await getAccount(deps.db, key);
  if (row === undefined) throw noAccount(key.channelAccountId);
  const { account, adapter } = accounts.opened(row);
  const merged = Object.entries({ ...row.settings, ...change.settings }).filter(([, value]) => value !== null);
  const credentials = { ...account.credentials, ...change.credentials };
  const given = checked(adapter, withSecret({ credentials, settings: Object.fromEntries(merged) }));
  const changed = await updateAccount(deps.db, key, {
    credentials: accounts.sealed(key, given.credentials),
    settings: given.settings,
    paused: change.paused,
  });
  if (changed === undefined) throw noAccount(key.channelAccountId);
  if (change.paused === false) deps.notifier.notify("deliveries");
  return changed;
}

/** What webhooks prove themselves with is a credential, wherever it was given; it is made where it wasn't. */
function withSecret({ credentials, settings }: Given): Given {
  const { webhook_secret: given, ...rest } = settings;
  const secret = given ?? credentials["webhook_secret"] ?? randomBytes(24).toString("base64url");
  return { credentials: { ...credentials, webhook_secret: String(secret) }, settings: rest };
}

function checked(adapter: ChannelAdapter, { credentials, settings }: Given): Given {
  if (settings["on_unknown"] === "reserve_edit" && adapter.edit === undefined) {
    throw new EngineError(
      "bad_request",
      `settings.on_unknown: messages of ${adapter.kind} can't be edited; give "hold" or "resend"`,
    );
  }
  return {
    credentials: parsed(adapter.credentials, credentials, "credentials"),
    settings: parsed(adapter.settings, settings, "settings"),
  };
}

function knownAdapter(accounts: Accounts, kind: string): ChannelAdapter {
  try {
    return adapterOf(accounts.channels, kind);
  } catch (error) {
    throw new EngineError("bad_request", (error as Error).message);
  }
}

function ownAccount(): EngineError {
  return new EngineError(
    "bad_request",
    `kind, name: "${RUN_WEBHOOK}" is for completion webhooks, which need no account; give "webhook"`,
  );
}

function accountMadeBefore({ db }: Deps, once: Once): Promise<AccountRow | undefined> {
  const { tenantId } = once;
  return findMadeBefore(db, once, "channel account", (id) =>
    getAccount(db, { tenantId, channelAccountId: id as ChannelAccountId }),
  );
}
