// From a parsed run request to what the command takes: configuration merged as the wire has it, checkpoints in one place.
import type { AssistantRow } from "../assistants/queries.js";
import { type AuthUser, configuredAs, type RunAccess } from "../core/access.js";
import type { Caller } from "../core/approval.js";
import { EngineError } from "../core/errors.js";
import type { TenantId, ThreadId } from "../core/ids.js";
import type { RunPolicy } from "../core/policy.js";
import type { Priority } from "../core/run.js";
import type { ThreadTtl } from "../core/thread-ttl.js";
import type { CreateRunInput } from "../engine/commands/create-run.js";
import type { CheckpointRef, RunCommand, RunRequest } from "../engine/commands/request.js";
import type { HeaderRules } from "../engine/http-json.js";
import { PROTOCOL_MODES } from "../engine/stream/plan.js";
import type { RunCreate } from "./schemas/runs.js";

type Asked = Readonly<{
  tenantId: TenantId;
  threadId: ThreadId | null;
  assistant: AssistantRow;
  policy: RunPolicy;
  /** What the request says; null: nothing. */
  priority: Priority | null;
  headers: Headers;
  /** Which of them graphs find, where that isn't the default. */
  headerRules?: HeaderRules;
  caller: Caller;
  /** Of threads that are made where nothing is said of it; null: for ever. */
  threadTtl: ThreadTtl | null;
  /** Who asks, for the graph; null: nobody says. */
  user: AuthUser | null;
  access?: RunAccess;
  /** The caller waits for the end and looks at nothing before. */
  waits: boolean;
  /** It is watched over the thread protocol. */
  protocol?: boolean;
}>;

/** Headers that identify the caller; what a graph may see of the others is the application's own. */
const PRIVATE_HEADERS = new Set(["x-api-key", "x-tenant-id", "x-service-key"]);
const NO_RULES: HeaderRules = { includes: [], excludes: [] };
const CHECKPOINT_KEYS = ["checkpoint_id", "checkpoint_ns", "checkpoint_map"] as const;

export function runInput(body: RunCreate, asked: Asked): CreateRunInput {
  const { assistant, threadId, tenantId } = asked;
  return {
    tenantId,
    threadId,
    assistant: {
      assistantId: assistant.assistantId,
      graphId: assistant.graphId,
      version: assistant.version,
      config: assistant.config,
      context: assistant.context ?? {},
      metadata: assistant.metadata,
    },
    request: runRequest(body, asked),
    metadata: { ...body.config?.metadata, ...body.metadata },
    multitaskStrategy: body.multitask_strategy ?? "enqueue",
    ifNotExists: body.if_not_exists ?? "reject",
    onCompletion: body.on_completion ?? (threadId === null ? "delete" : "keep"),
    afterSeconds: body.after_seconds ?? null,
    priority: asked.priority ?? asked.policy.priority,
    conversationId: null,
    mergeWindowMs: asked.policy.mergeWindowMs,
    caller: asked.caller,
    graph: null,
    createdBy: "api",
    webhook: body.webhook ?? null,
    keepsLast: (body.durability ?? (body.checkpoint_during === false ? "exit" : null)) === "exit",
    ifVersionCounts: true,
    threadTtl: body.ttl ?? null,
    newThreadTtl: asked.threadTtl,
    ...(asked.access !== undefined && { access: asked.access }),
  };
}

function runRequest(body: RunCreate, asked: Asked): RunRequest {
  const { tags, recursion_limit, configurable } = body.config ?? {};
  return {
    input: body.input ?? null,
    command: body.command === undefined ? null : commandOf(body.command),
    config: {
      ...(tags === undefined ? {} : { tags }),
      ...(recursion_limit === undefined ? {} : { recursion_limit }),
      configurable: {
        ...forGraph(configurable ?? {}),
        ...passedHeaders(asked.headers, asked.headerRules),
        ...configuredAs(asked.user),
      },
    },
    context: body.context ?? null,
    checkpoint: checkpointOf(body, asked.threadId),
    interrupt_before: body.interrupt_before ?? null,
    interrupt_after: body.interrupt_after ?? null,
    stream_mode: asked.protocol === true ? PROTOCOL_MODES : (body.stream_mode ?? ["values"]),
    stream_subgraphs: asked.protocol === true || (body.stream_subgraphs ?? false),
    watched: !asked.waits,
  };
}

function commandOf({ resume, update, goto }: NonNullable<RunCreate["command"]>): RunCommand {
  // "Mark as resolved" of Agent Chat UI. LangGraph by itself would ask again.
  const resolves = [goto].flat().every((target) => target === "__end__");
  if (resolves && goto !== undefined && (resume ?? null) === null && (update ?? null) === null)
    return { ends_tasks: true };
  return {
    ...(resume === undefined ? {} : { resume }),
    ...(update === undefined ? {} : { update }),
    ...(goto === undefined ? {} : { goto }),
  };
}

function passedHeaders(headers: Headers, rules: HeaderRules = NO_RULES): Record<string, string> {
  const isUsual = (name: string) => /^(x-|user-agent$)/.test(name) && !PRIVATE_HEADERS.has(name);
  const passes = (name: string) => (isUsual(name) || fits(name, rules.includes)) && !fits(name, rules.excludes);
  return Object.fromEntries([...headers].filter(([name]) => passes(name)));
}

function fits(name: string, patterns: readonly RegExp[]): boolean {
  return patterns.some((pattern) => pattern.test(name));
}

/** The checkpoint to start from, wherever the request names it: an explicit one wins over `configurable`. */
function checkpointOf(body: RunCreate, threadId: ThreadId | null): CheckpointRef | null {
  if (threadId === null) return null;
  const explicit = body.checkpoint as Readonly<Record<string, unknown>> | undefined;
  if (explicit?.thread_id !== undefined && explicit.thread_id !== threadId) {
    throw new EngineError(
      "bad_request",
      `checkpoint.thread_id: is of thread ${String(explicit.thread_id)}, not of ${threadId}`,
    );
  }
  const named: Record<string, unknown> = {};
  for (const key of CHECKPOINT_KEYS) {
    const value = explicit?.[key] ?? body.config?.configurable?.[key];
    if (value !== undefined && value !== null) named[key] = value;
  }
  if (explicit?.checkpoint_id === undefined && body.checkpoint_id !== undefined)
    named.checkpoint_id = body.checkpoint_id;
  // A namespace or map alone addresses nothing: a run starts at the root's head.
  return named.checkpoint_id === undefined ? null : named;
}

/** Without what is for the engine: a checkpoint in `configurable` would rewind every attempt, not only the first. */
function forGraph(configurable: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const ours: readonly string[] = [...CHECKPOINT_KEYS, "perdure"];
  return Object.fromEntries(Object.entries(configurable).filter(([key]) => !ours.includes(key)));
}
