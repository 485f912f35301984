// How somebody isn't let in, or not that far. A WebSocket is opened first: browsers can't tell why one wasn't.
import { upgradeWebSocket } from "@hono/node-server";
import type { Context, MiddlewareHandler } from "hono";
import { HTTPException } from "hono/http-exception";
import { isEngineError } from "../../core/errors.js";
import type { ApiEnv } from "../env.js";
import { asEngineError, statusOf } from "../http-errors.js";

type C = Context<ApiEnv>;

/** 4000 and the status that HTTP has for it. */
const REFUSED = 4_000;
const MOST_CHARACTERS = 100;

export function unauthorized(message: string): HTTPException {
  return new HTTPException(401, { message });
}

export function forbidden(message: string): HTTPException {
  return new HTTPException(403, { message });
}

/** Goes on when `check` finds nothing against it. */
export function unlessRefused(check: (c: C) => Promise<void>): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    try {
      await check(c);
    } catch (error) {
      if (!asksForSocket(c)) throw error;
      return refuseSocket(c, error);
    }
    return next();
  };
}

/** The same for a run's stream: stock clients read as its only event why they see nothing of it. */
export function unlessToldInStream(check: (c: C) => Promise<void>): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    try {
      await check(c);
    } catch (error) {
      if (!isEngineError(error, "not_found")) throw error;
      const told = { error: error.code, message: `${statusOf(error)}: ${error.message}` };
      const headers = { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" };
      return c.body(`event: error\ndata: ${JSON.stringify(told)}\n\n`, 200, headers);
    }
    return next();
  };
}

function asksForSocket(c: C): boolean {
  return c.req.header("upgrade")?.toLowerCase() === "websocket" && c.env !== undefined;
}

function refuseSocket(c: C, error: unknown) {
  const { status, message } = told(error);
  if (status === undefined) throw error;
  const refuse = upgradeWebSocket(() => ({
    onOpen: (_event, socket) => socket.close(REFUSED + status, message.slice(0, MOST_CHARACTERS)),
  }));
  return refuse(c, () => Promise.reject(error));
}

function told(error: unknown): Readonly<{ status?: number; message: string }> {
  if (error instanceof HTTPException) return error;
  const known = asEngineError(error);
  return known === undefined ? { message: "" } : { status: statusOf(known), message: known.message };
}
