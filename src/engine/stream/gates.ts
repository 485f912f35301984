// What goes out for a chunk of a graph's stream, and what must be durable before a client may see it.
import { renderText } from "../render.js";

/** An event of the wire; `json` is the text of its data. */
export type StreamEvent = Readonly<{ event: string; json: string }>;

/**
 * now: nothing depends on it, tokens and custom events.
 * step: what it shows was handed to the saver before it came; it must be flushed.
 * tasks: it comes from inside tasks whose results aren't handed over yet; all of them must be done (or the one that
 * answers `toolCallId`) and flushed. With none named: the end of the stream.
 * settle: a question or an error: shown by the transaction that makes it answerable.
 */
export type Gate =
  | Readonly<{ kind: "now" | "step" | "settle" }>
  | Readonly<{ kind: "tasks"; tasks: readonly string[]; toolCallId?: string }>;

/** An event to forward, or the news that a task's result has been handed to the saver. */
export type Outgoing =
  | Readonly<{ kind: "event"; event: StreamEvent; gate: Gate }>
  | Readonly<{ kind: "task_done"; taskId: string; toolCallIds: readonly string[] }>;

export const NOW: Gate = { kind: "now" };
export const STEP: Gate = { kind: "step" };
export const SETTLE: Gate = { kind: "settle" };

export function outgoingEvent(name: string, data: unknown, gate: Gate): Outgoing {
  return { kind: "event", event: { event: name, json: renderText(data) }, gate };
}
