// The thread protocol over a WebSocket: commands come in one after the other, and one reader serves all subscriptions, since a client
// takes the end of a run for the end of what any of them gets. What the client doesn't take is not read from the store.
import { upgradeWebSocket } from "@hono/node-server";
import type { Context, MiddlewareHandler } from "hono";
import type { WebSocket } from "ws";
import { type EngineError, isEngineError } from "../../core/errors.js";
import type { RunId, TenantId, ThreadId } from "../../core/ids.js";
import { threadNotFound } from "../../engine/commands/patch-thread.js";
import type { Engine } from "../../engine/engine.js";
import { createRunEvents, type ProtocolEvent } from "../../engine/protocol/events.js";
import {
  currentRun,
  matches,
  storedEvents,
  type Subscription,
  threadEvents,
} from "../../engine/protocol/subscription.js";
import { renderText } from "../../engine/render.js";
import { reachesThread } from "../auth/things.js";
import type { ApiEnv } from "../env.js";
import { asEngineError, statusOf } from "../http-errors.js";
import { pathId, readAs } from "../request.js";
import { type Answer, refusal, runCommand } from "./commands.js";
import { commandBody, subscriptionParams, unsubscribeParams } from "./schemas.js";

type C = Context<ApiEnv>;

const PING_MS = 20_000;
/** Who doesn't take what was sent for as long is cut off, and may come back for all of it. */
const STUCK_MS = 30_000;
const MAX_SUBSCRIPTIONS = 100;
const MAX_WAITING = 1_000;
/** Refused after it was opened, since browsers can't tell why one wasn't: 4000 and the status that HTTP has for it. */
const REFUSED = 4_000;
const TOO_MUCH = 1_008;

/** Goes on to the next handler when no WebSocket is asked for. */
export function openSocket(engine: Engine): MiddlewareHandler<ApiEnv> {
  const upgrade = upgradeWebSocket((c) => ({
    onOpen(_event, { raw }) {
      serve(engine, c as C, raw as unknown as WebSocket);
    },
  }));
  return async (c, next) => {
    if (c.req.header("upgrade")?.toLowerCase() !== "websocket" || c.env === undefined) return next();
    return upgrade(c, next);
  };
}

function serve(engine: Engine, c: C, socket: WebSocket): void {
  let threadId: ThreadId;
  try {
    threadId = pathId<ThreadId>(c, "thread_id");
  } catch (error) {
    if (!isEngineError(error)) throw error;
    socket.close(REFUSED + statusOf(error), error.message.slice(0, 100));
    return;
  }
  const gone = new AbortController();
  const stopPings = keepAlive(socket);
  socket.on("close", () => {
    stopPings();
    gone.abort();
    connection.reader.stop.abort();
  });
  socket.on("error", () => socket.terminate());
  const tenantId = c.get("tenantId");
  const connection: Connection = { engine, c, socket, threadId, tenantId, gone: gone.signal, reader: createReader() };
  let waiting = 0;
  let last = Promise.resolve();
  socket.on("message", (data) => {
    waiting += 1;
    if (waiting > MAX_WAITING) {
      socket.close(TOO_MUCH, "too many commands at once");
      return;
    }
    const text = String(data);
    last = last.then(async () => {
      if (!gone.signal.aborted) await handle(connection, text);
      waiting -= 1;
    });
  });
}

type Connection = Readonly<{
  engine: Engine;
  c: C;
  socket: WebSocket;
  threadId: ThreadId;
  tenantId: TenantId;
  gone: AbortSignal;
  reader: Reader;
}>;

/** `told`: the number up to which a subscription has been served. */
type Reader = {
  readonly subscriptions: Map<string, { readonly wanted: Subscription; told: number }>;
  /** The run that it is at; undefined between two. */
  at: RunId | undefined;
  stop: AbortController;
  reading: Promise<void>;
};

function createReader(): Reader {
  return { subscriptions: new Map(), at: undefined, stop: new AbortController(), reading: Promise.resolve() };
}

/** It may have come to be since the connection was opened. */
async function refuseOthersThread({ engine, c, threadId, tenantId }: Connection): Promise<void> {
  const isTheirs = await reachesThread(engine, c, threadId, c.get("within") ?? null);
  if (!isTheirs) throw threadNotFound({ tenantId, threadId });
}

async function handle(connection: Connection, text: string): Promise<void> {
  const { engine, c } = connection;
  const command = commandBody.safeParse(parsed(text));
  if (!command.success) {
    const message = "A command is JSON with a whole number as id, a method and its params";
    return send(connection, refusal(null, "invalid_argument", message));
  }
  const { id, method, params } = command.data;
  try {
    await refuseOthersThread(connection);
    switch (method) {
      case "subscription.subscribe":
        return await subscribe(connection, id, readAs(subscriptionParams, params ?? {}));
      case "subscription.unsubscribe":
        return await unsubscribe(connection, id, readAs(unsubscribeParams, params ?? {}).subscription_id);
      default:
        return await send(connection, await runCommand(engine, c, command.data));
    }
  } catch (error) {
    const known = asEngineError(error);
    if (known === undefined) {
      engine.deps.log.error({ request_id: c.get("requestId"), error: (error as Error).name }, "a command failed");
    }
    await send(connection, refusal(id, codeOf(known), known?.message ?? "Internal error"));
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function codeOf(known: EngineError | undefined): string {
  return known?.code === "bad_request" ? "invalid_argument" : "unknown_error";
}

/** Answered at once, whether anything has run or not; then comes what there is. */
async function subscribe(connection: Connection, id: number, wanted: Subscription): Promise<void> {
  const { engine, threadId, reader } = connection;
  const { subscriptions } = reader;
  if (subscriptions.size >= MAX_SUBSCRIPTIONS) {
    return send(connection, refusal(id, "invalid_argument", `At most ${MAX_SUBSCRIPTIONS} subscriptions at once`));
  }
  const subscriptionId = engine.deps.ids.next<string>();
  const result = { subscription_id: subscriptionId, replayed_events: await countStored(connection, wanted) };
  reader.stop.abort();
  await reader.reading;
  await send(connection, { type: "success", id, result, meta: { thread_id: threadId } });
  subscriptions.set(subscriptionId, { wanted, told: -1 });
  reader.stop = new AbortController();
  if (!connection.gone.aborted) reader.reading = read(connection, reader.stop.signal);
}

/** Begins again with the run that it was at: what a subscription was told already it isn't told again. */
async function read(connection: Connection, signal: AbortSignal): Promise<void> {
  const { engine, c, socket, threadId, tenantId, reader } = connection;
  try {
    const within = c.get("within") ?? null;
    const following = { tenantId, threadId, signal, heartbeatMs: PING_MS, first: reader.at, within };
    for await (const told of threadEvents(engine, following)) {
      if (told === "heartbeat") continue;
      reader.at = told.runId;
      for (const event of told.events) {
        if (signal.aborted) return;
        await tell(connection, event);
      }
      if (told.over) reader.at = undefined;
    }
  } catch (error) {
    const code = asEngineError(error)?.code ?? "internal";
    engine.deps.log.warn({ request_id: c.get("requestId"), thread_id: threadId, code }, "a thread's stream broke off");
    // It comes back, and is told all of it.
    socket.terminate();
  }
}

/** Once, for all subscriptions that want it: the client looks which they are. */
async function tell(connection: Connection, event: ProtocolEvent): Promise<void> {
  const behind = [...connection.reader.subscriptions.values()].filter(({ told }) => told < event.seq);
  if (behind.some(({ wanted }) => matches(wanted, event))) await sendText(connection, event.text());
  for (const subscription of behind) subscription.told = event.seq;
}

/** What the client will be told of what is there already. */
async function countStored({ engine, tenantId, threadId }: Connection, wanted: Subscription): Promise<number> {
  const run = await currentRun(engine, { tenantId, threadId });
  if (run === undefined) return 0;
  let count = 0;
  for await (const event of storedEvents(engine, run, createRunEvents(run))) if (matches(wanted, event)) count += 1;
  return count;
}

async function unsubscribe(connection: Connection, id: number, subscriptionId: string): Promise<void> {
  if (!connection.reader.subscriptions.delete(subscriptionId)) {
    const message = `There is no subscription ${subscriptionId.slice(0, 64)}`;
    return send(connection, refusal(id, "no_such_subscription", message));
  }
  await send(connection, { type: "success", id, result: {}, meta: { thread_id: connection.threadId } });
}

function send(connection: Connection, answer: Answer): Promise<void> {
  return sendText(connection, renderText(answer));
}

/** Resolves when the socket has taken it, or is gone. */
async function sendText({ socket }: Connection, text: string): Promise<void> {
  if (socket.readyState !== socket.OPEN) return;
  const timer = setTimeout(() => socket.terminate(), STUCK_MS);
  try {
    await new Promise<void>((resolve) => socket.send(text, () => resolve()));
  } finally {
    clearTimeout(timer);
  }
}

/** A connection that the network swallowed answers no ping. */
function keepAlive(socket: WebSocket): () => void {
  let alive = true;
  socket.on("pong", () => (alive = true));
  const timer = setInterval(() => {
    if (!alive) {
      socket.terminate();
      return;
    }
    alive = false;
    socket.ping();
  }, PING_MS);
  return () => clearInterval(timer);
}
