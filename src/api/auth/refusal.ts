// How somebody isn't let in, or not that far. A WebSocket is opened first: browsers can't tell why one wasn't.
import { upgradeWebSocket } from "@hono/node-server";
import type { Context, MiddlewareHandler } from "hono";
import { HTTPException } from "hono/http-exception";
import { isEngineError } from "../../core/errors.js";
import type { ApiEnv } from "../env.js";
import { asEngineError, statusOf } from "../http-errors.js";
import { errorFrame, streamEvents } from "../node-http.js";
import { asksForSocket, refuseSocket } from "../sockets.js";

type C = Context<ApiEnv>;

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
      return openAndRefuse(c, error);
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
      const told = errorFrame(error.code, `${statusOf(error)}: ${error.message}`);
      return streamEvents(c, (body) => body.write(told));
    }
    return next();
  };
}

function openAndRefuse(c: C, error: unknown) {
  const { status, message } = told(error);
  if (status === undefined) throw error;
  const refuse = upgradeWebSocket(() => ({
    onOpen: (_event, socket) => refuseSocket(socket, status, message),
  }));
  return refuse(c, () => Promise.reject(error));
}

function told(error: unknown): Readonly<{ status?: number; message: string }> {
  if (error instanceof HTTPException) return error;
  const known = asEngineError(error);
  return known === undefined ? { message: "" } : { status: statusOf(known), message: known.message };
}
