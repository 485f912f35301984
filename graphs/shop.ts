// The shop that the support agent works for: a stand-in for somebody's order, parcel and payment services.
// SHOP_MS is how long its slow service, the parcel tracker, takes to answer (default 300).
import { setTimeout as sleep } from "node:timers/promises";
import { logCall } from "./call-log.js";

export type Order = Readonly<{ id: string; item: string; paid: string; parcel: string }>;

const orders: readonly Order[] = [
  { id: "1042", item: "espresso machine", paid: "129.00 EUR", parcel: "P-7701" },
  { id: "1043", item: "milk jug", paid: "18.50 EUR", parcel: "P-7702" },
];
const parcels: Readonly<Record<string, string>> = {
  "P-7701": "damaged in transit, sent back to the warehouse",
  "P-7702": "delivered on Monday",
};

export async function findOrder(orderId: string): Promise<Order | undefined> {
  const answered = logCall("shop: find order");
  const order = orders.find(({ id }) => id === orderId);
  answered();
  return order;
}

export async function trackParcel(orderId: string): Promise<string> {
  const answered = logCall("shop: track parcel");
  await sleep(Number(process.env["SHOP_MS"] ?? 300));
  const parcel = orders.find(({ id }) => id === orderId)?.parcel;
  answered();
  return (parcel && parcels[parcel]) ?? "no such parcel";
}

/** Pays money back. A shop worth its name pays once per key, however often it is asked. */
export async function payBack(orderId: string, amount: string, idempotencyKey: string): Promise<string> {
  const answered = logCall("shop: pay back");
  answered();
  return `paid ${amount} back for order ${orderId} (${idempotencyKey})`;
}
