// The Idempotency-Key header: whose key it is, for which request.
import type { Context } from "hono";
import { canonicalSha256 } from "../core/canonical.js";
import { EngineError } from "../core/errors.js";
import type { Engine } from "../engine/engine.js";
import type { Once } from "../engine/commands/make-once.js";
import { callerOf } from "./caller.js";
import type { ApiEnv } from "./env.js";

const MAX_KEY_CHARACTERS = 255;
/** Answers that make nothing new say so. */
export const REPLAYED_HEADER = "Idempotent-Replayed";

/**
 * The request's key, once its body was read; null without one. `asked`: what it is for, where that isn't the whole body. Throws
 * `bad_request` for a key that can't be meant.
 */
export function onceOf(engine: Engine, c: Context<ApiEnv>, asked: unknown = c.get("body") ?? {}): Once | null {
  const name = c.req.header("idempotency-key");
  if (name === undefined) return null;
  if (name.trim() === "" || name.length > MAX_KEY_CHARACTERS) {
    throw new EngineError("bad_request", `Idempotency-Key: must have 1 to ${MAX_KEY_CHARACTERS} characters`);
  }
  return {
    tenantId: c.get("tenantId"),
    keySha256: canonicalSha256([...whoAndWhere(engine, c), name]),
    requestSha256: canonicalSha256(asked),
    name,
  };
}

/** What makes a message known when it comes again: its own id, beside what it says, since who sends it may be careless with ids. */
export function onceSaid(engine: Engine, c: Context<ApiEnv>, name: string, said: unknown): Once {
  const requestSha256 = canonicalSha256(said);
  const keySha256 = canonicalSha256([...whoAndWhere(engine, c), name, requestSha256.toString("hex")]);
  return { tenantId: c.get("tenantId"), keySha256, requestSha256, name };
}

function whoAndWhere(engine: Engine, c: Context<ApiEnv>): unknown[] {
  const { person } = callerOf(engine, c);
  const identity = c.get("principal")?.user.identity;
  const whose = identity === undefined || identity === person ? person : [identity, person];
  return [whose, c.req.method, c.req.path.toLowerCase().replace(/\/$/, "")];
}

export function markReplayed(c: Context<ApiEnv>): void {
  c.header(REPLAYED_HEADER, "true");
}
