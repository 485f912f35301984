// What a route asks before it does something: whether its caller may, and how much of what there is the caller reaches.
import type { Context } from "hono";
import type { z } from "zod";
import type { AccessEvent, AuthUser, Granted, Within } from "../../core/access.js";
import { EngineError } from "../../core/errors.js";
import type { Engine } from "../../engine/engine.js";
import type { ApiEnv } from "../env.js";
import { readBody } from "../request.js";
import { unauthorized } from "./refusal.js";

type C = Context<ApiEnv>;
type Fields = Readonly<Record<string, unknown>>;

/** Rejects when its caller may not. Where everybody is let in, everybody may. */
export async function ask<V extends Fields>({ gate }: Engine, c: C, event: AccessEvent, value: V): Promise<Granted<V>> {
  if (gate === null) return { within: null, value };
  const principal = c.get("principal");
  if (principal === undefined) throw unauthorized("Not authenticated");
  return gate.ask(principal, event, value);
}

/** Whether a handler may change what a request says. */
export function isHandled({ gate }: Engine, c: C): boolean {
  return gate !== null && c.get("principal")?.handled !== false;
}

/** Who asks, for runs; null where everybody is let in. */
export function userOf(c: C): AuthUser | null {
  return c.get("principal")?.user ?? null;
}

export type AskedBody<S extends z.ZodType> = Readonly<{ body: z.output<S>; within: Within }>;

/** The request's body, asked for and as the handler left it; `ids` are of the path, and are told to the handler beside it. */
export async function readAsked<S extends z.ZodObject>(
  engine: Engine,
  c: C,
  schema: S,
  event: AccessEvent,
  ids: Fields = {},
): Promise<AskedBody<S>> {
  const body = await readBody(c, schema);
  if (!isHandled(engine, c)) return { body, within: (await ask(engine, c, event, {})).within };
  const sent = withMetadata(structuredClone(c.get("body") as Fields), schema);
  const { within, value } = await ask(engine, c, event, { ...sent, ...ids });
  const kept = Object.entries(value).filter(([key]) => !Object.hasOwn(ids, key));
  return { body: asLeft(schema, Object.fromEntries(kept), event), within };
}

/** Handlers put their labels into it. */
function withMetadata(sent: Fields, { shape }: z.ZodObject): Fields {
  return Object.hasOwn(shape, "metadata") ? { ...sent, metadata: sent["metadata"] ?? {} } : sent;
}

/** What a handler has made of it is no mistake of the client's. */
export function asLeft<S extends z.ZodType>(schema: S, value: unknown, event: AccessEvent): z.output<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const what = `${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""}`;
  throw new EngineError("internal", `The handler of ${event} left a request that can't be meant: ${what}`);
}
