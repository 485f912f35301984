// A message becomes a run: with what it says as the graph's input, or as the answer to what its task has asked.
import type { Context } from "hono";
import type { AssistantRow } from "../../assistants/queries.js";
import { isEngineError } from "../../core/errors.js";
import type { ThreadId } from "../../core/ids.js";
import { isObject } from "../../core/json-parts.js";
import { describeSchemas } from "../../engine/assistant-graph.js";
import { type Once, runMadeBefore } from "../../engine/commands/make-once.js";
import type { Engine } from "../../engine/engine.js";
import type { ApiEnv } from "../env.js";
import { onceSaid } from "../idempotency.js";
import { readAs } from "../request.js";
import { makeRun } from "../routes/runs.js";
import { type RunCreate, runCreate, statelessRunCreate } from "../schemas/runs.js";
import { A2aError } from "./errors.js";
import { contentOf, type Part } from "./parts.js";
import type { MessageParams } from "./schemas.js";
import { findTask, taskOf, type TaskRef } from "./task.js";

type C = Context<ApiEnv>;
type Message = MessageParams["message"];

export type Sent = TaskRef & Readonly<{ /** Nothing has happened to it yet. */ isNew: boolean }>;

/** The task of a message. One that comes again makes nothing new. `waits`: nobody looks at it before its end. */
export async function send(
  engine: Engine,
  c: C,
  assistant: AssistantRow,
  { message, waits }: Readonly<{ message: Message; waits: boolean }>,
): Promise<Sent> {
  const once = onceSaid(engine, c, message.messageId, message);
  const before = await runMadeBefore(engine.deps, once);
  if (before !== undefined) {
    // As whoever asks for it: by now it may be no one's that the caller may see.
    const id = message.taskId ?? before.runId;
    return { ...(await findTask(engine, c, assistant, { id, event: "threads:read" })), isNew: false };
  }
  if (message.taskId !== undefined)
    return answer(engine, c, assistant, { message, taskId: message.taskId, once, waits });
  const threadId = (message.contextId ?? null) as ThreadId | null;
  const asked = { ...common(assistant), input: await inputOf(engine, assistant, message.parts) };
  const body =
    threadId === null
      ? readAs(statelessRunCreate, { ...asked, on_completion: "keep" })
      : readAs(runCreate, { ...asked, if_not_exists: "create" });
  const { run, again } = await makeRun(engine, c, { threadId, body, waits, once });
  return { id: run.runId, run, isNew: !again && run.status === "pending" && run.attempt === 0 };
}

function common({ assistantId }: AssistantRow) {
  return { assistant_id: assistantId, stream_mode: ["messages-tuple"] };
}

type Answer = Readonly<{ message: Message; taskId: string; once: Once; waits: boolean }>;

async function answer(engine: Engine, c: C, assistant: AssistantRow, given: Answer): Promise<Sent> {
  const { message, taskId, once, waits } = given;
  const ref = await findTask(engine, c, assistant, { id: taskId, event: "threads:read" });
  const { threadId } = ref.run;
  if (message.contextId !== undefined && message.contextId !== threadId) {
    throw new A2aError("params", `message.contextId: task ${taskId} is of context ${threadId}`);
  }
  const { state } = (await taskOf(engine, ref, 0)).status;
  if (state !== "input-required") {
    const message = `Task ${taskId} asks nothing: it is ${state}. Send the message with its contextId alone`;
    throw new A2aError("unsupported", message);
  }
  const body: RunCreate = readAs(runCreate, { ...common(assistant), command: { resume: saidIn(message.parts) } });
  try {
    const { run, again } = await makeRun(engine, c, { threadId, body, waits, once });
    return { id: ref.id, run, isNew: !again && run.status === "pending" && run.attempt === 0 };
  } catch (error) {
    // It counts, and others have to agree: the question is open still.
    if (!isEngineError(error, "more_votes_needed")) throw error;
    return { ...ref, isNew: false };
  }
}

/** What the graph's `interrupt()` returns: data as it is, else what was written. */
function saidIn(parts: readonly Part[]): unknown {
  const [data] = parts.flatMap((part) => (part.kind === "data" ? [part.data] : []));
  return data ?? textOf(parts);
}

function textOf(parts: readonly Part[]): string {
  const files = parts.some(({ kind }) => kind === "file");
  if (files) throw new A2aError("content", "message.parts: an answer is text or data");
  return parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n");
}

/** A message for graphs that speak in messages; for all others data, whose fields are their input's. */
async function inputOf({ graphs }: Engine, assistant: AssistantRow, parts: readonly Part[]): Promise<unknown> {
  const { input } = await describeSchemas(graphs, assistant);
  const fields = input?.["properties"];
  if (!isObject(fields) || Object.hasOwn(fields, "messages")) {
    return { messages: [{ role: "user", content: contentOf(parts) }] };
  }
  const data = parts.flatMap((part) => (part.kind === "data" && isObject(part.data) ? [part.data] : []));
  if (data.length === parts.length) return Object.assign({}, ...data) as unknown;
  const names = Object.keys(fields).slice(0, 20).join(", ");
  throw new A2aError(
    "content",
    `message.parts: this agent takes no messages, only data with its input's fields: ${names}`,
  );
}
