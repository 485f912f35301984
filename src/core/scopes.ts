// Scopes: what a key or a token may do, as `resource:action`, `resource`, `*:action` or `*`.
import type { AccessEvent } from "./access.js";
import { nearest } from "./nearest.js";

const WHOLE = ["create", "read", "update", "delete", "search"] as const;
const SETTINGS = ["read", "update"] as const;

/** What stock clients know, with its events as the stock `Auth` has them. */
const STOCK = {
  threads: [...WHOLE, "create_run"],
  assistants: WHOLE,
  crons: WHOLE,
  store: ["put", "get", "search", "list_namespaces", "delete"],
} as const;
/** What only perdure has and belongs to no thread: who runs an installation has to do with it. */
const OWN = {
  budgets: SETTINGS,
  prices: SETTINGS,
  channel_accounts: SETTINGS,
  conversations: SETTINGS,
  contacts: SETTINGS,
  suppressions: SETTINGS,
  schedules: SETTINGS,
  metrics: ["read"],
} as const;

export type OwnResource = keyof typeof OWN;

const ACTIONS: ReadonlyMap<string, readonly string[]> = new Map(Object.entries({ ...STOCK, ...OWN }));
const EVERY_ACTION: readonly string[] = [...new Set([...ACTIONS.values()].flat())];

/** Whether it is for operators: allowed only where something names it. */
export function isOwn(event: AccessEvent): boolean {
  return Object.hasOwn(OWN, resourceOf(event));
}

export function resourceOf(event: AccessEvent): string {
  return event.slice(0, event.indexOf(":"));
}

/** A thing that names an event, the nearest first: `threads:read`, `threads`, `*:read`, `*`. */
export function namesOf(event: AccessEvent): readonly string[] {
  const [resource = "", action = ""] = event.split(":");
  return [event, resource, `*:${action}`, "*"];
}

export function mayDo(scopes: readonly string[], event: AccessEvent): boolean {
  return namesOf(event).some((name) => scopes.includes(name));
}

/** Why this is no scope; undefined: it is one. */
export function scopeProblem(scope: string): string | undefined {
  if (scope === "*") return undefined;
  const [resource = "", action, ...more] = scope.split(":");
  const resources = [...ACTIONS.keys()];
  const actions = resource === "*" ? EVERY_ACTION : ACTIONS.get(resource);
  if (more.length > 0 || actions === undefined) return unknown(scope, resource, resources);
  if (action === undefined || actions.includes(action)) return undefined;
  return unknown(scope, action, actions);
}

function unknown(scope: string, part: string, right: readonly string[]): string {
  const guess = nearest(part, right);
  const hint = guess === null ? `there is ${right.join(", ")}` : `did you mean "${guess}"?`;
  return `${JSON.stringify(scope)} is no scope: it is written "*", "threads" or "threads:read"; ${hint}`;
}
