// Who a browser speaks for. Nothing is stored for it: a visitor is what a token says that was signed with the account's secret, and a
// customer is whom the tenant's own server has named with a token of its own.
import { hkdfSync } from "node:crypto";
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify, SignJWT } from "jose";
import { HTTPException } from "hono/http-exception";
import { EngineError } from "../../core/errors.js";
import { asTimeZone } from "../../core/time-zone.js";
import { type ChannelAccountId, isUuid } from "../../core/ids.js";
import { findAccount } from "../../delivery/accounts.js";
import type { OpenAccount } from "../../engine/channel-accounts.js";
import { databaseNow } from "../../engine/database-now.js";
import type { Engine } from "../../engine/engine.js";

/** `contact` is the tenant's name for a customer, or one that was made up for a visitor. */
export type Contact = Readonly<{
  contact: string;
  name?: string | undefined;
  locale?: string | undefined;
  timeZone?: string | undefined;
  /** Nobody vouches for them any longer than that; null: for a visitor. */
  until: Date | null;
}>;

/** A session as it was when it was looked at. */
export type Visit = Readonly<{ opened: OpenAccount; contact: Contact; origin: string; now: Date; expiresAt: Date }>;

const ISSUER = "perdure";
const SESSION_MS = 15 * 60_000;
/** How long somebody who doesn't come finds their conversation again. */
const REFRESH_MS = 180 * 24 * 60 * 60_000;
const VISITOR = "visitor:";

export type Tokens = Readonly<{ token: string; expiresAt: Date; refreshToken: string }>;

export async function signTokens(opened: OpenAccount, contact: Contact, origin: string, now: Date): Promise<Tokens> {
  const until = contact.until?.getTime() ?? Number.POSITIVE_INFINITY;
  const expiresAt = new Date(Math.min(now.getTime() + SESSION_MS, until));
  const claims = {
    ...{ name: contact.name, locale: contact.locale, zoneinfo: contact.timeZone },
    ...(contact.until !== null && { until: seconds(contact.until) }),
  };
  const sign = (use: Use, more: JWTPayload, expires: Date) =>
    new SignJWT({ ...claims, ...more })
      .setProtectedHeader({ alg: "HS256", kid: opened.row.channelAccountId })
      .setIssuer(ISSUER)
      .setAudience(use)
      .setSubject(contact.contact)
      .setIssuedAt(seconds(now))
      .setExpirationTime(seconds(expires))
      .sign(keyFor(opened, use));
  return {
    token: await sign("session", { origin }, expiresAt),
    expiresAt,
    refreshToken: await sign("refresh", {}, new Date(Math.min(now.getTime() + REFRESH_MS, until))),
  };
}

type Use = "session" | "refresh";

const seconds = (at: Date): number => Math.floor(at.getTime() / 1_000);

/** One for each use: none can stand for the other. */
function keyFor({ account, row }: OpenAccount, use: Use): Uint8Array {
  const secret = account.credentials["webhook_secret"] ?? "";
  return new Uint8Array(hkdfSync("sha256", secret, row.channelAccountId, `perdure widget ${use}`, 32));
}

/** Who somebody is whom nobody has named. */
export function newVisitor(id: string): Contact {
  return { contact: `${VISITOR}${id}`, until: null };
}

/** Throws 401 for what isn't a session of ours, or is over. */
export async function readSession(engine: Engine, token: string): Promise<Visit> {
  const opened = await accountOf(engine, token);
  const { payload, now } = await verified(engine, token, keyFor(opened, "session"), "session");
  return {
    ...{ opened, now },
    contact: contactIn(payload),
    origin: String(payload["origin"]),
    expiresAt: new Date((payload.exp ?? 0) * 1_000),
  };
}

/** Throws 401 for what isn't of this account, or is over. */
export async function readRefresh(engine: Engine, opened: OpenAccount, token: string): Promise<Contact> {
  return contactIn((await verified(engine, token, keyFor(opened, "refresh"), "refresh")).payload);
}

/** What the tenant's server says of its customer: `sub`, `exp`, and if it likes `name`, `locale` and `zoneinfo`. */
export async function readIdentity(engine: Engine, opened: OpenAccount, token: string): Promise<Contact> {
  const secret = opened.account.credentials["identity_secret"];
  if (secret === undefined) {
    throw new EngineError("bad_request", "identity: this account has no credentials.identity_secret to check it with");
  }
  const { payload } = await verified(engine, token, new TextEncoder().encode(secret), null);
  const { sub = "", exp = 0 } = payload;
  if (sub === "" || sub.length > 200 || sub.startsWith(VISITOR) || sub.includes("\0")) throw unauthorized();
  return contactIn({ ...payload, until: exp });
}

function contactIn(payload: JWTPayload): Contact {
  const text = (name: string) => (typeof payload[name] === "string" ? payload[name].slice(0, 200) : undefined);
  return {
    contact: payload.sub ?? "",
    ...{ name: text("name"), locale: text("locale"), timeZone: asTimeZone(text("zoneinfo")) },
    until: typeof payload["until"] === "number" ? new Date(payload["until"] * 1_000) : null,
  };
}

async function accountOf(engine: Engine, token: string): Promise<OpenAccount> {
  const kid = headerOf(token).kid ?? "";
  const row = isUuid(kid) ? await findAccount(engine.deps.db, kid as ChannelAccountId) : undefined;
  if (row?.kind !== "web") throw unauthorized();
  return engine.accounts.opened(row);
}

function headerOf(token: string): Readonly<{ kid?: string }> {
  try {
    return decodeProtectedHeader(token);
  } catch {
    throw unauthorized();
  }
}

type Verified = Readonly<{ payload: JWTPayload; now: Date }>;

async function verified(engine: Engine, token: string, key: Uint8Array, use: Use | null): Promise<Verified> {
  const now = await databaseNow(engine.deps.db);
  const ours = use === null ? {} : { issuer: ISSUER, audience: use };
  try {
    const options = { algorithms: ["HS256"], requiredClaims: ["sub", "exp"], currentDate: now, ...ours };
    return { now, payload: (await jwtVerify(token, key, options)).payload };
  } catch (error) {
    if (error instanceof errors.JOSEError) throw unauthorized();
    throw error;
  }
}

function unauthorized(): HTTPException {
  return new HTTPException(401, { message: "The token is missing, over, or not for this: make a new session" });
}

export function bearerOf(authorization: string | undefined): string {
  const token = /^Bearer (\S+)$/i.exec(authorization ?? "")?.[1];
  if (token === undefined) throw unauthorized();
  return token;
}
