// The people whom a tenant writes to by itself, and who of them wants nothing.
import { type Context, Hono } from "hono";
import { z } from "zod";
import { EngineError } from "../../core/errors.js";
import type { ContactId, ConversationId, SuppressionId } from "../../core/ids.js";
import { deleteContact, getContact, listContacts } from "../../delivery/contacts.js";
import { getConversation } from "../../delivery/conversations.js";
import {
  deleteSuppression,
  listSuppressions,
  suppressContact,
  suppressConversation,
} from "../../delivery/suppressions.js";
import { keepContact } from "../../engine/commands/put-contact.js";
import { contactRecord, suppressionRecord } from "../../engine/contact-record.js";
import type { Engine } from "../../engine/engine.js";
import type { ApiEnv } from "../env.js";
import { json } from "../reply.js";
import { integer, one, pathId, readBody, readQuery } from "../request.js";
import { contactPut, suppressionCreate } from "../schemas/schedules.js";

const page = {
  limit: integer({ min: 1, max: 1_000, fallback: 100 }),
  offset: integer({ min: 0, max: 2_147_483_647, fallback: 0 }),
};
export const contactList = z.object({ key: one, ...page });
export const suppressionList = z.object({ contact_key: one, ...page });

export function contactRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  const { deps } = engine;
  const keyOf = (c: Context<ApiEnv>) => ({
    tenantId: c.get("tenantId"),
    contactId: pathId<ContactId>(c, "contact_id"),
  });
  const noContact = (id: string) => new EngineError("not_found", `Contact ${id} not found`);

  /** By its key: makes it, or changes what is given. */
  routes.post("/v1/contacts", async (c) => {
    const body = await readBody(c, contactPut);
    const { contact, made } = await keepContact(deps, c.get("tenantId"), {
      ...{ key: body.key, attributes: body.attributes, timeZone: body.time_zone, locale: body.locale },
      optInSource: body.opt_in === null ? null : body.opt_in?.source,
      conversationIds: body.conversation_ids as ConversationId[] | undefined,
    });
    return json(c, contactRecord(contact), made ? 201 : 200);
  });

  routes.get("/v1/contacts", async (c) => {
    const { key = null, ...rest } = readQuery(c, contactList);
    return json(c, (await listContacts(deps.db, { tenantId: c.get("tenantId"), key, ...rest })).map(contactRecord));
  });

  routes.get("/v1/contacts/:contact_id", async (c) => {
    const contact = await getContact(deps.db, keyOf(c));
    if (contact === undefined) throw noContact(keyOf(c).contactId);
    return json(c, contactRecord(contact));
  });

  /** Conversations stay, and so does what the person said about being written to. */
  routes.delete("/v1/contacts/:contact_id", async (c) => {
    if (!(await deleteContact(deps.db, keyOf(c)))) throw noContact(keyOf(c).contactId);
    return c.body(null, 204);
  });

  /** Of a contact wherever they are reached, or of a conversation and whose it is. Nothing unasked goes there from now on. */
  routes.post("/v1/suppressions", async (c) => {
    const tenantId = c.get("tenantId");
    const { contact_key: contactKey, conversation_id: id, scope } = await readBody(c, suppressionCreate);
    const suppression = { tenantId, suppressionId: deps.ids.next<SuppressionId>(), scope, cause: "api" } as const;
    if (contactKey !== undefined) {
      await deps.db.tx((sql) => suppressContact(sql, { ...suppression, contactKey }));
    } else {
      const conversationId = id as ConversationId;
      if ((await getConversation(deps.db, { tenantId, conversationId })) === undefined) {
        throw new EngineError("not_found", `Conversation ${conversationId} not found`);
      }
      await deps.db.tx((sql) => suppressConversation(sql, { ...suppression, conversationId }));
    }
    return json(
      c,
      { ...(contactKey === undefined ? { conversation_id: id } : { contact_key: contactKey }), scope },
      201,
    );
  });

  routes.get("/v1/suppressions", async (c) => {
    const { contact_key: contactKey = null, ...rest } = readQuery(c, suppressionList);
    const found = await listSuppressions(deps.db, { tenantId: c.get("tenantId"), contactKey, ...rest });
    return json(c, found.map(suppressionRecord));
  });

  routes.delete("/v1/suppressions/:suppression_id", async (c) => {
    const key = { tenantId: c.get("tenantId"), suppressionId: pathId<SuppressionId>(c, "suppression_id") };
    if (!(await deleteSuppression(deps.db, key))) {
      throw new EngineError("not_found", `Suppression ${key.suppressionId} not found`);
    }
    return c.body(null, 204);
  });

  return routes;
}
