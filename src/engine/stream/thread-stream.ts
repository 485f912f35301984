// What the runs of a thread stream, one after the other, for as long as somebody listens: their events as they told them, that each began
// and ended, and the state each left. Made from what is stored, so in any process the same, under ids that say where to go on.
import { EngineError, isBodyLost, isEngineError } from "../../core/errors.js";
import { isUuid, type RunId, type TenantId, type ThreadId } from "../../core/ids.js";
import { isFinished } from "../../core/run.js";
import { type After, afterRun } from "../../runs/next-run.js";
import type { RunRow } from "../../runs/runs.js";
import type { Engine } from "../engine.js";
import { renderText } from "../render.js";
import { getStateAt, type OfThread } from "../state.js";
import { currentRun, followThread } from "./follow-thread.js";
import { isOfProtocol } from "./protocol-names.js";

export const THREAD_STREAM_MODES = ["run_modes", "lifecycle", "state_update"] as const;
export type ThreadStreamMode = (typeof THREAD_STREAM_MODES)[number];

export type ThreadLine = Readonly<{ id: string; event: string; json: string }>;

/** After which line of which run; `end`: the run's last. */
type Place = Readonly<{ runId: RunId; line: number | "end" }>;
export type From = "start" | "now" | Place;

/** Before every run. */
const BEFORE_ALL: After = { startedAt: new Date(0), runId: "00000000-0000-0000-0000-000000000000" as RunId };

/** Where a listener goes on, by the id of the last event it has: `-` is the thread's beginning, none now. Throws `bad_request`. */
export function placeOf(lastEventId: string | undefined): From {
  if (lastEventId === undefined || lastEventId === "") return "now";
  if (lastEventId === "-") return "start";
  const [runId = "", line = ""] = lastEventId.split(":");
  if (isUuid(runId) && /^(end|\d{1,15})$/.test(line))
    return { runId: runId.toLowerCase() as RunId, line: line === "end" ? "end" : Number(line) };
  throw new EngineError("bad_request", "Last-Event-ID: must be an id that this stream sent, or - for all events");
}

type Listen = Readonly<{
  tenantId: TenantId;
  thread: OfThread["thread"];
  modes: ReadonlySet<ThreadStreamMode>;
  from: From;
  signal: AbortSignal;
  heartbeatMs: number;
}>;

/** Ends only by the signal. */
export async function* threadLines(engine: Engine, listen: Listen): AsyncGenerator<ThreadLine | "heartbeat"> {
  const { tenantId, thread, modes, signal, heartbeatMs } = listen;
  const { threadId } = thread;
  const start = await startOf(engine, { tenantId, threadId }, listen.from);
  for await (const item of followThread(engine, { tenantId, threadId, ...start, signal, heartbeatMs })) {
    if (item.kind === "heartbeat") yield "heartbeat";
    else if (item.kind === "line") {
      const { id, event, json } = item.line;
      const isTold =
        !isOfProtocol(event) && (modes.has("run_modes") || (modes.has("lifecycle") && event === "metadata"));
      if (isTold) yield { id: `${item.run.runId}:${id}`, event, json };
    } else if (item.kind === "end") {
      const id = `${item.run.runId}:end`;
      if (modes.has("state_update")) {
        const state = await stateAfter(engine, { tenantId, thread }, item.run);
        if (state !== undefined) yield { id, event: "state_update", json: state };
      }
      if (modes.has("run_modes") || modes.has("lifecycle")) yield { id, event: "metadata", json: ended(item.run) };
    }
  }
}

/** "run_done" is what stock servers say, whatever the run came to. */
function ended({ runId, status }: RunRow): string {
  return JSON.stringify({ run_id: runId, status: "run_done", run_status: status });
}

/** The state a run has left, if it is there still. */
async function stateAfter(engine: Engine, of: OfThread, run: RunRow): Promise<string | undefined> {
  if (run.resultCheckpointId === null) return undefined;
  const address = { checkpoint_id: run.resultCheckpointId };
  try {
    return renderText(await getStateAt(engine, of, address, { subgraphs: false }));
  } catch (error) {
    if (isEngineError(error, "not_found") || isBodyLost(error)) return undefined;
    throw error;
  }
}

type Key = Readonly<{ tenantId: TenantId; threadId: ThreadId }>;
type Start = Readonly<{ after: After | null; first?: RunId; firstAfterId?: number | undefined }>;

async function startOf(engine: Engine, key: Key, from: From): Promise<Start> {
  if (from === "start") return { after: BEFORE_ALL };
  if (from === "now") {
    const run = await currentRun(engine, key);
    if (run === undefined) return { after: null };
    if (isFinished(run.status)) return { after: afterRun(run) };
    return { after: null, first: run.runId, firstAfterId: undefined };
  }
  const { runId, line } = from;
  const run = await engine.reads.run({ tenantId: key.tenantId, runId });
  if (run?.threadId !== key.threadId) return { after: { startedAt: madeAt(runId), runId } };
  return line === "end" ? { after: afterRun(run) } : { after: null, first: runId, firstAfterId: line };
}

/** Ids carry the time when they were made: of a run that is gone it is all that is known. */
function madeAt(runId: RunId): Date {
  return new Date(Number.parseInt(runId.replaceAll("-", "").slice(0, 12), 16));
}
