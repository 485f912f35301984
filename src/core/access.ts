// Who asks over HTTP, and how much of what there is they reach.
import type { TenantId } from "./ids.js";
import { contains, isObject } from "./json-parts.js";

/** Only what has this in its metadata, as jsonb `@>` means it; null: all of it. */
export type Within = Readonly<Record<string, unknown>> | null;

export type AuthUser = Readonly<{
  identity: string;
  permissions: readonly string[];
  display_name: string;
  is_authenticated: boolean;
  [claim: string]: unknown;
}>;

/** Of a name that a run and a log may carry. */
export const MAX_IDENTITY = 500;

export type Principal = Readonly<{
  tenantId: TenantId;
  user: AuthUser;
  /** What it is held to; null: to no scopes. */
  scopes: readonly string[] | null;
  /** Whether the project's own handlers are asked what it may do. */
  handled: boolean;
  /** Whether what it was let in by opens nothing any more; left out where that doesn't end. */
  isOver?: () => Promise<boolean>;
}>;

/** How graphs are told who asked, in `configurable`. */
export function configuredAs(user: AuthUser | null): Record<string, unknown> {
  if (user === null) return {};
  return {
    langgraph_auth_user: user,
    langgraph_auth_user_id: user.identity,
    langgraph_auth_permissions: user.permissions,
  };
}

/** Who asked for a run. The API puts it there, and lets nobody else. */
export function userIn(configurable: Readonly<Record<string, unknown>> | undefined): AuthUser | null {
  return (configurable?.["langgraph_auth_user"] ?? null) as AuthUser | null;
}

/** What somebody is about to do: `threads:read`. */
export type AccessEvent = `${string}:${string}`;
export type Granted<V> = Readonly<{ within: Within /** As the handler left it. */; value: V }>;

/** Says who asks, and what they may. */
export type Gate = Readonly<{
  /** Rejects when nobody is to be let in: with the status that says why. */
  admit(request: Request): Promise<Principal>;
  /** Rejects when that may not be done at all. A handler may change `value`, which is nobody else's. */
  ask<V extends Readonly<Record<string, unknown>>>(
    principal: Principal,
    event: AccessEvent,
    value: V,
  ): Promise<Granted<V>>;
}>;

/** An `Auth` of the stock client, whichever copy of it made it. */
export type AuthModule = Readonly<{
  "~handlerCache": Readonly<{
    authenticate?: (request: Request) => unknown;
    callbacks?: Readonly<Record<string, (asked: never) => unknown>>;
  }>;
}>;

export function reaches(within: Within, metadata: unknown): boolean {
  return within === null || contains(metadata, within);
}

/** What a run is made with, of who asks for it. */
export type RunAccess = Readonly<{
  /** The threads that it may be made on. */
  within: Within;
  /** The labels of a thread that is made for it. */
  threadMetadata: Readonly<Record<string, unknown>>;
}>;

/** As a statement takes it: `($n::jsonb is null or metadata @> $n)`. */
export function withinParam(within: Within | undefined): string | null {
  return within === undefined || within === null ? null : JSON.stringify(within);
}

/** Both at once; undefined: nothing can be within both. */
export function both(one: Within, other: Within): Within | undefined {
  if (one === null || other === null) return one ?? other;
  const clash = Object.keys(one).some((key) => Object.hasOwn(other, key) && !equal(one[key], other[key]));
  return clash ? undefined : { ...one, ...other };
}

const equal = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/**
 * What a handler's filter lets through: `{owner: "a"}`, `{owner: {$eq: "a"}}`, `{readers: {$contains: "a"}}`. Throws for any other: one that is
 * misunderstood would let through too much.
 */
export function withinOf(filter: Readonly<Record<string, unknown>>): Within {
  const entries = Object.entries(filter).map(([key, wanted]) => [key, partOf(key, wanted)] as const);
  return entries.length === 0 ? null : Object.fromEntries(entries);
}

function partOf(key: string, wanted: unknown): unknown {
  if (isPlain(wanted)) return wanted;
  const [operator, ...more] = isObject(wanted) ? Object.keys(wanted) : [];
  if (isObject(wanted) && more.length === 0) {
    const value = operator === undefined ? undefined : wanted[operator];
    if (operator === "$eq" && isPlain(value)) return value;
    const items = Array.isArray(value) ? value : [value];
    if (operator === "$contains" && items.every(isPlain)) return items;
  }
  throw new TypeError(`the filter's ${JSON.stringify(key)} must be a plain value, {$eq} or {$contains}`);
}

function isPlain(value: unknown): boolean {
  return typeof value === "string" || typeof value === "boolean" || value === null || Number.isFinite(value);
}
