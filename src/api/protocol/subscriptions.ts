// The subscriptions of one connection. One reader serves them all, and what a subscription was told it isn't told again. A client takes
// the end of a run for the end of what any of its subscriptions gets, and makes them one after the other: so a run's end is told
// only when nothing more can be on its way that the client sent before it heard of the last of them.
import type { Within } from "../../core/access.js";
import type { RunId, TenantId, ThreadId } from "../../core/ids.js";
import type { Engine } from "../../engine/engine.js";
import { createRunEvents, type ProtocolEvent } from "../../engine/protocol/events.js";
import {
  matches,
  storedEvents,
  type Subscription,
  threadEvents,
  type Told,
} from "../../engine/protocol/subscription.js";
import type { RunKey } from "../../engine/reads.js";
import { currentRun } from "../../engine/stream/follow-thread.js";
import { asEngineError } from "../http-errors.js";

/** What is read before a new subscription is answered, and need not be read again. */
const AHEAD_CHARS = 1024 * 1024;
const LOOK_MS = 20_000;

export type Subscriber = Readonly<{
  engine: Engine;
  tenantId: TenantId;
  threadId: ThreadId;
  /** The threads that the client may see. */
  within: Within;
  requestId: string;
  /** Resolves when the client has taken it, or is gone. */
  send(text: string): Promise<void>;
  /** Says what a subscription is called, and how many events it is told of what there is already. */
  answer(commandId: number, subscriptionId: string, replayed: number): Promise<void>;
  /** Resolves when all has been done that the client had asked for before it heard what was sent until now. */
  heardOut(): Promise<void>;
  /** So that the client comes back, and is told all of it. */
  cut(): void;
}>;

export type Subscriptions = Readonly<{
  size(): number;
  /** To be begun. Nothing is told until then. */
  add(commandId: number, wanted: Subscription): Promise<void>;
  /** Answers those that were added; resolves when that is done. False when there were none. */
  begin(): Promise<boolean>;
  /** False when there is none of this name. */
  remove(subscriptionId: string): boolean;
  stop(): void;
}>;

/** `told`: the number up to which it has been served. */
type Served = { readonly wanted: Subscription; told: number };
type Asked = { readonly commandId: number; readonly id: string; readonly wanted: Subscription; replayed: number };

export function createSubscriptions(subscriber: Subscriber): Subscriptions {
  const { engine, tenantId, threadId, within } = subscriber;
  const served = new Map<string, Served>();
  let asked: readonly Asked[] = [];
  /** The run that is told; undefined between two. */
  let at: RunId | undefined;
  let stop = new AbortController();
  let reading: Promise<void> = Promise.resolve();
  let heardOut: Promise<void> = Promise.resolve();

  const answer = async (): Promise<void> => {
    const now = asked;
    asked = [];
    for (const { commandId, id, wanted, replayed } of now) {
      await subscriber.answer(commandId, id, replayed);
      served.set(id, { wanted, told: -1 });
    }
    if (now.length > 0) heardOut = subscriber.heardOut();
  };

  const tell = async ({ events, over }: Told, signal: AbortSignal): Promise<void> => {
    if (over) await untilAborted(signal, heardOut);
    for (const event of events) {
      if (signal.aborted) return;
      // Once, for all that want it: the client looks which they are.
      const behind = [...served.values()].filter(({ told }) => told < event.seq);
      if (behind.some(({ wanted }) => matches(wanted, event))) await subscriber.send(event.text());
      for (const subscription of behind) subscription.told = event.seq;
    }
    if (over && !signal.aborted) at = undefined;
  };

  /** Begins again with the run that it was at. */
  const read = async (signal: AbortSignal, onAnswered: () => void): Promise<void> => {
    const ahead = createAhead();
    const release = async (): Promise<void> => {
      await answer();
      onAnswered();
      for (const told of ahead.take()) await tell(told, signal);
    };
    const first = at ?? (await currentRun(engine, subscriber))?.runId;
    if (first === undefined) await release();
    const following = { tenantId, threadId, within, signal, first, heartbeatMs: LOOK_MS, beatAtOnce: true };
    for await (const told of threadEvents(engine, following)) {
      if (told === "heartbeat") {
        await release();
        continue;
      }
      at = told.runId;
      if (asked.length === 0) {
        await tell(told, signal);
        continue;
      }
      ahead.keep(told, asked);
      if (ahead.isFull()) await countStored(engine, { tenantId, runId: at }, asked);
      if (ahead.isFull() || told.over) await release();
    }
  };

  return {
    size: () => served.size + asked.length,
    async add(commandId, wanted) {
      stop.abort();
      await reading;
      asked = [...asked, { commandId, id: engine.deps.ids.next<string>(), wanted, replayed: 0 }];
    },
    async begin() {
      if (asked.length === 0) return false;
      stop = new AbortController();
      const { signal } = stop;
      await new Promise<void>((resolve) => {
        reading = read(signal, resolve)
          .catch((error: unknown) => {
            const fields = { request_id: subscriber.requestId, thread_id: threadId };
            const code = asEngineError(error)?.code ?? "internal";
            engine.deps.log.warn({ ...fields, code }, "a thread's stream broke off");
            subscriber.cut();
          })
          .finally(resolve);
      });
      return true;
    },
    remove: (subscriptionId) => served.delete(subscriptionId),
    stop: () => stop.abort(),
  };
}

/** What was read while new subscriptions wait for their answer. */
function createAhead() {
  let kept: Told[] = [];
  let chars = 0;
  return {
    keep(told: Told, asked: readonly Asked[]): void {
      kept.push(told);
      for (const event of told.events) {
        chars += event.text().length;
        count(event, asked);
      }
    },
    isFull: () => chars > AHEAD_CHARS,
    take(): readonly Told[] {
      const taken = kept;
      kept = [];
      chars = 0;
      return taken;
    },
  };
}

function count(event: ProtocolEvent, asked: readonly Asked[]): void {
  for (const one of asked) if (matches(one.wanted, event)) one.replayed += 1;
}

/** Of a run that is too long to be read ahead. */
async function countStored(engine: Engine, key: RunKey, asked: readonly Asked[]): Promise<void> {
  const run = await engine.reads.run(key);
  if (run === undefined) return;
  for (const one of asked) one.replayed = 0;
  for await (const event of storedEvents(engine, run, createRunEvents(run))) count(event, asked);
}

async function untilAborted(signal: AbortSignal, wait: Promise<void>): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const go = (): void => {
      signal.removeEventListener("abort", go);
      resolve();
    };
    signal.addEventListener("abort", go);
    void wait.then(go);
  });
}
