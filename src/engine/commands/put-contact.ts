// Keeps what a tenant knows of a person, and where they are reached.
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { ContactId, ConversationId, TenantId } from "../../core/ids.js";
import {
  type ContactChange,
  type ContactRow,
  getContact,
  putContact,
  setConversations,
} from "../../delivery/contacts.js";
import { checkTimeZone } from "../../schedule/when.js";
import { refusingUnclear } from "../refusing-unclear.js";

export type ContactAsked = ContactChange &
  Readonly<{ key: string; conversationIds?: readonly ConversationId[] | undefined }>;

/** Makes the contact with this key, or changes what is given of it. Throws `bad_request` for a zone or conversation that isn't there. */
export async function keepContact(
  deps: Deps,
  tenantId: TenantId,
  asked: ContactAsked,
): Promise<Readonly<{ contact: ContactRow; made: boolean }>> {
  const { timeZone } = asked;
  if (timeZone) await refusingUnclear(() => checkTimeZone(timeZone));
  return deps.db.tx(async (sql) => {
    const { contactId, made } = await putContact(sql, { ...asked, tenantId, contactId: deps.ids.next<ContactId>() });
    if (asked.conversationIds !== undefined) await tie(sql, { tenantId, contactId }, asked.conversationIds);
    const contact = await getContact(sql, { tenantId, contactId });
    return { contact: contact as ContactRow, made };
  });
}

async function tie(
  sql: Sql,
  key: Readonly<{ tenantId: TenantId; contactId: ContactId }>,
  conversationIds: readonly ConversationId[],
): Promise<void> {
  const tied = new Set(await setConversations(sql, { ...key, conversationIds }));
  const unknown = conversationIds.find((id) => !tied.has(id));
  if (unknown !== undefined)
    throw new EngineError("bad_request", `conversation_ids: there is no conversation ${unknown}`);
}
