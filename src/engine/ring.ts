// What may not be sent before the person writes is announced, once in each silence of theirs, where the account has something for that.
import { v5 as uuidv5 } from "uuid";
import type { Rendered } from "../core/channel.js";
import type { Deps, Sql } from "../core/deps.js";
import type { ConversationId, DeliveryId, TenantId } from "../core/ids.js";
import { getConversation } from "../delivery/conversations.js";
import { postDeliveries, postedOf } from "../delivery/outbox.js";

/** In the caller's transaction. Returns whether it was announced just now. */
export async function ring(
  deps: Pick<Deps, "ids">,
  sql: Sql,
  at: Readonly<{ tenantId: TenantId; conversationId: ConversationId }>,
  doorbell: Rendered | null,
): Promise<boolean> {
  const conversation = doorbell && (await getConversation(sql, at));
  if (doorbell === null || !conversation) return false;
  const { tenantId, conversationId, threadId, lastInboundAt } = conversation;
  const posted = postedOf([doorbell], {
    newId: () => deps.ids.next<DeliveryId>(),
    source: "doorbell",
    sourceId: uuidv5(`silence since ${lastInboundAt?.toISOString() ?? "ever"}`, conversationId),
    ...{ threadId, runId: null, conversationId, onUnknown: "hold" as const },
  });
  return (await postDeliveries(sql, tenantId, posted)) > 0;
}
