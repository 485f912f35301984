// The thread protocol over HTTP: commands, and a stream of what a thread's runs do, open for as long as somebody reads. A WebSocket
// on the same path takes both.
import { type Context, Hono } from "hono";
import { EngineError } from "../../core/errors.js";
import type { ThreadId } from "../../core/ids.js";
import type { Engine } from "../../engine/engine.js";
import type { ProtocolEvent } from "../../engine/protocol/events.js";
import { matches, type Subscription, threadEvents } from "../../engine/protocol/subscription.js";
import type { ApiEnv } from "../env.js";
import { json } from "../reply.js";
import { pathId, readBody } from "../request.js";
import { HEARTBEAT, HEARTBEAT_MS, openSse } from "../sse.js";
import { runCommand } from "./commands.js";
import { commandBody, eventsBody } from "./schemas.js";
import { openSocket } from "./socket.js";

export function protocolRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();

  routes.post("/threads/:thread_id/commands", async (c) => {
    const command = await readBody(c, commandBody);
    return json(c, await runCommand(engine, c, command));
  });

  routes.post("/threads/:thread_id/stream/events", async (c) => {
    const wanted = await readBody(c, eventsBody);
    return events(c, engine, pathId<ThreadId>(c, "thread_id"), wanted);
  });

  routes.get("/threads/:thread_id/stream/events", openSocket(engine), () => {
    throw new EngineError("bad_request", "This is where WebSockets are opened; without one, POST what to subscribe to");
  });

  return routes;
}

function events(c: Context<ApiEnv>, engine: Engine, threadId: ThreadId, wanted: Subscription): Response {
  const of = { tenantId: c.get("tenantId"), threadId, within: c.get("within") ?? null };
  return openSse(c, engine, { thread_id: threadId }, async (body) => {
    const following = { ...of, signal: body.gone, heartbeatMs: HEARTBEAT_MS };
    for await (const told of threadEvents(engine, following)) {
      if (told === "heartbeat") await body.write(HEARTBEAT);
      else for (const event of told.events) if (matches(wanted, event)) await body.write(frame(event));
    }
  });
}

function frame(event: ProtocolEvent): string {
  return `event: ${event.method}\nid: ${event.seq}\ndata: ${event.text()}\n\n`;
}
