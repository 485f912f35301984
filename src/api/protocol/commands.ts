// The commands of the thread protocol. What can't be done is an answer too: it names the command and says why.
import type { Context } from "hono";
import { pendingApprovals } from "../../approvals/approvals.js";
import { EngineError, type ErrorCode, isEngineError } from "../../core/errors.js";
import type { RunId, TenantId, ThreadId } from "../../core/ids.js";
import { findThread } from "../../engine/adopt/on-touch.js";
import type { Engine } from "../../engine/engine.js";
import { createRunEvents } from "../../engine/protocol/events.js";
import { storedEvents } from "../../engine/protocol/subscription.js";
import { currentRun } from "../../engine/stream/follow-thread.js";
import { assistantIdOf, getState, getStateAt, graphIdOf } from "../../engine/state.js";
import { getRun } from "../../runs/runs.js";
import type { ApiEnv } from "../env.js";
import { asEngineError } from "../http-errors.js";
import { pathId, readAs } from "../request.js";
import { makeRun } from "../routes/runs.js";
import { runCreate } from "../schemas/runs.js";
import { type CommandBody, respondParams, runStartParams, stateParams, treeParams } from "./schemas.js";

type C = Context<ApiEnv>;
type Of = Readonly<{ tenantId: TenantId; threadId: ThreadId }>;
type Result = Readonly<{ result: unknown; seq?: number }>;
type Run = (engine: Engine, c: C, of: Of, params: unknown) => Promise<Result>;

const COMMANDS: Readonly<Record<string, Run>> = {
  "run.start": startRun,
  "input.respond": respond,
  "state.get": stateOf,
  "agent.getTree": treeOf,
};
/** Known to clients, and nobody's stock client needs them. */
const UNSERVED = new Set(["input.inject", "state.listCheckpoints", "state.fork", "subscription.reconnect"]);
const INTERRUPT_ID = /^[0-9a-f]{32}$/;

export type Answer = Readonly<Record<string, unknown>>;

/** Rejects only with what isn't the caller's doing. */
export async function runCommand(engine: Engine, c: C, { id, method, params }: CommandBody): Promise<Answer> {
  const run = Object.hasOwn(COMMANDS, method) ? COMMANDS[method] : undefined;
  if (run === undefined) {
    if (UNSERVED.has(method)) return refusal(id, "not_supported", `${method} is not supported by this server`);
    return refusal(id, "unknown_command", `There is no command ${JSON.stringify(method)}`);
  }
  try {
    const of = { tenantId: c.get("tenantId"), threadId: pathId<ThreadId>(c, "thread_id") };
    const { result, seq } = await run(engine, c, of, params ?? {});
    const applied = seq === undefined ? {} : { applied_through_seq: seq };
    return { type: "success", id, result, meta: { thread_id: of.threadId, ...applied } };
  } catch (error) {
    const known = asEngineError(error);
    if (known === undefined || known.code === "unavailable") throw error;
    return refusal(id, codeOf(known), known.message);
  }
}

export function refusal(id: number | null, error: string, message: string): Answer {
  return { type: "error", id, error, message };
}

function codeOf({ code, details }: EngineError): string {
  const named = details.protocol;
  return typeof named === "string" ? named : (CODES[code] ?? "invalid_argument");
}

const CODES: Partial<Record<ErrorCode, string>> = {
  not_pending: "no_such_interrupt",
  forbidden: "permission_denied",
  internal: "unknown_error",
};

/** An input while a question is open answers it, unless it begins at a checkpoint. */
async function startRun(engine: Engine, c: C, of: Of, given: unknown): Promise<Result> {
  const { multitaskStrategy, langsmith_tracer: _none, ...params } = readAs(runStartParams, given);
  const asked = { ...params, multitask_strategy: params.multitask_strategy ?? multitaskStrategy };
  const { input, ...rest } = asked;
  const begins = checkpointNamed(params.config) || (input ?? null) === null;
  const command = commandIn(input);
  const answers = !begins && command === undefined && (await pendingApprovals(engine.deps.db, of)).length > 0;
  const how = answers ? { command: { resume: input } } : command === undefined ? { input } : { command };
  const body = readAs(runCreate, { ...rest, ...how, if_not_exists: "create" });
  const { run } = await makeRun(engine, c, { threadId: of.threadId, body, waits: false, protocol: true }).catch(
    (error: unknown) => {
      if (isEngineError(error, "not_found") && checkpointNamed(params.config)) throw named(error, "no_such_checkpoint");
      throw error;
    },
  );
  engine.deps.notifier.notify("threads", of.threadId);
  // 0: what comes before the run's beginning is of earlier runs. A client knows the run by its id.
  return { result: { run_id: run.runId }, seq: 0 };
}

/** LangGraph's `RemoteGraph` has no other way for a `Command`. */
function commandIn(input: unknown): unknown {
  const { lg_name: name, ...command } = (input ?? {}) as { lg_name?: unknown };
  return name === "Command" ? command : undefined;
}

function checkpointNamed(config: unknown): boolean {
  const { configurable } = (config ?? {}) as { configurable?: { checkpoint_id?: unknown } | null };
  return (configurable?.checkpoint_id ?? null) !== null;
}

async function respond(engine: Engine, c: C, of: Of, given: unknown): Promise<Result> {
  const { responses, update, goto, config, metadata } = readAs(respondParams, given);
  const thread = await findThread(engine, of);
  const graphId = thread && graphIdOf(thread);
  if (thread === undefined || graphId === undefined) throw nothingRan(of);
  const unknown = responses.find(({ interrupt_id }) => !INTERRUPT_ID.test(interrupt_id));
  if (unknown !== undefined) {
    throw new EngineError(
      "not_pending",
      `Interrupt ${unknown.interrupt_id.slice(0, 64)} is not open on thread ${of.threadId}`,
    );
  }
  const resume = Object.fromEntries(responses.map(({ interrupt_id, response }) => [interrupt_id, response ?? null]));
  const body = readAs(runCreate, {
    assistant_id: assistantIdOf(thread, graphId),
    command: { resume, update, goto },
    config,
    metadata,
  });
  await makeRun(engine, c, { threadId: of.threadId, body, waits: false, protocol: true });
  engine.deps.notifier.notify("threads", of.threadId);
  return { result: {}, seq: 0 };
}

async function stateOf(engine: Engine, _c: C, of: Of, given: unknown): Promise<Result> {
  const { namespace = [], keys } = readAs(stateParams, given);
  const thread = await findThread(engine, of);
  if (thread === undefined) throw nothingRan(of);
  const ofThread = { tenantId: of.tenantId, thread };
  const state =
    namespace.length === 0
      ? await getState(engine, ofThread, { subgraphs: false })
      : await getStateAt(engine, ofThread, { checkpoint_ns: namespace.join("|") }, { subgraphs: false });
  const { checkpoint_id: id, checkpoint_ns: ns } = state.checkpoint ?? {};
  if (namespace.length > 0 && !id) {
    throw named(new EngineError("not_found", `Nothing is stored under ${namespace.join("|")}`), "no_such_namespace");
  }
  const values = Object.entries((state.values ?? {}) as Readonly<Record<string, unknown>>);
  const shown = Object.fromEntries(values.filter(([key]) => keys === undefined || keys.includes(key)));
  return { result: { values: shown, ...(id ? { checkpoint: { id, ns } } : {}) } };
}

async function treeOf(engine: Engine, _c: C, of: Of, given: unknown): Promise<Result> {
  const { run_id: runId } = readAs(treeParams, given);
  const run =
    runId === undefined ? await currentRun(engine, of) : await getRun(engine.deps.db, { ...of, runId: runId as RunId });
  if (run === undefined) throw nothingRan(of);
  const events = createRunEvents(run);
  for await (const _event of storedEvents(engine, run, events));
  return { result: { tree: events.tree.shape() } };
}

function nothingRan({ threadId }: Of): EngineError {
  return named(new EngineError("not_found", `Nothing has run on thread ${threadId} yet`), "no_such_run");
}

/** The same error under the protocol's own name. */
function named(error: EngineError, protocol: string): EngineError {
  return new EngineError(error.code, error.message, { cause: error, details: { ...error.details, protocol } });
}
