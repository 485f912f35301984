// Messages that come in a burst on a thread are one run's input. The first opens a window; what comes within it and asks for the same
// but with other messages joins its run, in the order of acceptance, in the transaction that accepts it. Nothing waits in a process:
// the run is a row, its window a timer.
import { canonicalSha256 } from "../../core/canonical.js";
import type { Sql } from "../../core/deps.js";
import { appendEvent } from "../../runs/events.js";
import { lockWaitingRun, mergeIntoRun } from "../../runs/merge.js";
import type { RunRow } from "../../runs/runs.js";
import type { LockedThread } from "../../runs/thread-lock.js";
import type { CreateRunInput } from "./create-run.js";
import { mergeRequest, metadataOf, priorityOf } from "./layers.js";
import { decodeRequest, encodeRequest, type RunRequest } from "./request.js";

/** More are a run of their own: each that joins writes all of them again. */
const MAX_REQUESTS = 100;

/** How long the run of this request waits for more messages; 0: not at all, since its graph has no window or it is something else than a message. */
export function mergeWindowOf(input: CreateRunInput): number {
  const delayed = input.afterSeconds !== null && input.afterSeconds > 0;
  if (input.mergeWindowMs === 0 || input.threadId === null || delayed || wantsItself(input)) return 0;
  return messagesOf(input.request) === null ? 0 : input.mergeWindowMs;
}

/** Who is told of its end is told of this run, and not of what others asked with it. */
const wantsItself = ({ webhook }: CreateRunInput): boolean => (webhook ?? null) !== null;

/** The run that has taken the request's messages in; undefined when it needs one of its own. The thread must be locked. */
export async function joinWaitingRun(
  sql: Sql,
  input: CreateRunInput,
  thread: LockedThread,
): Promise<RunRow | undefined> {
  // The other strategies say what becomes of the run that waits.
  if (input.multitaskStrategy !== "enqueue" || mergeWindowOf(input) === 0) return undefined;
  const waiting = await lockWaitingRun(sql, thread);
  if (waiting === undefined || waiting.request === null || waiting.merged + 1 >= MAX_REQUESTS) return undefined;
  const isSame =
    waiting.assistantId === input.assistant.assistantId &&
    waiting.conversationId === input.conversationId &&
    isEqual(waiting.metadata, metadataOf(input, thread));
  const before = decodeRequest(JSON.parse(waiting.request.toString("utf8")));
  const merged = isSame ? withMessages(before, mergeRequest(input.request, input, thread)) : null;
  if (merged === null) return undefined;
  const run = await mergeIntoRun(sql, { ...waiting, request: encodeRequest(merged), priority: priorityOf(input) });
  if (run === undefined) return undefined;
  const payload = { messages: (messagesOf(input.request) ?? []).length, requests: run.merged + 1 };
  await appendEvent(sql, run, { type: "run.merged", attempt: 0, payload });
  return run;
}

/** What a run is asked, with the messages of another request after its own; null when they differ in more than that. */
function withMessages(before: RunRequest, next: RunRequest): RunRequest | null {
  const [first, more] = [messagesOf(before), messagesOf(next)];
  if (first === null || more === null || !isEqual(comparable(before), comparable(next))) return null;
  return {
    ...next,
    input: { ...(next.input as object), messages: [...first, ...more] },
    watched: before.watched || next.watched,
  };
}

/** The messages of a request that brings nothing but an input; null when it is no such request. */
function messagesOf({ input, command, checkpoint }: RunRequest): readonly unknown[] | null {
  if (command !== null || checkpoint !== null || typeof input !== "object" || input === null) return null;
  const { messages } = input as Readonly<{ messages?: unknown }>;
  if (messages === undefined || messages === null) return null;
  return Array.isArray(messages) ? messages : [messages];
}

/** What must be equal. Headers are as different as the ways that requests come. */
function comparable(request: RunRequest): unknown {
  const configurable = Object.entries(request.config.configurable ?? {}).filter(
    ([key]) => !/^(x-|user-agent$)/.test(key),
  );
  return {
    ...request,
    input: { ...(request.input as object), messages: [] },
    config: { ...request.config, configurable: Object.fromEntries(configurable) },
    watched: true,
  };
}

function isEqual(a: unknown, b: unknown): boolean {
  return canonicalSha256(a).equals(canonicalSha256(b));
}
