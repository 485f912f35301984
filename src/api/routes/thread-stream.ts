// A stream of all that happens on a thread, for clients that join it and stay.
import { Hono } from "hono";
import { z } from "zod";
import type { Engine } from "../../engine/engine.js";
import { placeOf, THREAD_STREAM_MODES, threadLines } from "../../engine/stream/thread-stream.js";
import type { ApiEnv } from "../env.js";
import { list, one, readQuery } from "../request.js";
import { frame, HEARTBEAT, HEARTBEAT_MS, openSse } from "../sse.js";
import { findThread } from "./threads.js";

const modes = list.pipe(z.array(z.enum(THREAD_STREAM_MODES)).optional());
/** The JavaScript client says `stream_mode`, the specification `stream_modes`. */
export const threadStreamQuery = z.object({ stream_mode: modes, stream_modes: modes, last_event_id: one });

export function threadStreamRoutes(engine: Engine): Hono<ApiEnv> {
  const routes = new Hono<ApiEnv>();

  routes.get("/threads/:thread_id/stream", async (c) => {
    const asked = readQuery(c, threadStreamQuery);
    const thread = await findThread(engine, c);
    const from = placeOf(c.req.header("Last-Event-ID") || asked.last_event_id);
    const wanted = new Set(asked.stream_mode ?? asked.stream_modes ?? (["run_modes"] as const));
    const tenantId = c.get("tenantId");
    return openSse(c, engine, { thread_id: thread.threadId }, async (body) => {
      const listen = { tenantId, thread, modes: wanted, from, signal: body.gone, heartbeatMs: HEARTBEAT_MS };
      for await (const line of threadLines(engine, listen))
        await body.write(line === "heartbeat" ? HEARTBEAT : frame(line));
    });
  });

  return routes;
}
