// Ties an address in a channel to a thread, before anybody wrote there or after: one person's chats may be one conversation.
import { EngineError } from "../../core/errors.js";
import type { ChannelAccountId, TenantId, ThreadId } from "../../core/ids.js";
import {
  type ConversationRow,
  findConversation,
  insertConversation,
  updateConversation,
} from "../../delivery/conversations.js";
import { lockThread } from "../../runs/thread-lock.js";
import { ensureThread } from "../../runs/threads.js";
import type { Engine } from "../engine.js";
import { parsed } from "../parsed.js";
import { newConversationId } from "./inbound-of.js";

export type PutConversation = Readonly<{
  tenantId: TenantId;
  channelAccountId: ChannelAccountId;
  /** As the channel's adapter wants it. */
  address: unknown;
  /** Null: as it is, or a new one. */
  threadId: ThreadId | null;
  timeZone: string | null;
  locale: string | null;
}>;

/**
 * What is said there from now on is said on that thread; what is on its way stays with the thread it came from.
 * Throws `not_found` for the account or the thread, and `bad_request` with the path of the address that can't be used.
 */
export async function putConversation(
  engine: Pick<Engine, "deps" | "accounts">,
  put: PutConversation,
): Promise<Readonly<{ conversation: ConversationRow; made: boolean }>> {
  const { deps, accounts } = engine;
  const { tenantId, channelAccountId, threadId, timeZone, locale } = put;
  const { adapter } = await accounts.open(deps.db, put);
  const address = parsed(adapter.address, put.address, "address");
  const at = { tenantId, channelAccountId, addressKey: adapter.addressKey(address) };
  return deps.db.tx(async (sql) => {
    if (threadId !== null && (await lockThread(sql, { tenantId, threadId })) === undefined) {
      throw new EngineError("not_found", `Thread ${threadId} not found: create it, or leave thread_id out`);
    }
    const known = await findConversation(sql, at);
    const place = {
      conversationId: known?.conversationId ?? newConversationId(deps, adapter, at),
      threadId: threadId ?? known?.threadId ?? deps.ids.next<ThreadId>(),
    };
    if (known === undefined && threadId === null) await ensureThread(sql, { tenantId, ...place });
    const made = known === undefined && (await insertConversation(sql, { ...at, ...place, address, person: null }));
    // Somebody else may just have begun it.
    const key = made ? { tenantId, ...place } : await findConversation(sql, at);
    if (key === undefined) throw new EngineError("conflict", "The conversation is being changed; ask again");
    await updateConversation(sql, key, { threadId: made ? null : threadId, timeZone, locale });
    return { conversation: (await findConversation(sql, at)) as ConversationRow, made };
  });
}
