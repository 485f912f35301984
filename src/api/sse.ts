// A run's events as server-sent events, and what happens when the client goes away.
import type { Context } from "hono";
import type { Engine } from "../engine/engine.js";
import { readStream } from "../engine/stream/reader.js";
import { isOfModes } from "../engine/stream/plan.js";
import type { StreamLine } from "../runs/stream-chunks.js";
import type { RunRow } from "../runs/runs.js";
import type { ApiEnv } from "./env.js";
import { asEngineError } from "./http-errors.js";
import { isShuttingDown, type OpenBody, streamBody } from "./node-http.js";

const HEARTBEAT_MS = 5_000;
const KEEP_ALIVE_MS = 1_000;

export type SseOptions = Readonly<{
  /** Events with higher ids; undefined for those that come from now on. */
  afterId: number | undefined;
  /** Only events of these modes; all when undefined. */
  modes?: ReadonlySet<string> | undefined;
  /** What to do when the client is gone while the run goes on. */
  onDisconnect: (() => Promise<void>) | undefined;
}>;

/** Streams the run until it is finished. */
export function sse(c: Context<ApiEnv>, engine: Engine, run: RunRow, options: SseOptions): Response {
  c.header("Content-Type", "text/event-stream");
  c.header("Cache-Control", "no-cache");
  // A proxy that collects answers would turn the stream into one lump.
  c.header("X-Accel-Buffering", "no");
  return whileConnected(c, engine, run, options.onDisconnect, async (body, signal) => {
    const { tenantId, runId } = run;
    const items = readStream(engine.deps, {
      tenantId,
      runId,
      afterId: options.afterId,
      signal,
      heartbeatMs: HEARTBEAT_MS,
    });
    try {
      for await (const item of items) {
        if (item.kind === "heartbeat") await body.write(": heartbeat\n\n");
        else if (options.modes === undefined || isOfModes(item.line.event, options.modes))
          await body.write(frame(item.line));
      }
    } catch (error) {
      const known = asEngineError(error);
      if (known === undefined) throw error;
      // The status is out already. Ending here in silence would look like the run's end.
      await body.write(`event: error\ndata: ${JSON.stringify({ error: known.code, message: known.message })}\n\n`);
    }
  });
}

/** JSON text needs no splitting into data lines: its line breaks are escaped. */
function frame({ id, event, json }: StreamLine): string {
  return `event: ${event.replaceAll(/[\r\n]/g, " ")}\ndata: ${json}\nid: ${id}\n\n`;
}

/** Answers with JSON once `value` is there; a newline a second tells everybody in between that it is being worked on. */
export function jsonWhenReady(
  c: Context<ApiEnv>,
  engine: Engine,
  run: RunRow,
  onDisconnect: (() => Promise<void>) | undefined,
  value: (signal: AbortSignal) => Promise<string | undefined>,
): Response {
  c.header("Content-Type", "application/json");
  return whileConnected(c, engine, run, onDisconnect, async (body, signal) => {
    const keepAlive = setInterval(() => void body.write("\n"), KEEP_ALIVE_MS);
    try {
      const text = await value(signal);
      if (text !== undefined) await body.write(text);
    } finally {
      clearInterval(keepAlive);
    }
  });
}

/** A streamed answer whose `signal` aborts when the client is gone. */
function whileConnected(
  c: Context<ApiEnv>,
  engine: Engine,
  run: RunRow,
  onDisconnect: (() => Promise<void>) | undefined,
  work: (body: OpenBody, signal: AbortSignal) => Promise<void>,
): Response {
  const log = (error: unknown, message: string): void => {
    const code = (error as { code?: unknown }).code;
    engine.deps.log.warn(
      { request_id: c.get("requestId"), run_id: run.runId, code: typeof code === "string" ? code : "internal" },
      message,
    );
  };
  return streamBody(c, async (body) => {
    try {
      await work(body, body.gone);
    } catch (error) {
      log(error, "an answer broke off");
    }
    if (!body.gone.aborted || onDisconnect === undefined || isShuttingDown(c)) return;
    await onDisconnect().catch((error: unknown) => log(error, "a run could not be cancelled after its client left"));
  });
}
