// The thread protocol over a WebSocket: commands come in, one is done after the other, and what subscriptions get goes out. What the
// client doesn't take is not read from the store.
import { upgradeWebSocket } from "@hono/node-server";
import type { Context, MiddlewareHandler } from "hono";
import type { WebSocket } from "ws";
import { type EngineError, isEngineError } from "../../core/errors.js";
import type { TenantId, ThreadId } from "../../core/ids.js";
import { threadNotFound } from "../../engine/commands/patch-thread.js";
import type { Engine } from "../../engine/engine.js";
import { renderText } from "../../engine/render.js";
import { reachesThread } from "../auth/things.js";
import { ENTRY_OVER, isEntryOver, watchEntry } from "../entry.js";
import type { ApiEnv } from "../env.js";
import { asEngineError, statusOf } from "../http-errors.js";
import { pathId, readAs } from "../request.js";
import { takenInTime } from "../slow-clients.js";
import { asksForSocket, refuseSocket } from "../sockets.js";
import { type Answer, refusal, runCommand } from "./commands.js";
import { startPings } from "./pings.js";
import { type CommandBody, commandBody, subscriptionParams, unsubscribeParams } from "./schemas.js";
import { createSubscriptions, type Subscriptions } from "./subscriptions.js";

type C = Context<ApiEnv>;

const MAX_SUBSCRIPTIONS = 100;
const MAX_WAITING = 1_000;
const TOO_MUCH = 1_008;

/** Goes on to the next handler when no WebSocket is asked for. */
export function openSocket(engine: Engine): MiddlewareHandler<ApiEnv> {
  const upgrade = upgradeWebSocket((c) => ({
    onOpen(_event, { raw }) {
      serve(engine, c as C, raw as unknown as WebSocket);
    },
  }));
  return async (c, next) => {
    return asksForSocket(c) ? upgrade(c, next) : next();
  };
}

function serve(engine: Engine, c: C, socket: WebSocket): void {
  let threadId: ThreadId;
  try {
    threadId = pathId<ThreadId>(c, "thread_id");
  } catch (error) {
    if (!isEngineError(error)) throw error;
    refuseSocket(socket, statusOf(error), error.message);
    return;
  }
  const tenantId = c.get("tenantId");
  const pings = startPings(socket);
  const say = (answer: Answer): Promise<void> => send(socket, renderText(answer));
  const success = (id: number, result: unknown): Promise<void> =>
    say({ type: "success", id, result, meta: { thread_id: threadId } });
  const subscriptions = createSubscriptions({
    engine,
    ...{ tenantId, threadId, within: c.get("within") ?? null },
    requestId: c.get("requestId"),
    send: (text) => send(socket, text),
    answer: (id, subscriptionId, replayed) =>
      success(id, { subscription_id: subscriptionId, replayed_events: replayed }),
    heardOut: () => pings.roundTrip().then(() => line.done()),
    cut: () => socket.terminate(),
  });
  const connection: Connection = { engine, c, socket, tenantId, threadId, subscriptions, say, success };
  const line = createLine(
    () => socket.readyState === socket.OPEN,
    (text) => handle(connection, text),
    () => subscriptions.begin(),
  );
  const unwatch = watchEntry(c, () => refuseSocket(socket, ENTRY_OVER.status, ENTRY_OVER.message));
  socket.on("close", () => {
    unwatch();
    subscriptions.stop();
  });
  socket.on("error", () => socket.terminate());
  socket.on("message", (data) => {
    if (line.add(String(data)) > MAX_WAITING) socket.close(TOO_MUCH, "too many commands at once");
  });
}

type Connection = Readonly<{
  engine: Engine;
  c: C;
  socket: WebSocket;
  tenantId: TenantId;
  threadId: ThreadId;
  subscriptions: Subscriptions;
  say(answer: Answer): Promise<void>;
  success(id: number, result: unknown): Promise<void>;
}>;

/** Does one thing after the other, and `atEnd` when nothing waits any more, until that says that there was nothing to do. */
function createLine(
  isOpen: () => boolean,
  work: (text: string) => Promise<void>,
  atEnd: () => Promise<boolean>,
): Readonly<{ add(text: string): number; done(): Promise<void> }> {
  const waiting: string[] = [];
  let working: Promise<void> | undefined;
  const go = async (): Promise<void> => {
    while (isOpen()) {
      const text = waiting.shift();
      if (text !== undefined) await work(text);
      else if (!(await atEnd())) break;
    }
    working = undefined;
  };
  return {
    add(text) {
      waiting.push(text);
      working ??= go();
      return waiting.length;
    },
    done: () => working ?? Promise.resolve(),
  };
}

/** It may have come to be since the connection was opened. */
async function refuseOthersThread({ engine, c, threadId, tenantId }: Connection): Promise<void> {
  const isTheirs = await reachesThread(engine, c, threadId, c.get("within") ?? null);
  if (!isTheirs) throw threadNotFound({ tenantId, threadId });
}

async function handle(connection: Connection, text: string): Promise<void> {
  const command = commandBody.safeParse(parsed(text));
  if (!command.success) {
    const message = "A command is JSON with a whole number as id, a method and its params";
    return connection.say(refusal(null, "invalid_argument", message));
  }
  try {
    if (await isEntryOver(connection.c)) {
      refuseSocket(connection.socket, ENTRY_OVER.status, ENTRY_OVER.message);
      return;
    }
    await refuseOthersThread(connection);
    await obey(connection, command.data);
  } catch (error) {
    const { engine, c, say } = connection;
    const known = asEngineError(error);
    if (known === undefined) {
      engine.deps.log.error({ request_id: c.get("requestId"), error: (error as Error).name }, "a command failed");
    }
    await say(refusal(command.data.id, codeOf(known), known?.message ?? "Internal error"));
  }
}

async function obey(connection: Connection, command: CommandBody): Promise<void> {
  const { engine, c, subscriptions, say } = connection;
  const { id, method } = command;
  const params = command.params ?? {};
  if (method === "subscription.subscribe") {
    const wanted = readAs(subscriptionParams, params);
    if (subscriptions.size() < MAX_SUBSCRIPTIONS) return subscriptions.add(id, wanted);
    return say(refusal(id, "invalid_argument", `At most ${MAX_SUBSCRIPTIONS} subscriptions at once`));
  }
  // Those that come together begin together; what follows them finds them answered.
  await subscriptions.begin();
  if (method !== "subscription.unsubscribe") return say(await runCommand(engine, c, command));
  const { subscription_id: subscriptionId } = readAs(unsubscribeParams, params);
  if (subscriptions.remove(subscriptionId)) return connection.success(id, {});
  await say(refusal(id, "no_such_subscription", `There is no subscription ${subscriptionId.slice(0, 64)}`));
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

/** Resolves when the socket has taken it, or is gone. */
async function send(socket: WebSocket, text: string): Promise<void> {
  if (socket.readyState !== socket.OPEN) return;
  const taken = new Promise<void>((resolve) => socket.send(text, () => resolve()));
  await takenInTime(taken, () => socket.terminate());
}
