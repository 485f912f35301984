// The widget's own API: a browser makes a session, then reads and writes the one conversation that the session is of.
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { getApproval } from "../../approvals/approvals.js";
import type { Person } from "../../core/channel.js";
import { EngineError } from "../../core/errors.js";
import type { ApprovalId, ChannelAccountId } from "../../core/ids.js";
import { findAccount } from "../../delivery/accounts.js";
import { ownItem, takeInbox } from "../../delivery/inbox.js";
import { askingThreads } from "../../delivery/deliveries.js";
import { noAccount, type OpenAccount } from "../../engine/channel-accounts.js";
import { receiveInbound } from "../../engine/commands/receive-inbound.js";
import { receivePress } from "../../engine/commands/receive-press.js";
import { databaseNow } from "../../engine/database-now.js";
import type { Engine } from "../../engine/engine.js";
import { inboxState, readInbox } from "../../engine/inbox.js";
import type { ApiEnv } from "../env.js";
import { integer, pathId, readBody, readQuery } from "../request.js";
import { text, uuid } from "../schemas/parts.js";
import { conversationOf, refuseOrigin, smallBodies, type Visiting, visiting, widgetCors } from "./door.js";
import { inboxEvents } from "./events.js";
import { asTimeZone } from "../../core/time-zone.js";
import { type Contact, newVisitor, readIdentity, readRefresh, signTokens } from "./tokens.js";

const MAX_SEQ = Number.MAX_SAFE_INTEGER;
const MAX_TEXT = 10_000;

export const sessionCreate = z.object({
  account: uuid,
  /** A token of the tenant's server: who this is. */
  identity: z.string().max(8_192).optional(),
  refresh_token: z.string().max(8_192).optional(),
  time_zone: text.max(100).optional(),
  locale: text.max(35).optional(),
});
export const messageCreate = z.object({
  client_message_id: z.string().regex(/^[\w.-]{1,64}$/, "1 to 64 letters, digits, dots, dashes"),
  text: text.max(MAX_TEXT).refine((said) => said.trim() !== "", "must say something"),
});
export const seqBody = z.object({ up_to: z.number().int().min(0).max(MAX_SEQ) });
export const decisionBody = z.object({ decision: z.enum(["approve", "reject"]) });
export const itemsQuery = z.object({
  after: integer({ min: 0, max: MAX_SEQ, fallback: 0 }),
  before: integer({ min: 1, max: MAX_SEQ, fallback: 0 }),
  limit: integer({ min: 1, max: 200, fallback: 50 }),
});
export const eventsQuery = z.object({ after: integer({ min: 0, max: MAX_SEQ, fallback: 0 }) });

export function widgetRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();
  const { db, notifier } = engine.deps;
  const PATH = "/v1/widget/conversations/:conversation_id";
  routes.use("/v1/widget/*", widgetCors(engine), smallBodies);
  routes.use("/v1/widget/*", async (c, next) => {
    c.header("Cache-Control", "no-store");
    await next();
  });

  /** Of somebody whom the tenant has named, who was here before, or whom nobody knows, in this order. */
  routes.post("/v1/widget/sessions", async (c) => {
    const body = await readBody(c, sessionCreate);
    const opened = await webAccount(engine, body.account as ChannelAccountId);
    const origin = c.req.header("origin") ?? "";
    refuseOrigin(opened, origin);
    const contact = { ...(await contactOf(engine, opened, body)), ...saidOf(body) };
    const { token, expiresAt, refreshToken } = await signTokens(opened, contact, origin, await databaseNow(db));
    return c.json({
      ...{ token, expires_at: expiresAt, refresh_token: refreshToken, known: contact.until !== null },
      conversation_id: conversationOf(opened, contact.contact),
    });
  });

  routes.get(`${PATH}/items`, async (c) => {
    const { after, before, limit } = readQuery(c, itemsQuery);
    const visit = await visiting(engine, c);
    if (after > 0) await takeInbox(db, { ...visit, upTo: after, seen: false });
    // The state first: what comes in between is told by the next look.
    const state = await inboxState(db, visit);
    return c.json({
      items: await readInbox(db, { ...visit, afterSeq: after, beforeSeq: before === 0 ? null : before, limit }),
      ...state,
    });
  });

  routes.get(`${PATH}/events`, async (c) => {
    const { after } = readQuery(c, eventsQuery);
    const last = c.req.header("last-event-id") ?? "";
    return inboxEvents(c, engine, await visiting(engine, c), /^\d{1,15}$/.test(last) ? Number(last) : after);
  });

  /** Taken in when it is answered; the same message again is answered alike. */
  routes.post(`${PATH}/messages`, async (c) => {
    const visit = await visiting(engine, c);
    const { client_message_id: clientMessageId, text: said } = await readBody(c, messageCreate);
    const key = { ...visit, clientMessageId };
    if ((await ownItem(db, key)) === undefined) {
      const externalId = `${visit.conversationId}:${clientMessageId}`;
      const event = { kind: "message", externalId, messageId: clientMessageId, text: said, ...fromOf(visit) } as const;
      await receiveInbound(engine, visit.opened, [event]);
    }
    const item = await ownItem(db, key);
    if (item === undefined) throw new EngineError("conflict", "There is a question to be answered first");
    return c.json({ client_message_id: clientMessageId, seq: item.seq, at: item.createdAt });
  });

  for (const [path, seen] of [
    [`${PATH}/received`, false],
    [`${PATH}/read`, true],
  ] as const) {
    routes.post(path, async (c) => {
      const visit = await visiting(engine, c);
      const { up_to: upTo } = await readBody(c, seqBody);
      await takeInbox(db, { ...visit, upTo, seen });
      const { received_seq, read_seq, unread } = await inboxState(db, visit);
      return c.json({ received_seq, read_seq, unread });
    });
  }

  routes.post(`${PATH}/approvals/:approval_id`, async (c) => {
    const visit = await visiting(engine, c);
    const approvalId = pathId<ApprovalId>(c, "approval_id");
    const { decision } = await readBody(c, decisionBody);
    const approval = await getApproval(db, { ...visit, approvalId });
    const isAskedHere = approval !== undefined && (await askingThreads(db, visit)).includes(approval.threadId);
    if (!isAskedHere) throw new EngineError("not_found", `Approval ${approvalId} not found`);
    const told = await receivePress(engine, visit.opened, {
      ...({
        kind: "press",
        reference: null,
        externalId: `${visit.conversationId}:press:${c.get("requestId")}`,
      } as const),
      ...fromOf(visit),
      id: `ap:${approval.interruptId}:${decision === "approve" ? "y" : "n"}`,
    });
    notifier.notify("inbox", visit.conversationId);
    if (told?.refused === true) throw new EngineError("forbidden", told.text);
    return c.json({ message: told?.text ?? "", closed: told?.closed ?? true });
  });

  routes.all("/v1/widget/*", (c) => {
    throw new HTTPException(404, { message: `Nothing is served at ${c.req.method} ${c.req.path}` });
  });
  return routes;
}

async function webAccount(engine: Engine, id: ChannelAccountId): Promise<OpenAccount> {
  const row = await findAccount(engine.deps.db, id);
  if (row?.kind !== "web") throw noAccount(id);
  return engine.accounts.opened(row);
}

async function contactOf(engine: Engine, opened: OpenAccount, body: z.output<typeof sessionCreate>): Promise<Contact> {
  if (body.identity !== undefined) return readIdentity(engine, opened, body.identity);
  if (body.refresh_token !== undefined) return readRefresh(engine, opened, body.refresh_token);
  if (opened.row.settings["anonymous"] !== false) return newVisitor(engine.deps.ids.next<string>());
  throw new HTTPException(401, {
    message: "This account takes only visitors that its server has named: give identity",
  });
}

/** Where the browser is, which may have moved since. */
function saidOf({ time_zone: zone, locale }: z.output<typeof sessionCreate>): Pick<Contact, "locale" | "timeZone"> {
  const timeZone = asTimeZone(zone);
  return { ...(timeZone !== undefined && { timeZone }), ...(locale !== undefined && { locale }) };
}

function fromOf({ contact: { contact, name, locale, timeZone } }: Visiting) {
  const person: Person = {
    id: contact,
    ...(name !== undefined && { name }),
    ...(locale !== undefined && { locale }),
    ...(timeZone !== undefined && { timeZone }),
  };
  return { address: { contact }, person };
}
