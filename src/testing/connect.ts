// Makes an account of a stand-in in the engine under test, so that what people write there reaches it.
import { EngineError } from "../core/errors.js";
import type { StandIn } from "./channels/stand-in.js";

type Ask = typeof globalThis.fetch;

export type ConnectOptions = Readonly<{
  /** Which assistant answers there. */
  assistant: string;
  /** More of the account's settings, as for `POST /v1/channel-accounts`. */
  settings?: Readonly<Record<string, unknown>>;
}>;

/** Resolves with the account's id. */
export async function connectStandIn(
  standIn: StandIn,
  { assistant, settings }: ConnectOptions,
  { ask, now }: Readonly<{ ask: Ask; now: () => Promise<Date> }>,
): Promise<string> {
  const account = standIn.account(assistant, settings);
  const response = await ask("http://perdure.test/v1/channel-accounts", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(account),
  });
  const text = await response.text();
  if (!response.ok) throw new EngineError("bad_request", `connect: ${response.status} ${text}`);
  const made = JSON.parse(text) as Readonly<{ channel_account_id: string; webhook_url: string }>;
  if (account.settings["mode"] !== "polling") {
    await standIn.connect({ webhookUrl: made.webhook_url, fetch: ask, now });
  }
  return made.channel_account_id;
}
