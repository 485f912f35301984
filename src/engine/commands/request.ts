// What a client asked for, as a run keeps it: everything here is content and is stored as one body.

import type { ThreadId } from "../../core/ids.js";

/** A run request after the door parsed it; the names are the wire's. */
export type RunRequest = Readonly<{
  input: unknown;
  command: RunCommand | null;
  config: RunConfig;
  context: Readonly<Record<string, unknown>> | null;
  checkpoint: CheckpointRef | null;
  interrupt_before: "*" | readonly string[] | null;
  interrupt_after: "*" | readonly string[] | null;
  stream_mode: readonly string[];
  stream_subgraphs: boolean;
  /** Somebody may look at the stream while it runs: false for who waits for the end. */
  watched: boolean;
  /** Where what was said until then is, for a run on a thread that has nothing yet; the engine's own. */
  begins_from?: ThreadId;
  /** Messages that are added to the state, and nothing else is done; the engine's own. */
  append?: Readonly<{ messages: readonly Readonly<Record<string, unknown>>[] }>;
}>;

export type RunCommand = Readonly<{
  resume?: unknown;
  update?: unknown;
  goto?: unknown;
  /** What is left to do, open questions among it, is done with first, as if its nodes had ended without a word. */
  ends_tasks?: boolean;
}>;
export type RunConfig = Readonly<{
  tags?: readonly string[];
  recursion_limit?: number;
  configurable?: Readonly<Record<string, unknown>>;
}>;
export type CheckpointRef = Readonly<{
  checkpoint_id?: string;
  checkpoint_ns?: string;
  checkpoint_map?: Readonly<Record<string, string>> | null;
}>;

const INTERRUPT_ID = /^[0-9a-f]{32}$/;

/** The answers of a resume value that names its questions by interrupt id, or undefined when it is one plain value. */
export function resumeMapOf(resume: unknown): Readonly<Record<string, unknown>> | undefined {
  if (resume === null || typeof resume !== "object" || Array.isArray(resume)) return undefined;
  const ids = Object.keys(resume);
  return ids.length > 0 && ids.every((id) => INTERRUPT_ID.test(id)) ? (resume as Record<string, unknown>) : undefined;
}

const PLAIN_DECISIONS = new Set(["yes", "no", "approve", "reject", "edit", "accept", "ignore", "response", "respond"]);

/** What was decided, in words that hold no content: decision types, booleans, the usual words; else null. */
export function decisionWord(answer: unknown): string | null {
  if (typeof answer === "boolean") return String(answer);
  if (typeof answer === "string") return PLAIN_DECISIONS.has(answer.toLowerCase()) ? answer.toLowerCase() : null;
  if (answer === null || typeof answer !== "object") return null;
  const { decisions, type } = answer as { decisions?: unknown; type?: unknown };
  if (typeof type === "string") return decisionWord(type);
  if (!Array.isArray(decisions)) return null;
  const words = decisions.map((d) => decisionWord(d));
  return words.every((w) => w !== null) ? words.join(", ") : null;
}

export function encodeRequest(request: RunRequest): Buffer {
  return Buffer.from(JSON.stringify(request), "utf8");
}

/** The request as it was stored; only ever read back from what `encodeRequest` wrote. */
export function decodeRequest(json: unknown): RunRequest {
  return json as RunRequest;
}
