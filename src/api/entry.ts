// What let somebody in may end while a stream is open: it is looked at again and again, and the stream with it.
import type { Context } from "hono";
import type { ApiEnv } from "./env.js";

/** With the seconds for which keys are remembered, the longest that a stream outlives its key. */
const LOOK_MS = 5_000;

export const ENTRY_OVER = {
  code: "unauthorized",
  status: 401,
  message: "Not authenticated any more: the key or token that opened this is over",
} as const;

/** Whether what let the caller in opens nothing any more. */
export async function isEntryOver(c: Context<ApiEnv>): Promise<boolean> {
  return (await c.get("principal")?.isOver?.()) ?? false;
}

/** Calls `onOver` once when it is over; to be stopped. While that can't be found out, nothing is over. */
export function watchEntry(c: Context<ApiEnv>, onOver: () => void): () => void {
  if (c.get("principal")?.isOver === undefined) return () => undefined;
  const look = async (): Promise<void> => {
    if (!(await isEntryOver(c).catch(() => false))) return;
    clearInterval(timer);
    onOver();
  };
  const timer = setInterval(() => void look(), LOOK_MS);
  timer.unref();
  return () => clearInterval(timer);
}
