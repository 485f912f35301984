// A task as it goes on: what it is now, the text that its agent says bit by bit, what came of it.
import type { Context } from "hono";
import { isObject } from "../../core/json-parts.js";
import type { Engine } from "../../engine/engine.js";
import { readStream } from "../../engine/stream/reader.js";
import type { ApiEnv } from "../env.js";
import { asEngineError } from "../http-errors.js";
import { RPC, rpcError, rpcFrame, type RpcId } from "../json-rpc.js";
import { type OpenBody, streamEvents } from "../node-http.js";
import { HEARTBEAT, HEARTBEAT_MS } from "../sse.js";
import { partsOf } from "./parts.js";
import { taskOf, type TaskRef } from "./task.js";
import type { TaskEvent, Wire } from "./wire.js";

type To = Readonly<{ id: RpcId; wire: Wire }>;

/** Ends when the task does, or asks something. */
export function follow(engine: Engine, c: Context<ApiEnv>, ref: TaskRef, { id, wire }: To): Response {
  const ids = { id: ref.id, contextId: ref.run.threadId };
  const tell = async (body: OpenBody): Promise<void> => {
    try {
      for await (const event of taskEvents(engine, ref, body.gone)) {
        if (event === "heartbeat") await body.write(HEARTBEAT);
        else await body.write(rpcFrame({ jsonrpc: "2.0", id, result: wire.event(ids, event) }));
      }
    } catch (error) {
      const code = asEngineError(error)?.code ?? "internal";
      const about = { request_id: c.get("requestId"), run_id: ref.run.runId, code };
      engine.deps.log.warn(about, "a task's stream broke off");
      // An end would be taken for the task's.
      body.cut();
    }
  };
  return streamEvents(c, tell, (message) => rpcFrame(rpcError(id, RPC.request, message)));
}

async function* taskEvents(engine: Engine, ref: TaskRef, signal: AbortSignal): AsyncGenerator<TaskEvent | "heartbeat"> {
  const now = await taskOf(engine, ref, 0);
  yield { kind: "task", task: now };
  const { state } = now.status;
  if (state !== "submitted" && state !== "working") return;
  const { tenantId, runId } = ref.run;
  const reading = { tenantId, runId, afterId: -1, signal, streams: engine.streams, heartbeatMs: HEARTBEAT_MS };
  const begun = new Set<string>();
  for await (const item of readStream(engine.deps, reading)) {
    if (item.kind === "heartbeat") {
      yield "heartbeat";
      continue;
    }
    const said = item.line.event === "messages" ? saidIn(item.line.json) : undefined;
    if (said === undefined) continue;
    if (begun.size === 0) yield { kind: "status", status: { ...now.status, state: "working" }, final: false };
    yield { kind: "artifact", artifact: said, append: begun.has(said.artifactId), lastChunk: false };
    begun.add(said.artifactId);
  }
  if (signal.aborted) return;
  const { artifacts, status } = await taskOf(engine, ref, 0);
  // Whole, whatever was said before: a try that broke off has said some of it, too.
  for (const artifact of artifacts) yield { kind: "artifact", artifact, append: false, lastChunk: true };
  yield { kind: "status", status, final: true };
}

/** Of an agent's own message, what has come of it; under its id, so that the whole takes the place of its bits. */
function saidIn(json: string) {
  const [chunk] = JSON.parse(json) as [unknown];
  if (!isObject(chunk) || !/^(ai$|AIMessage)/.test(String(chunk["type"]))) return undefined;
  const parts = partsOf(chunk["content"]).filter(({ kind }) => kind === "text");
  return parts.length === 0 ? undefined : { artifactId: String(chunk["id"]), parts };
}
