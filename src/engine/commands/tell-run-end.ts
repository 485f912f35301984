// A run is over, and somebody wants to be told: what it came to is read, and put into the outbox under the run's id, so that each end is
// told once however often this is tried.
import { v5 as uuidv5 } from "uuid";
import type { Deps, Sql } from "../../core/deps.js";
import type { ChannelAccountId, ConversationId, DeliveryId, RunId, TenantId } from "../../core/ids.js";
import { insertAccount } from "../../delivery/accounts.js";
import { RUN_WEBHOOK } from "../../delivery/channels/run-webhook.js";
import { insertConversation } from "../../delivery/conversations.js";
import { postDeliveries, postedOf } from "../../delivery/outbox.js";
import { getRuns, type RunOfThread } from "../../runs/runs.js";
import { lockThreadIfFree } from "../../runs/thread-lock.js";
import { claimDueTimer, finishTimer, type TimerRow } from "../../schedule/timers.js";
import type { Accounts } from "../channel-accounts.js";

export type EndTeller = Readonly<{
  deps: Deps;
  accounts: Accounts;
  /** What is told of it: JSON data. */
  endOf(run: RunOfThread): Promise<Readonly<Record<string, unknown>>>;
}>;

/** Returns whether there was something to tell. A run that was rolled back is none any more. */
export async function fireRunWebhook(engine: EndTeller, timer: TimerRow): Promise<boolean> {
  const { deps, accounts } = engine;
  const { tenantId } = timer;
  const [run] = await getRuns(deps.db, [{ tenantId, runId: timer.refId as RunId }]);
  const url = run?.webhook ?? null;
  const payload = run && url !== null ? await engine.endOf(run) : undefined;
  const told = await deps.db.tx(async (sql) => {
    const thread = run && (await lockThreadIfFree(sql, run));
    if (thread === "held") return false;
    if (!(await claimDueTimer(sql, timer))) return false;
    await finishTimer(sql, timer);
    if (run === undefined || thread === undefined || url === null || payload === undefined) return false;
    await postEnd(deps, sql, accounts, { run, url, payload });
    return true;
  });
  if (told) deps.notifier.notify("deliveries");
  return told;
}

/** Each run has a conversation of its own: one receiver that is away, or one end that it can't take, holds up no other. */
async function postEnd(
  deps: Deps,
  sql: Sql,
  accounts: Accounts,
  { run, url, payload }: Readonly<{ run: RunOfThread; url: string; payload: Readonly<Record<string, unknown>> }>,
): Promise<void> {
  const { tenantId, threadId, runId } = run;
  const channelAccountId = await accountOf(sql, accounts, tenantId);
  const conversationId = uuidv5("webhook", runId) as ConversationId;
  const place = { tenantId, channelAccountId, conversationId, threadId };
  await insertConversation(sql, { ...place, address: { url }, addressKey: runId, person: null });
  const posted = postedOf([{ kind: "event", payload }], {
    ...({ source: "webhook", sourceId: runId, threadId, runId, conversationId, onUnknown: "resend" } as const),
    newId: () => deps.ids.next<DeliveryId>(),
  });
  await postDeliveries(sql, tenantId, posted);
}

/** The tenant's account for webhooks: there with the first of them. */
async function accountOf(sql: Sql, accounts: Accounts, tenantId: TenantId): Promise<ChannelAccountId> {
  const key = { tenantId, channelAccountId: webhookAccountId(tenantId) };
  const row = { ...key, kind: RUN_WEBHOOK, name: RUN_WEBHOOK, settings: {}, perSecond: null };
  await insertAccount(sql, { ...row, credentials: accounts.sealed(key, {}) });
  return key.channelAccountId;
}

const ACCOUNTS = "6f1f0f0e-3c6f-5f0a-9d55-0d6f6d1a7c11";

function webhookAccountId(tenantId: TenantId): ChannelAccountId {
  return uuidv5(`${tenantId}/${RUN_WEBHOOK}`, ACCOUNTS) as ChannelAccountId;
}
