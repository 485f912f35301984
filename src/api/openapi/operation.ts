// What an operation of the API takes and gives, for its description. The schemas are those that the routes read requests with.
import type { z } from "zod";

export type Answer =
  /** JSON. */
  | "json"
  /** Server-sent events. */
  | "events"
  /** Nothing: 204. */
  | "nothing"
  | "text"
  | "html"
  | "script"
  /** The connection becomes a WebSocket. */
  | "socket";

export type Operation = Readonly<{
  summary: string;
  body?: z.ZodType;
  /** The body is a list of such. */
  bodies?: z.ZodType;
  query?: z.ZodObject;
  answer: Answer;
}>;

/** By method and path, as the routes have it: `POST /threads/:thread_id/runs`. */
export type Operations = Readonly<Record<string, Operation>>;

/** One that answers with JSON unless it says otherwise. */
export function op(
  summary: string,
  takes: Omit<Operation, "summary" | "answer"> & { answer?: Answer } = {},
): Operation {
  return { answer: "json", ...takes, summary };
}
