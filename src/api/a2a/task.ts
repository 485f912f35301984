// A task is a run, and goes on with the run that an answer to its question makes: whoever answers, and over which door.
import type { Context } from "hono";
import { answeringRun, pendingApprovals } from "../../approvals/approvals.js";
import type { AssistantRow } from "../../assistants/queries.js";
import type { AccessEvent } from "../../core/access.js";
import { isEngineError } from "../../core/errors.js";
import { isUuid, type RunId } from "../../core/ids.js";
import { isObject } from "../../core/json-parts.js";
import { endedBy, isFinished } from "../../core/run.js";
import type { Engine } from "../../engine/engine.js";
import { runResult } from "../../engine/run-result.js";
import { getRun, type RunOfThread, type RunRow } from "../../runs/runs.js";
import { ask } from "../auth/ask.js";
import { reachesThread } from "../auth/things.js";
import type { ApiEnv } from "../env.js";
import { taskNotFound } from "./errors.js";
import { type Part, partsOf } from "./parts.js";
import type { Artifact, Task, TaskMessage, TaskStatus } from "./wire.js";

/** `id` is of the task's first run; `run` is the one that it has come to. */
export type TaskRef = Readonly<{ id: RunId; run: RunRow }>;

const HISTORY = 10;
const MOST_HISTORY = 100;

/** Throws that there is none, also when it is another agent's, or nobody's that the caller may see. */
export async function findTask(
  engine: Engine,
  c: Context<ApiEnv>,
  assistant: AssistantRow,
  { id, event }: Readonly<{ id: string; event: AccessEvent }>,
): Promise<TaskRef> {
  const tenantId = c.get("tenantId");
  const first = isUuid(id) ? await getRun(engine.deps.db, { tenantId, runId: id.toLowerCase() as RunId }) : undefined;
  const { within } = await ask(
    engine,
    c,
    event,
    first === undefined ? {} : { thread_id: first.threadId, run_id: first.runId },
  );
  if (first?.assistantId !== assistant.assistantId) throw taskNotFound(id);
  if (!(await reachesThread(engine, c, first.threadId, within))) throw taskNotFound(id);
  return newest(engine, { id: first.runId, run: first });
}

/** With what has been answered meanwhile. */
export async function newest(engine: Engine, { id, run }: TaskRef): Promise<TaskRef> {
  const { tenantId } = run;
  const runId = await answeringRun(engine.deps.db, run);
  const last = runId === run.runId ? run : await getRun(engine.deps.db, { tenantId, runId });
  return { id, run: last ?? run };
}

/** Its state now, with what came of it. Throws that there is none when it was deleted. */
export async function taskOf(engine: Engine, ref: TaskRef, historyLength = HISTORY): Promise<Task> {
  const { tenantId, runId } = ref.run;
  const run = await engine.reads.run({ tenantId, runId });
  if (run === undefined) throw taskNotFound(ref.id);
  const ids = { id: ref.id, contextId: run.threadId };
  const early = endedBy(run);
  const metadata = { assistant_id: run.assistantId, run_id: run.runId, ...(early !== null && { ended_by: early }) };
  const base = { ...ids, metadata, artifacts: [], history: [] };
  if (!isFinished(run.status)) {
    return { ...base, status: statusOf(run, run.status === "pending" ? "submitted" : "working") };
  }
  const result = await resultOf(engine, run);
  if (run.status === "interrupted") {
    const question = await questionOf(engine, run, result);
    return { ...base, status: statusOf(run, question === undefined ? "canceled" : "input-required", question) };
  }
  if (run.status !== "success") {
    return { ...base, status: statusOf(run, "failed", [{ kind: "text", text: failureIn(result) }]) };
  }
  const messages = messagesIn(result);
  const said = messages.flatMap(shownIn);
  const history = said.slice(Math.max(0, said.length - Math.min(historyLength, MOST_HISTORY)));
  return { ...base, status: statusOf(run, "completed"), artifacts: artifactsOf(result, messages), history };
}

function statusOf(run: RunRow, state: TaskStatus["state"], parts?: readonly Part[]): TaskStatus {
  const message = parts && { messageId: `${run.runId}-${state}`, role: "agent" as const, parts };
  return { state, ...(message !== undefined && { message }), timestamp: run.updatedAt.toISOString() };
}

/** Undefined once it isn't kept any more: how it ended is still known. */
async function resultOf(engine: Engine, run: RunOfThread): Promise<unknown> {
  try {
    return await runResult(engine, run);
  } catch (error) {
    if (!isEngineError(error, "expired")) throw error;
    return undefined;
  }
}

function failureIn(result: unknown): string {
  const { __error__: error } = (result ?? {}) as { __error__?: { error: string; message: string } };
  return error === undefined ? "The run failed" : `${error.error}: ${error.message}`;
}

/** Undefined when nothing is asked any more: it was taken back, or the conversation has gone on. */
async function questionOf({ deps }: Engine, run: RunRow, result: unknown): Promise<Part[] | undefined> {
  if (run.waitsFor !== "approval") return undefined;
  const open = (await pendingApprovals(deps.db, run)).filter(({ runId }) => runId === run.runId);
  if (open.length === 0) return undefined;
  const { __interrupt__: interrupts = [] } = (result ?? {}) as { __interrupt__?: { id: string; value: unknown }[] };
  const texts = interrupts.map(({ value }) => (typeof value === "string" ? value : JSON.stringify(value)));
  return [
    { kind: "text", text: texts.join("\n") },
    { kind: "data", data: { interrupts } },
  ];
}

type Message = Readonly<Record<string, unknown>>;

function messagesIn(result: unknown): readonly Message[] {
  const messages = isObject(result) ? result["messages"] : undefined;
  return Array.isArray(messages) ? messages.filter(isObject) : [];
}

function shownIn({ id, type, content }: Message): TaskMessage[] {
  const parts = partsOf(content);
  if (parts.length === 0 || (type !== "human" && type !== "ai")) return [];
  return [{ messageId: String(id), role: type === "human" ? "user" : "agent", parts }];
}

/** What the agent said last, or its whole state where it doesn't speak in messages. */
function artifactsOf(result: unknown, messages: readonly Message[]): Artifact[] {
  if (!isObject(result) || !Array.isArray(result["messages"])) {
    return result === undefined ? [] : [{ artifactId: "result", parts: [{ kind: "data", data: result }] }];
  }
  const since = messages.slice(messages.findLastIndex(({ type }) => type === "human") + 1);
  const said = since.flatMap(shownIn).at(-1);
  return said === undefined ? [] : [{ artifactId: said.messageId, parts: said.parts }];
}
