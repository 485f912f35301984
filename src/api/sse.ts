// A run's events as server-sent events, and what happens when the client goes away.
import type { Context } from "hono";
import type { Engine } from "../engine/engine.js";
import { followLog, logLine, type LogPosition } from "../engine/run-log.js";
import { readStream } from "../engine/stream/reader.js";
import { isOfModes, isOfNamespaces } from "../engine/stream/plan.js";
import { isOfProtocol } from "../engine/stream/protocol-names.js";
import type { RunRow } from "../runs/runs.js";
import type { ApiEnv } from "./env.js";
import { asEngineError } from "./http-errors.js";
import { ENTRY_OVER } from "./entry.js";
import { errorFrame, isShuttingDown, type OpenBody, streamBody, streamEvents } from "./node-http.js";
import type { OnDisconnect } from "./on-disconnect.js";

/** Less than the shortest time after which proxies are set to close what is quiet: five seconds. */
export const HEARTBEAT_MS = 3_000;
export const HEARTBEAT = ": heartbeat\n\n";
const KEEP_ALIVE_MS = 1_000;

export type SseOptions = Readonly<{
  /** Events with higher ids; undefined for those that come from now on. */
  afterId: number | undefined;
  /** Only events of these modes; all when undefined. */
  modes?: ReadonlySet<string> | undefined;
  /** Only events of these namespaces; all when undefined. */
  namespaces?: readonly string[] | undefined;
  /** What to do when the client is gone while the run goes on. */
  onDisconnect: OnDisconnect | undefined;
}>;

/** Streams the run until it is finished. */
export function sse(c: Context<ApiEnv>, engine: Engine, run: RunRow, options: SseOptions): Response {
  const { tenantId, runId } = run;
  const { afterId, modes, namespaces, onDisconnect } = options;
  const { streams } = engine;
  const isWanted = (event: string): boolean =>
    (modes === undefined || isOfModes(event, modes)) && (namespaces === undefined || isOfNamespaces(event, namespaces));
  return sseOf(c, engine, run, onDisconnect, async function* (signal) {
    const items = readStream(engine.deps, { tenantId, runId, afterId, signal, streams, heartbeatMs: HEARTBEAT_MS });
    for await (const item of items) {
      if (item.kind === "heartbeat") yield item;
      else if (!isOfProtocol(item.line.event) && isWanted(item.line.event)) yield item;
    }
  });
}

/** The answer to whom there is nothing to tell. */
export function noEvents(c: Context<ApiEnv>): Response {
  return streamEvents(c, () => Promise.resolve());
}

/** The run's log from there on, as it grows, until there is nothing to be expected any more. */
export function sseLog(c: Context<ApiEnv>, engine: Engine, run: RunRow, after: LogPosition): Response {
  return sseOf(c, engine, run, undefined, async function* (signal) {
    for await (const item of followLog(engine.deps, run, { after, signal, heartbeatMs: HEARTBEAT_MS })) {
      if (item === "heartbeat") yield { kind: "heartbeat" };
      else yield { kind: "line", line: { id: item.id, event: item.type, json: JSON.stringify(logLine(item)) } };
    }
  });
}

type Line = Readonly<{ id: number | string; event: string; json: string }>;
type Item = Readonly<{ kind: "heartbeat" }> | Readonly<{ kind: "line"; line: Line }>;

function sseOf(
  c: Context<ApiEnv>,
  engine: Engine,
  run: RunRow,
  onDisconnect: OnDisconnect | undefined,
  open: (signal: AbortSignal) => AsyncIterable<Item>,
): Response {
  const work = whileConnected(c, engine, run, onDisconnect, async (body, signal) => {
    try {
      for await (const item of open(signal)) await body.write(item.kind === "heartbeat" ? HEARTBEAT : frame(item.line));
    } catch (error) {
      const known = asEngineError(error);
      if (known === undefined) throw error;
      // The status is out already. Ending here in silence would look like the run's end.
      await body.write(errorFrame(known.code, known.message));
    }
  });
  return streamEvents(c, work);
}

/** A stream that is never over: its end would be taken for that of what it tells of. What goes wrong cuts it, and clients come back. */
export function openSse(
  c: Context<ApiEnv>,
  engine: Engine,
  about: Readonly<Record<string, string>>,
  tell: (body: OpenBody) => Promise<void>,
): Response {
  return streamEvents(c, async (body) => {
    try {
      await tell(body);
    } catch (error) {
      const code = asEngineError(error)?.code ?? "internal";
      engine.deps.log.warn({ request_id: c.get("requestId"), ...about, code }, "a thread's stream broke off");
    }
    body.cut();
  });
}

/** JSON text needs no splitting into data lines: its line breaks are escaped. */
export function frame({ id, event, json }: Line): string {
  return `event: ${event.replaceAll(/[\r\n]/g, " ")}\ndata: ${json}\nid: ${id}\n\n`;
}

/** Answers with JSON once `value` is there; a newline a second tells everybody in between that it is being worked on. */
export function jsonWhenReady(
  c: Context<ApiEnv>,
  engine: Engine,
  run: RunRow,
  onDisconnect: OnDisconnect | undefined,
  value: (signal: AbortSignal) => Promise<string | undefined>,
): Response {
  c.header("Content-Type", "application/json");
  const { code, message } = ENTRY_OVER;
  const work = whileConnected(c, engine, run, onDisconnect, async (body, signal) => {
    const keepAlive = setInterval(() => void body.write("\n"), KEEP_ALIVE_MS);
    try {
      const text = await value(signal);
      if (text !== undefined) await body.write(text);
    } finally {
      clearInterval(keepAlive);
    }
  });
  return streamBody(c, JSON.stringify({ __error__: { error: code, message } }), work);
}

/** Of its own will: whom a server that stops cuts off, or whose key is over, has said nothing of what it wants. */
function hasLeft(c: Context<ApiEnv>, gone: AbortSignal): boolean {
  return gone.aborted && gone.reason !== ENTRY_OVER && !isShuttingDown(c);
}

/** What is written of an answer, with a `signal` that aborts when the client is gone. */
function whileConnected(
  c: Context<ApiEnv>,
  engine: Engine,
  run: RunRow,
  onDisconnect: OnDisconnect | undefined,
  work: (body: OpenBody, signal: AbortSignal) => Promise<void>,
): (body: OpenBody) => Promise<void> {
  const log = (error: unknown, message: string): void => {
    const code = (error as { code?: unknown }).code;
    engine.deps.log.warn(
      { request_id: c.get("requestId"), run_id: run.runId, code: typeof code === "string" ? code : "internal" },
      message,
    );
  };
  return async (body) => {
    const stopWatching = onDisconnect?.watch();
    try {
      await work(body, body.gone);
    } catch (error) {
      log(error, "an answer broke off");
      // Its client is there, and must not take this for the end.
      if (!body.gone.aborted) return body.cut();
    } finally {
      stopWatching?.();
    }
    if (!hasLeft(c, body.gone) || onDisconnect === undefined) return;
    await onDisconnect
      .left()
      .catch((error: unknown) => log(error, "a run could not be cancelled after its client left"));
  };
}
