// `perdure deliveries`: what went out, what didn't, and what nobody knows about.
import type { DeliveryStatus } from "../core/channel.js";
import type { Deps } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { DEFAULT_TENANT, type DeliveryId, type ThreadId } from "../core/ids.js";
import { listDeliveries, resolveDelivery } from "../delivery/deliveries.js";
import { deliveryRecord } from "../engine/delivery-record.js";
import { type Output, table } from "./output.js";
import { json } from "./wire.js";

type Print = Output & Readonly<{ json: boolean }>;
type Filter = Readonly<{ threadId: ThreadId | null; status: DeliveryStatus | null; limit: number }>;

export async function deliveriesLs({ db }: Deps, filter: Filter, print: Print): Promise<void> {
  const found = await listDeliveries(db, { tenantId: DEFAULT_TENANT, offset: 0, ...filter });
  const deliveries = found.map(deliveryRecord);
  if (print.json) return print.line(json(deliveries));
  const rows = deliveries.map((delivery) => ({
    ...{ updated: delivery.updated_at, channel: delivery.channel, status: delivery.status, for: delivery.source_kind },
    ...{
      part: delivery.part,
      tries: delivery.attempts,
      error: delivery.error_code,
      message: delivery.provider_message_id,
    },
    ...{ thread: delivery.thread_id, delivery: delivery.delivery_id },
  }));
  print.line(table(rows, "There are no such deliveries."));
}

export async function deliveriesResolve(
  { db, notifier }: Deps,
  { deliveryId, how }: Readonly<{ deliveryId: DeliveryId; how: "again" | "sent" }>,
  print: Print,
): Promise<void> {
  const key = { tenantId: DEFAULT_TENANT, deliveryId };
  const one = async () =>
    (await listDeliveries(db, { ...key, threadId: null, status: null, limit: 1, offset: 0 })).at(0);
  const before = await one();
  if (before === undefined) throw new EngineError("not_found", `Delivery ${deliveryId} not found`);
  if (!(await resolveDelivery(db, { ...key, how }))) {
    throw new EngineError("conflict", `Delivery ${deliveryId} is ${before.status}: there is nothing to resolve`);
  }
  notifier.notify("deliveries");
  const after = (await one()) ?? before;
  if (print.json) return print.line(json(deliveryRecord(after)));
  print.line(how === "again" ? `Delivery ${deliveryId} is sent again.` : `Delivery ${deliveryId} counts as sent.`);
}
