// Contacts and who of them wants nothing, as people and programs read them.
import type { ContactRow } from "../delivery/contacts.js";
import type { SuppressionRow } from "../delivery/suppressions.js";

export function contactRecord(contact: ContactRow) {
  return {
    contact_id: contact.contactId,
    key: contact.key,
    attributes: contact.attributes,
    time_zone: contact.timeZone,
    locale: contact.locale,
    opt_in: contact.optedInAt && { at: contact.optedInAt, source: contact.optInSource },
    conversation_ids: contact.conversationIds,
    version: contact.version,
    created_at: contact.createdAt,
    updated_at: contact.updatedAt,
  };
}

export function suppressionRecord(suppression: SuppressionRow) {
  return {
    suppression_id: suppression.suppressionId,
    contact_key: suppression.contactKey,
    channel_account_id: suppression.channelAccountId,
    address_key: suppression.addressKey,
    scope: suppression.scope,
    cause: suppression.cause,
    created_at: suppression.createdAt,
  };
}
