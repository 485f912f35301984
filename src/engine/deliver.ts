// One message to its channel: marked before it may have left, sent once, and what became of it written down, however long the database
// takes. What can't be known is left as that.
import type { Rendered, SendResult } from "../core/channel.js";
import type { Deps } from "../core/deps.js";
import { isEngineError } from "../core/errors.js";
import { backoffMs, isTransientDbError } from "../core/retry.js";
import { noteTrouble, pauseAccount } from "../delivery/accounts.js";
import type { ChannelAdapter, SendContext } from "../delivery/channel.js";
import { moveConversation, setReachable } from "../delivery/conversations.js";
import {
  type ClaimedDelivery,
  type DeliveryOutcome,
  NO_OUTCOME,
  noteReserved,
  parkPending,
  settleDelivery,
  type Started,
  startDelivery,
} from "../delivery/outbox.js";
import type { Accounts, OpenAccount } from "./channel-accounts.js";
import { ring } from "./ring.js";
import { heedCode } from "./said-no.js";
import { startOutreach } from "./start-outreach.js";

/** Tries in a row that certainly didn't leave, before it is left to a person: over about two hours. */
const MAX_REFUSALS = 12;
const BACKOFF_BASE_MS = 2_000;
const BACKOFF_CAP_MS = 30 * 60_000;
/** A wait that spends no try is never shorter, or a channel that says 0 would be asked again without end. */
const LEAST_WAIT_MS = 1_000;
/** Of a channel's own pauses, so that what failed together doesn't come together again. */
const JITTER = 0.1;
/** What can be found out is looked for after this. */
export const LOOK_AFTER_MS = 5_000;
const NO_ADAPTER_MS = 60_000;
const SETTLE_CAP_MS = 5_000;

export type DeliverOptions = Readonly<{
  accounts: Accounts;
  /** Aborts when the process must end: what is on its way is then left to its lease. */
  over: AbortSignal;
  /** Told just before the request goes out and just after: where tests end the process. */
  at?: (point: DeliveryPoint, delivery: ClaimedDelivery) => Promise<void> | void;
}>;

export type DeliveryPoint = "claimed" | "marked" | "placed" | "reserved" | "answered" | "settled";

/** Never rejects: what goes wrong here leaves the message to its lease. */
export async function deliver(deps: Deps, options: DeliverOptions, delivery: ClaimedDelivery): Promise<void> {
  const { deliveryId } = delivery;
  try {
    await options.at?.("claimed", delivery);
    await sendAndSettle(deps, options, delivery);
    await options.at?.("settled", delivery);
  } catch (error) {
    const code = isEngineError(error) ? error.code : String((error as { code?: unknown }).code ?? "internal");
    deps.log.error({ delivery_id: deliveryId, code, error: (error as Error).name }, "a delivery failed");
  }
}

async function sendAndSettle(deps: Deps, options: DeliverOptions, delivery: ClaimedDelivery): Promise<void> {
  const opened = await openOrPutOff(deps, options, delivery);
  if (opened === undefined) return;
  const { adapter, account } = opened;
  const { timeoutMs } = adapter.defaults;
  const begunMs = deps.clock.monotonicMs();
  const isOutreach = delivery.sourceKind === "outreach";
  const started = isOutreach ? await startOutreach(deps, delivery) : await startDelivery(deps.db, delivery);
  if (started === undefined) return;
  if ("barred" in started) return settled(deps, options, delivery, { ...NO_OUTCOME, ...started.barred });
  await options.at?.("marked", delivery);
  // This machine may have slept since: a lease that is over soon would let another send it at the same time.
  const leftMs = started.leaseMs - (deps.clock.monotonicMs() - begunMs);
  if (started.expired) return settled(deps, options, delivery, { ...NO_OUTCOME, how: "expired", code: "too_late" });
  if (leftMs < 2 * timeoutMs) {
    return settled(deps, options, delivery, { ...NO_OUTCOME, how: "later", code: "lease_short" });
  }
  const { token, deliveryId, refusals } = delivery;
  const context = { account, ...started, token, deliveryId, refusals };
  const result = isPlaced(adapter, delivery)
    ? await sendPlaced(deps, options, adapter, delivery, context)
    : await said(adapter, context, (to) => adapter.send(messageOf(delivery), to));
  if (result === "lost") return;
  await options.at?.("answered", delivery);
  await write(deps, options, delivery, opened, started, result);
  await noteHealth(deps, options, opened, result);
}

async function openOrPutOff(
  deps: Deps,
  options: DeliverOptions,
  delivery: ClaimedDelivery,
): Promise<OpenAccount | undefined> {
  try {
    return await options.accounts.open(deps.db, delivery);
  } catch (error) {
    if (!isEngineError(error, "config_invalid")) throw error;
    // Another process may know the channel or the key.
    deps.log.error({ delivery_id: delivery.deliveryId, code: error.code }, error.message);
    const later = { ...NO_OUTCOME, how: "later", code: error.code, afterMs: NO_ADAPTER_MS } as const;
    await settled(deps, options, delivery, later);
    return undefined;
  }
}

/** What an adapter makes of one request; what it doesn't say in time, or says by throwing, nobody knows. */
async function said(
  { defaults }: ChannelAdapter,
  context: Omit<SendContext, "signal">,
  ask: (context: SendContext) => Promise<SendResult>,
): Promise<SendResult> {
  try {
    return await ask({ ...context, signal: AbortSignal.timeout(defaults.timeoutMs) });
  } catch {
    // An adapter that throws has said nothing about whether it left.
    return { kind: "unknown", code: "adapter_failed" };
  }
}

const messageOf = ({ kind, payload }: ClaimedDelivery): Rendered => ({
  kind,
  payload: JSON.parse(payload.toString("utf8")) as Rendered["payload"],
});

type Placing = ChannelAdapter & Required<Pick<ChannelAdapter, "reserve" | "edit">>;

function isPlaced(adapter: ChannelAdapter, { onUnknown }: ClaimedDelivery): adapter is Placing {
  return onUnknown === "reserve_edit" && adapter.reserve !== undefined && adapter.edit !== undefined;
}

/**
 * In two steps: a place is taken for it, unless an earlier try has taken one, and written down before the message is put there. "lost": it
 * is somebody else's, who takes a place of their own.
 */
async function sendPlaced(
  deps: Deps,
  options: DeliverOptions,
  adapter: Placing,
  delivery: ClaimedDelivery,
  context: Omit<SendContext, "signal">,
): Promise<SendResult | "lost"> {
  let place = delivery.reservedMessageId;
  if (place === null) {
    const reserved = await said(adapter, context, (to) => adapter.reserve(to));
    if (reserved.kind !== "sent") return reserved;
    if (reserved.messageId === null) return { kind: "unknown", code: "place_unnamed" };
    place = reserved.messageId;
    await options.at?.("placed", delivery);
    const taken = place;
    if (!(await untilAnswered(deps, options, () => noteReserved(deps.db, delivery, taken)))) return "lost";
    await options.at?.("reserved", delivery);
  }
  const at = place;
  return said(adapter, context, (to) => adapter.edit(messageOf(delivery), at, to));
}

/** What the channel said, as rows: all of it or nothing. */
async function write(
  deps: Deps,
  options: DeliverOptions,
  delivery: ClaimedDelivery,
  { adapter, account, row }: OpenAccount,
  { address }: Started,
  result: SendResult,
): Promise<void> {
  const outcome = outcomeOf(deps, result, delivery, { spacingMs: adapter.spacingMs(address), ...adapter.defaults });
  switch (result.kind) {
    case "account_down":
      return settled(deps, options, delivery, outcome, { down: row, code: result.code });
    case "refused":
      return settled(deps, options, delivery, outcome, result.unreachable ? { unreachable: result.code } : undefined);
    case "moved": {
      const to = { address: result.to, addressKey: adapter.addressKey(result.to) };
      return settled(deps, options, delivery, outcome, { from: adapter.addressKey(address), to });
    }
    case "parked":
      return settled(deps, options, delivery, outcome, { parked: ringOf(adapter, account) });
    case "sent":
    case "not_sent":
    case "unknown":
      return settled(deps, options, delivery, outcome);
  }
}

/** What the network says, and 5xx. */
const OUT_OF_ORDER = /^(?:[A-Z]|http_5)/;

/** Where all addresses of an account are one provider's: what is out of order for one is for all. */
async function noteHealth(
  deps: Deps,
  options: DeliverOptions,
  { adapter: { defaults }, row }: OpenAccount,
  result: SendResult,
): Promise<void> {
  const isTrouble = result.kind === "unknown" || (result.kind === "not_sent" && OUT_OF_ORDER.test(result.code));
  if (defaults.manyProviders === true || (!isTrouble && row.troubles === 0)) return;
  const restsUntil = await untilAnswered(deps, options, () => noteTrouble(deps.db, row, isTrouble));
  if (restsUntil === null) return;
  const fields = { channel_account_id: row.channelAccountId, until: restsUntil.toISOString() };
  deps.log.warn(fields, "a channel is out of order: nothing is sent there for a while");
}

function outcomeOf(
  deps: Deps,
  result: SendResult,
  { refusals }: ClaimedDelivery,
  { spacingMs, pausesMs }: Readonly<{ spacingMs: number; pausesMs?: readonly number[] }>,
): DeliveryOutcome {
  const isLast = refusals >= (pausesMs?.length ?? MAX_REFUSALS - 1);
  const pause = pausesMs?.[refusals];
  const backoff =
    pause === undefined
      ? backoffMs(refusals + 1, deps.random(), BACKOFF_BASE_MS, BACKOFF_CAP_MS)
      : pause * (1 + JITTER * deps.random());
  switch (result.kind) {
    case "sent":
      return result.messageId === null
        ? { ...NO_OUTCOME, how: "unknown", code: "unconfirmed", afterMs: LOOK_AFTER_MS, spacingMs }
        : { ...NO_OUTCOME, how: "sent", messageId: result.messageId, spacingMs };
    case "not_sent": {
      const { code, spends } = result;
      if (spends && isLast) return { ...NO_OUTCOME, how: "failed", code };
      const afterMs = Math.max(result.afterMs ?? backoff, spends ? 0 : LEAST_WAIT_MS);
      return { ...NO_OUTCOME, how: "later", code, afterMs, counts: spends };
    }
    case "refused":
      return { ...NO_OUTCOME, how: "failed", code: result.code, spacingMs };
    case "unknown": {
      // Where it is sent again all the same, not at once, and not for ever.
      if (isLast) return { ...NO_OUTCOME, how: "failed", code: result.code };
      return { ...NO_OUTCOME, how: "unknown", code: result.code, afterMs: Math.max(backoff, LOOK_AFTER_MS), spacingMs };
    }
    case "account_down":
      return { ...NO_OUTCOME, how: "later", code: result.code };
    case "moved":
      return { ...NO_OUTCOME, how: "later", code: "moved" };
    case "parked":
      return { ...NO_OUTCOME, how: "parked", code: result.code };
  }
}

const ringOf = (adapter: ChannelAdapter, account: OpenAccount["account"]): Rendered | null =>
  adapter.doorbell?.(account) ?? null;

type Besides =
  | Readonly<{ parked: Rendered | null }>
  | Readonly<{ unreachable: string }>
  | Readonly<{ down: OpenAccount["row"]; code: string }>
  | Readonly<{ from: string; to: Parameters<typeof moveConversation>[2] }>
  | undefined;

async function settled(
  deps: Deps,
  options: DeliverOptions,
  delivery: ClaimedDelivery,
  outcome: DeliveryOutcome,
  besides?: Besides,
): Promise<void> {
  let isDown = false;
  const isLast = await untilAnswered(deps, options, () =>
    deps.db.tx(async (sql) => {
      // The conversation before its deliveries, as everywhere.
      if (besides !== undefined && "to" in besides) {
        await moveConversation(sql, { ...delivery, addressKey: besides.from }, besides.to);
      }
      if (besides !== undefined && "unreachable" in besides) await setReachable(sql, delivery, besides.unreachable);
      if (outcome.how === "failed") await heedCode(deps, sql, delivery, outcome.code);
      const done = await settleDelivery(sql, delivery, outcome);
      if (besides !== undefined && "unreachable" in besides) await parkPending(sql, delivery, besides.unreachable);
      if (done && besides !== undefined && "parked" in besides) await ring(deps, sql, delivery, besides.parked);
      // Together, or another deliverer would send it again before the account is paused.
      isDown = besides !== undefined && "down" in besides && (await pauseAccount(sql, besides.down, besides.code));
      return done;
    }),
  );
  if (!isLast) deps.log.warn({ delivery_id: delivery.deliveryId, how: outcome.how }, "a delivery was settled too late");
  if (isDown) {
    const fields = { tenant_id: delivery.tenantId, channel_account_id: delivery.channelAccountId, code: outcome.code };
    deps.log.error(fields, "a channel refuses its account: nothing of it goes out until it is opened again");
  }
  deps.notifier.notify("deliveries");
}

/** Until the database answered: an outage must not make a message that was sent one of which nobody knows. */
async function untilAnswered<T>(deps: Deps, { over }: DeliverOptions, write: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await write();
    } catch (error) {
      if (!isTransientDbError(error) || over.aborted) throw error;
      await deps.clock.sleep(backoffMs(tries, deps.random(), 100, SETTLE_CAP_MS), over);
    }
  }
}
