// Tells a channel where its webhooks go. A channel that won't listen is no reason not to have the account: who made it sees why, and the
// next change tries again.
import type { AccountRow } from "../delivery/accounts.js";
import type { Engine } from "./engine.js";

const TIMEOUT_MS = 10_000;

export type Announced = Readonly<{ done: boolean; code: string | null }>;

/** Undefined where there is nothing to tell. Never rejects. */
export async function announceAccount(
  { accounts, deps }: Pick<Engine, "accounts" | "deps">,
  row: AccountRow,
  webhookUrl: string,
): Promise<Announced | undefined> {
  if (row.settings["mode"] === "polling") return undefined;
  const { adapter, account } = accounts.opened(row);
  if (adapter.announce === undefined) return undefined;
  try {
    await adapter.announce(account, webhookUrl, AbortSignal.timeout(TIMEOUT_MS));
    return { done: true, code: null };
  } catch (error) {
    const code = String((error as { code?: unknown }).code ?? "failed");
    deps.log.warn(
      { channel_account_id: row.channelAccountId, code },
      "a channel could not be told where its webhooks go",
    );
    return { done: false, code };
  }
}
