// What all WebSockets of ours do alike.
import type { Context } from "hono";
import type { ApiEnv } from "./env.js";

/** 4000 and the status that HTTP has for it. */
const REFUSED = 4_000;
/** Of a close frame's reason: it has 123 bytes. */
const MOST_CHARACTERS = 100;

export function asksForSocket(c: Context<ApiEnv>): boolean {
  return c.req.header("upgrade")?.toLowerCase() === "websocket" && c.env !== undefined;
}

/** Closes one after it was opened, since browsers can't tell why one wasn't. */
export function refuseSocket(
  socket: Readonly<{ close(code: number, reason: string): void }>,
  status: number,
  message: string,
): void {
  socket.close(REFUSED + status, message.slice(0, MOST_CHARACTERS));
}
