// Messages of which nobody knows whether they arrived: the channel is asked, where it can be; where it tells by itself, its silence
// counts once the time is over and it has told of others. What stays unknown goes to a person.
import type { Deps } from "../core/deps.js";
import { claimUnsure, leaveUnsure, NO_OUTCOME, settleDelivery, type UnsureDelivery } from "../delivery/outbox.js";
import type { Accounts } from "./channel-accounts.js";

/** After so long without a receipt it was not taken, if receipts of others came meanwhile. */
export const RECONCILE_WINDOW_MS = 120_000;
/** As long the next messages wait for what a channel can't say; then a person has to. A receipt that comes later still counts. */
const PATIENCE_MS = 15 * 60_000;
const AGAIN_MS = 15_000;
const BATCH = 20;
const ASK_TIMEOUT_MS = 15_000;

export type FindOutOptions = Readonly<{ accounts: Accounts; windowMs: number }>;

/** One round over what is due to be looked for; returns how many it looked for. */
export async function findOut(deps: Deps, options: FindOutOptions): Promise<number> {
  const unsure = await claimUnsure(deps.db, { limit: BATCH, againMs: AGAIN_MS });
  await Promise.all(
    unsure.map(async (delivery) => {
      try {
        await findOne(deps, options, delivery);
      } catch (error) {
        const code = String((error as { code?: unknown }).code ?? "internal");
        deps.log.warn({ delivery_id: delivery.deliveryId, code }, "a delivery can't be found out about yet");
      }
    }),
  );
  return unsure.length;
}

async function findOne(deps: Deps, { accounts, windowMs }: FindOutOptions, delivery: UnsureDelivery): Promise<void> {
  const { adapter, account } = await accounts.open(deps.db, delivery);
  const settle = (outcome: Parameters<typeof settleDelivery>[2]) => settleDelivery(deps.db, delivery, outcome);
  const signal = AbortSignal.timeout(ASK_TIMEOUT_MS);
  const context = {
    account,
    address: delivery.address,
    token: delivery.token,
    deliveryId: delivery.deliveryId,
    signal,
  };
  const found = (await adapter.findSent?.({ ...context, refusals: 0 })) ?? null;
  if (found !== null && found !== "absent") {
    await settle({ ...NO_OUTCOME, how: "sent", messageId: found.messageId });
  } else if (found === "absent" || (delivery.unsureMs > windowMs && delivery.heard)) {
    await settle({ ...NO_OUTCOME, how: "later", code: "not_arrived", counts: true });
  } else if (delivery.unsureMs > PATIENCE_MS) {
    await leaveUnsure(deps.db, delivery);
  }
}
