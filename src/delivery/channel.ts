// What speaks for one kind of channel. An adapter knows its provider's wire and nothing of the engine: rows, tries, order and rates
// are the engine's.
import type { z } from "zod";
import type { ConversationId } from "../core/ids.js";
import type { Address, InboundEvent, OnUnknown, Outgoing, Rendered, SendResult } from "../core/channel.js";

/** An account as its adapter sees it. */
export type Account = Readonly<{
  channelAccountId: string;
  credentials: Readonly<Record<string, string>>;
  settings: Readonly<Record<string, unknown>>;
}>;

export type SendContext = Readonly<{
  account: Account;
  address: Address;
  /** Of this try. Where the channel gives it back with its receipts, it says which try they are of. */
  token: string;
  /** Of the message: the same in each try, for receivers that know what they have. */
  deliveryId: string;
  /** Tries in a row that certainly didn't leave. */
  refusals: number;
  /** Since the person last wrote, in ms by the database's clock; null: they never did. */
  silentMs: number | null;
  /** Aborts when it has taken too long: the result is then `unknown`, unless nothing had left. */
  signal: AbortSignal;
}>;

export type WebhookRequest = Readonly<{
  method: string;
  url: URL;
  headers: Headers;
  /** As it came: signatures are over these bytes. */
  body: Uint8Array;
}>;

/** What the request is answered with, where a plain 200 won't do. */
export type WebhookAnswer = Readonly<{ status: 200 | 403; text: string }>;

/**
 * A channel. `send` never tries again by itself, never throws for what the provider answered, and says `unknown` where it can't tell
 * whether the message left.
 */
export type ChannelAdapter = Readonly<{
  kind: string;
  /** Of an account; every value is a string, and is kept sealed. */
  credentials: z.ZodType<Readonly<Record<string, string>>>;
  settings: z.ZodType<Readonly<Record<string, unknown>>>;
  address: z.ZodType<Address>;
  defaults: Readonly<{
    onUnknown: OnUnknown;
    /** How long a send may take, in ms. */
    timeoutMs: number;
    /** Messages of one account a second; null: as many as there are. */
    perSecond: number | null;
    /** From one try that didn't get through to the next; after the last of them it is left to a person. Left out: over about two hours. */
    pausesMs?: readonly number[];
    /** Each address is somebody else's server: that one is out of order says nothing of the others. */
    manyProviders?: boolean;
  }>;
  /** What makes an address the same one again. */
  addressKey(address: Address): string;
  /** Who an address belongs to, where it says so: they may decide there before they have written. */
  personAt?(address: Address): string;
  /** What the conversation at an address is called, where that must be known before there is one. */
  conversationId?(at: Readonly<{ channelAccountId: string; addressKey: string }>): ConversationId;
  /** At least so long between two messages to one address, in ms. */
  spacingMs(address: Address): number;
  /** Gives it the channel's form, cut into as many messages as it takes; pure. */
  render(outgoing: Outgoing, address: Address): readonly Rendered[];
  send(message: Rendered, context: SendContext): Promise<SendResult>;
  /** For `reserve_edit`: a short message that takes the place of one to come. The channel must name it. */
  reserve?(context: SendContext): Promise<SendResult>;
  /**
   * Puts a message in the place that `reserve` has taken. The same again changes nothing and is `sent`; `not_sent` with the code
   * `place_gone` takes another place.
   */
  edit?(message: Rendered, messageId: string, context: SendContext): Promise<SendResult>;
  /** What announces a message that is parked, where the account has something for that; its button is `DOORBELL`. */
  doorbell?(account: Account): Rendered | null;
  /** Looks whether a try arrived, where the channel can be asked; null: it doesn't know. */
  findSent?(context: Omit<SendContext, "silentMs">): Promise<Readonly<{ messageId: string }> | "absent" | null>;
  /** Null: this isn't from the channel. Otherwise what it brings, or what it wants to hear first. */
  receive?(request: WebhookRequest, account: Account): readonly InboundEvent[] | WebhookAnswer | null;
  /** Asks for what has come since `cursor`, waiting for it a while; for accounts that no webhook reaches. */
  poll?(
    account: Account,
    cursor: string | null,
    signal: AbortSignal,
  ): Promise<Readonly<{ events: readonly InboundEvent[]; cursor: string | null }>>;
  /** Tells the channel where its webhooks go; at the start of an account in mode webhook. Throws when it won't. */
  announce?(account: Account, webhookUrl: string, signal: AbortSignal): Promise<void>;
  /** After a press was taken: tells the person what it did, and takes the buttons away where there is nothing left to decide. */
  acknowledge?(
    event: Extract<InboundEvent, { kind: "press" }>,
    told: Readonly<{ text: string; closed: boolean }>,
    account: Account,
    signal: AbortSignal,
  ): Promise<void>;
}>;

/** What a press says that asks for what was announced. */
export const DOORBELL = "db:show";

export type Channels = ReadonlyMap<string, ChannelAdapter>;
