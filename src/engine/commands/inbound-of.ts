// Whose an event is, as the rest of the engine names them.
import type { Caller } from "../../core/approval.js";
import type { Address, Person } from "../../core/channel.js";
import type { Deps } from "../../core/deps.js";
import type { ConversationId } from "../../core/ids.js";
import type { ChannelAdapter } from "../../delivery/channel.js";
import type { AddressRef } from "../../delivery/conversations.js";
import type { OpenAccount } from "../channel-accounts.js";

/** Who wrote or pressed, as deciders name them: `telegram:123`. */
export function callerOf(kind: string, { person }: Readonly<{ person: Person }>): Caller {
  return { person: `${kind}:${person.id}`, roles: [] };
}

export function addressRef({ row, adapter }: OpenAccount, address: Address): AddressRef {
  return { ...row, addressKey: adapter.addressKey(address) };
}

/** What a conversation is called that begins at that address. */
export function newConversationId({ ids }: Pick<Deps, "ids">, adapter: ChannelAdapter, at: AddressRef): ConversationId {
  return adapter.conversationId?.(at) ?? ids.next<ConversationId>();
}
