// What holds for every request of the widget: pages of which origins may speak to us, how much they may say, and whose conversation it
// is. An origin is told that it may as it was sent, never as `*`, and no cookie is ever asked for.
import type { Context, MiddlewareHandler } from "hono";
import { HTTPException } from "hono/http-exception";
import { EngineError } from "../../core/errors.js";
import type { ConversationId, TenantId } from "../../core/ids.js";
import { isOriginKnown } from "../../delivery/accounts.js";
import type { OpenAccount } from "../../engine/channel-accounts.js";
import type { Engine } from "../../engine/engine.js";
import type { ApiEnv } from "../env.js";
import { pathId } from "../request.js";
import { bearerOf, readSession, type Visit } from "./tokens.js";

const MAX_BODY_BYTES = 64 * 1024;
const PREFLIGHT_S = 7_200;

export function widgetCors(engine: Engine): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    c.header("Vary", "Origin");
    const origin = c.req.header("origin");
    const known = origin !== undefined && (await isOriginKnown(engine.deps.db, origin));
    if (known) {
      c.header("Access-Control-Allow-Origin", origin);
      c.header("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    }
    if (c.req.method !== "OPTIONS") return next();
    if (known) {
      c.header("Access-Control-Allow-Methods", "GET, POST");
      c.header("Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID");
      c.header("Access-Control-Max-Age", String(PREFLIGHT_S));
    }
    return c.body(null, 204);
  };
}

/** Anybody on the internet may send this, so its size is known before it is read. */
export const smallBodies: MiddlewareHandler<ApiEnv> = async (c, next) => {
  if (c.req.method === "POST") {
    const length = c.req.header("content-length");
    if (length === undefined) throw new HTTPException(411, { message: "Content-Length is missing" });
    if (Number(length) > MAX_BODY_BYTES) {
      throw new HTTPException(413, { message: `The request body is larger than ${MAX_BODY_BYTES} bytes` });
    }
  }
  await next();
};

/** Throws `forbidden` unless pages of that origin may speak to the account, and it is open. */
export function refuseOrigin({ row }: OpenAccount, origin: string | undefined): void {
  const allowed = row.settings["allowed_origins"] as readonly string[];
  if (origin === undefined || !allowed.includes(origin)) {
    throw new EngineError("forbidden", "Pages of this origin may not use this account: see settings.allowed_origins");
  }
  if (row.status === "paused") throw new EngineError("forbidden", "This account is paused");
}

/** A visit to the conversation that it is of. */
export type Visiting = Visit & Readonly<{ tenantId: TenantId; conversationId: ConversationId }>;

/** Throws 401 without a session, 403 for another page than the session was made for, and 404 for all other conversations. */
export async function visiting(engine: Engine, c: Context<ApiEnv>): Promise<Visiting> {
  const visit = await readSession(engine, bearerOf(c.req.header("authorization")));
  const { opened, contact, origin } = visit;
  // Browsers leave it out where page and API are one origin; what else leaves it out needs no page to be let in by.
  const from = c.req.header("origin") ?? origin;
  if (from !== origin) throw new EngineError("forbidden", "This session was made for another origin");
  refuseOrigin(opened, from);
  const conversationId = conversationOf(opened, contact.contact);
  const asked = pathId<ConversationId>(c, "conversation_id");
  if (asked !== conversationId) throw new EngineError("not_found", `Conversation ${asked} not found`);
  return { ...visit, tenantId: opened.row.tenantId, conversationId };
}

/** A contact has one with each account, and it is called so before it has begun. */
export function conversationOf({ adapter, row }: OpenAccount, contact: string): ConversationId {
  const id = adapter.conversationId?.({ ...row, addressKey: adapter.addressKey({ contact }) });
  if (id === undefined) throw new EngineError("internal", `conversations of kind ${row.kind} have no ids of their own`);
  return id;
}
