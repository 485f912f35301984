// Accounts, conversations and deliveries as people and programs read them: no credentials, no content.
import type { AccountRow } from "../delivery/accounts.js";
import type { ConversationRow } from "../delivery/conversations.js";
import type { DeliveryRow } from "../delivery/deliveries.js";

export function accountRecord(account: AccountRow, webhookUrl: string) {
  return {
    channel_account_id: account.channelAccountId,
    kind: account.kind,
    name: account.name,
    settings: account.settings,
    status: account.status,
    paused_code: account.pausedCode,
    paused_at: account.pausedAt,
    webhook_url: webhookUrl,
    created_at: account.createdAt,
    updated_at: account.updatedAt,
  };
}

export function conversationRecord(conversation: ConversationRow) {
  return {
    conversation_id: conversation.conversationId,
    channel_account_id: conversation.channelAccountId,
    channel: conversation.kind,
    address: conversation.address,
    thread_id: conversation.threadId,
    time_zone: conversation.timeZone,
    locale: conversation.locale,
    last_inbound_at: conversation.lastInboundAt,
    unreachable_code: conversation.unreachableCode,
    unreachable_at: conversation.unreachableAt,
    created_at: conversation.createdAt,
  };
}

export function deliveryRecord(delivery: DeliveryRow) {
  return {
    delivery_id: delivery.deliveryId,
    source_kind: delivery.sourceKind,
    source_id: delivery.sourceId,
    part: delivery.part,
    thread_id: delivery.threadId,
    run_id: delivery.runId,
    channel: delivery.channel,
    channel_account_id: delivery.channelAccountId,
    conversation_id: delivery.conversationId,
    kind: delivery.kind,
    on_unknown: delivery.onUnknown,
    status: delivery.status,
    attempts: delivery.attempts,
    next_at: delivery.status === "pending" ? delivery.nextAt : null,
    not_after: delivery.notAfter,
    provider_message_id: delivery.providerMessageId,
    error_code: delivery.errorCode,
    duplicate: delivery.duplicate,
    partial: delivery.partial,
    created_at: delivery.createdAt,
    updated_at: delivery.updatedAt,
    settled_at: delivery.settledAt,
  };
}
