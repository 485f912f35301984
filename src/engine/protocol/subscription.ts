// What a client of the thread protocol wants to see: channels, and namespaces down to a depth.
import { isPrefixMatch } from "@langchain/langgraph/stream";
import { reaches, type Within } from "../../core/access.js";
import type { RunId, TenantId, ThreadId } from "../../core/ids.js";
import type { RunRow } from "../../runs/runs.js";
import { getThread } from "../../runs/threads.js";
import { threadNotFound } from "../commands/patch-thread.js";
import type { Engine } from "../engine.js";
import { followThread, type ThreadItem } from "../stream/follow-thread.js";
import { readStream } from "../stream/reader.js";
import { createRunEvents, type ProtocolEvent, type RunEvents } from "./events.js";

export type Subscription = Readonly<{
  channels: readonly string[];
  namespaces?: readonly (readonly string[])[] | undefined;
  depth?: number | undefined;
  /** Only events with higher numbers. */
  since?: number | undefined;
}>;

const EVERYTHING: readonly (readonly string[])[] = [[]];

export function matches(
  { channels, namespaces = EVERYTHING, depth, since }: Subscription,
  event: ProtocolEvent,
): boolean {
  if (since !== undefined && event.seq <= since) return false;
  const { channel, namespace } = event;
  if (!channels.includes(channel) && !(channel.startsWith("custom:") && channels.includes("custom"))) return false;
  return (namespaces.length === 0 ? EVERYTHING : namespaces).some(
    (prefix) =>
      isPrefixMatch([...namespace], [...prefix]) && (depth === undefined || namespace.length - prefix.length <= depth),
  );
}

type OfThread = Readonly<{ tenantId: TenantId; threadId: ThreadId }>;
type Following = OfThread &
  Readonly<{
    signal: AbortSignal;
    heartbeatMs: number;
    /** The run to begin with, when it is known. */
    first?: RunId | undefined;
    /** The threads that who follows may see: one that comes may be another's. */
    within?: Within;
    /** The first heartbeat comes as soon as there is nothing more for now. */
    beatAtOnce?: boolean;
  }>;

/** Events that come together; `over`: their run's last. */
export type Told = Readonly<{ runId: RunId; events: readonly ProtocolEvent[]; over: boolean }>;

/** All events of a thread, from the beginning of the current or last run on, for as long as somebody reads. */
export async function* threadEvents(
  engine: Pick<Engine, "deps" | "reads" | "threadNews" | "streams">,
  following: Following,
): AsyncGenerator<Told | "heartbeat"> {
  let events: RunEvents | undefined;
  for await (const item of followThread(engine, { ...following, after: null })) {
    if (item.kind === "heartbeat") {
      yield "heartbeat";
      continue;
    }
    if (item.kind === "begin") {
      if (!(await mayFollow(engine, following))) throw threadNotFound(following);
      events = createRunEvents(item.run);
    }
    if (events !== undefined)
      yield { runId: item.run.runId, events: eventsOf(events, item), over: item.kind === "end" };
  }
}

async function mayFollow({ deps }: Pick<Engine, "deps">, { within = null, ...key }: Following): Promise<boolean> {
  return within === null || reaches(within, (await getThread(deps.db, key))?.metadata);
}

function eventsOf(events: RunEvents, item: Exclude<ThreadItem, { kind: "heartbeat" }>): ProtocolEvent[] {
  switch (item.kind) {
    case "begin":
      return events.begin();
    case "line":
      return events.line(item.line);
    case "end":
      return events.end(item.run, item.gone);
  }
}

/** Its events as far as they are stored now. */
export async function* storedEvents(
  { deps }: Pick<Engine, "deps">,
  run: RunRow,
  events: RunEvents,
): AsyncGenerator<ProtocolEvent> {
  const signal = new AbortController().signal;
  yield* events.begin();
  // The first heartbeat says that there is no more for now.
  for await (const item of readStream(deps, {
    ...run,
    afterId: -1,
    signal,
    heartbeatMs: Number.POSITIVE_INFINITY,
    beatAtOnce: true,
  })) {
    if (item.kind === "heartbeat") return;
    yield* events.line(item.line);
  }
  yield* events.end(run, false);
}
