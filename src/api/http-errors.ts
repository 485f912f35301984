// The only table from error codes to statuses, and the form of an error on the wire: plain text, as stock JS clients
// expect (`HTTP 404: Assistant not found`), or JSON with `detail` for who asks for JSON.
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { Log } from "../core/deps.js";
import { EngineError, type ErrorCode, isEngineError } from "../core/errors.js";
import { isTransientDbError } from "../core/retry.js";
import { stackFrames } from "../observe/frames.js";
import type { ApiEnv } from "./env.js";

const STATUS: Readonly<Record<ErrorCode, ContentfulStatusCode>> = {
  bad_request: 422,
  value_unsupported: 422,
  not_found: 404,
  conflict: 409,
  thread_busy: 409,
  not_pending: 409,
  more_votes_needed: 409,
  forbidden: 403,
  lease_lost: 409,
  effect_conflict: 409,
  effect_unknown: 409,
  effect_refused: 409,
  embedding_failed: 502,
  unavailable: 503,
  schema_newer: 503,
  graph_changed: 409,
  assistant_changed: 409,
  graph_invalid: 500,
  config_invalid: 500,
  // What was asked for was there once, and asking again won't bring it back.
  body_missing: 410,
  body_corrupt: 410,
  expired: 410,
  internal: 500,
};

export function statusOf({ code }: EngineError): number {
  return STATUS[code];
}

export function nothingServed(c: Context): HTTPException {
  return new HTTPException(404, { message: `Nothing is served at ${c.req.method} ${c.req.path}` });
}

/** Answers an error. Anything that isn't an error with a code is a broken promise of ours: logged by name, never shown. */
export function errorResponse(error: unknown, c: Context<ApiEnv>, log: Log): Response {
  if (error instanceof HTTPException) {
    for (const [name, value] of error.res?.headers ?? []) c.header(name, value);
    if (error.status === 401 && error.res === undefined) c.header("WWW-Authenticate", "Bearer");
    return wire(c, error.status, error.message, "http", {});
  }
  const known = asEngineError(error);
  if (concernsOperators(known)) logFailure(log, c, error, known);
  if (known === undefined) {
    const message = `Internal error; the log has it under request id ${c.get("requestId")}`;
    return wire(c, 500, message, "internal", {});
  }
  if (known.code === "unavailable") c.header("Retry-After", "1");
  return wire(c, STATUS[known.code], known.message, known.code, known.details);
}

/** Not what has expired: any client may ask for it at any time. A body that is lost does, whoever finds out. */
function concernsOperators(known: EngineError | undefined): boolean {
  if (known === undefined) return true;
  const status = STATUS[known.code];
  return known.code !== "expired" && (status >= 500 || status === 410);
}

/** The error as the caller sees it, or undefined when it is none for callers. Where our parts are is no business of theirs. */
export function asEngineError(error: unknown): EngineError | undefined {
  if (isTransientDbError(error)) {
    const message = "Postgres or the object store can't be reached now; try again";
    return new EngineError("unavailable", message, { cause: error });
  }
  return isEngineError(error) ? error : undefined;
}

function wire(
  c: Context<ApiEnv>,
  status: ContentfulStatusCode,
  message: string,
  code: string,
  details: Readonly<Record<string, unknown>>,
): Response {
  if (!wantsJson(c.req.header("accept"))) return c.text(message, status);
  const known = Object.keys(details).length > 0 ? { details } : {};
  return c.json({ detail: message, code, ...known }, status);
}

/** The JS client sends no Accept of its own (`*` from fetch) and matches on the text. */
function wantsJson(accept: string | undefined): boolean {
  return accept?.toLowerCase().includes("application/json") ?? false;
}

/** Messages of unknown errors may quote content, so only the name and the frames of the stack are logged. */
export function logFailure(log: Log, c: Context<ApiEnv>, error: unknown, known: EngineError | undefined): void {
  const fields = {
    requestId: c.get("requestId"),
    method: c.req.method,
    route: c.req.routePath,
    code: known?.code ?? "internal",
    error: error instanceof Error ? error.name : typeof error,
    sqlstate: sqlstate(error),
    reason: isEngineError(error) ? error.message : undefined,
    frames: stackFrames(error),
  };
  if (known?.code === "unavailable") log.warn(fields, "request refused: a part is away");
  else log.error(fields, "request failed");
}

function sqlstate(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}
