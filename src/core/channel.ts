// What channels speak of: addresses, what is to be said, and what became of it. Pure.

/** Where in a channel somebody is reached, as its adapter needs it: JSON data. */
export type Address = Readonly<Record<string, string | number>>;

/** A press of it comes back as `id`. */
export type Button = Readonly<{ id: string; label: string; style?: "primary" | "danger" }>;

/** What is to be said, before a channel gives it its form. `text` is Markdown as models write it. */
export type Outgoing = Readonly<{ text: string; buttons?: readonly Button[] }>;

/** One message on the wire: what the adapter made of it. */
export type Rendered = Readonly<{ kind: string; payload: Readonly<Record<string, unknown>> }>;

/**
 * What happens with a message of which nobody knows whether it arrived: it is left to a person, sent again (so that it may arrive
 * twice), or the channel is asked first. `reserve_edit`: a place is taken for it with a short message, and it is put there by an edit,
 * which may be repeated: what may arrive twice is the short message.
 */
export const ON_UNKNOWN = ["hold", "resend", "reconcile", "reserve_edit"] as const;
export type OnUnknown = (typeof ON_UNKNOWN)[number];

export const DELIVERY_STATUSES = [
  "pending",
  "sending",
  "sent",
  "delivered",
  "read",
  "unknown",
  "failed",
  "parked",
  "suppressed",
  "expired",
] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** What a message is for. */
export type DeliverySource = "reply" | "question" | "followup" | "outreach" | "doorbell" | "notice" | "webhook";

/** What became of one try to send. `code` is a word for programs, never a text of the channel. */
export type SendResult =
  /** The channel took it; null: it said so without an id, which proves nothing. */
  | Readonly<{ kind: "sent"; messageId: string | null }>
  /** It certainly didn't leave. `afterMs`: not before; `spends`: it counts among the tries, which a rate limit doesn't. */
  | Readonly<{ kind: "not_sent"; code: string; afterMs: number | null; spends: boolean }>
  /** It won't be taken, however often it is tried. `unreachable`: nothing else will at this address, until the person writes. */
  | Readonly<{ kind: "refused"; code: string; unreachable: boolean }>
  /** It may have arrived. */
  | Readonly<{ kind: "unknown"; code: string }>
  /** The place has another address now: it can be sent there at once. */
  | Readonly<{ kind: "moved"; to: Address }>
  /** The account itself is not allowed to send: nothing of it goes out until somebody has looked. */
  | Readonly<{ kind: "account_down"; code: string }>
  /** It may not be sent now, and it is not known when: it waits for what the channel says. */
  | Readonly<{ kind: "parked"; code: string }>;

/** What a webhook or a poll brings. `externalId` makes the second copy of it known. */
export type InboundEvent =
  | Readonly<{
      kind: "message";
      externalId: string;
      address: Address;
      person: Person;
      text: string;
      messageId: string;
      /** Among the messages of its conversation, by the channel's own count or clock: they may come in any order. */
      place?: number;
    }>
  /** A button was pressed; `id` is what we put there, or what somebody made up. */
  | Readonly<{
      kind: "press";
      externalId: string;
      address: Address;
      person: Person;
      id: string;
      reference: string | null;
    }>
  | Readonly<{
      kind: "receipt";
      messageId: string;
      status: "sent" | "delivered" | "read" | "failed";
      /** The try's, where the channel gives it back. */
      token: string | null;
      code: string | null;
    }>
  /** From now on nothing, or again something, arrives there. */
  | Readonly<{ kind: "reachable"; externalId: string; address: Address; code: string | null }>
  /** The same place has another address. */
  | Readonly<{ kind: "moved"; externalId: string; from: Address; to: Address }>;

/** Who wrote, as the channel says. `id` is the channel's. */
export type Person = Readonly<{ id: string; name?: string; locale?: string; timeZone?: string }>;
