// The run record: one JSON that says what a run is doing, what it cost, what it waits for and where its content is: the minimum
// that a person or another program needs to take it up. What nothing fills yet is null.
import { pendingApprovals } from "../approvals/approvals.js";
import { runSpan, type RunSpan } from "../checkpoint/run-span.js";
import { isBodyLost, isEngineError } from "../core/errors.js";
import type { Sql } from "../core/deps.js";
import { seedOf } from "../core/seed.js";
import { endedBy, isFinished, type RunError } from "../core/run.js";
import { listEffects } from "../effects/queries.js";
import { manifestOfRun } from "../runs/manifests.js";
import type { RunRow } from "../runs/runs.js";
import { getThread } from "../runs/threads.js";
import { attentionOf } from "./attention.js";
import { decodeRequest, type RunRequest } from "./commands/request.js";
import { type SaidUsage, spendingOf } from "./budgets.js";
import { type EffectRecord, effectRecord } from "./effect-record.js";
import type { Engine } from "./engine.js";
import { manifestKey } from "./manifest.js";
import { type Json, renderJson } from "./render.js";
import { loadRunContent } from "./run-content.js";
import { getStateAt, readSaver } from "./state.js";
import { fieldsOf } from "./stream/shapes.js";

const MOST_EFFECTS = 100;

type Fields = Readonly<Record<string, unknown>>;
type State = Readonly<{ values: Fields; next: readonly string[] }>;

/** Under the wire's names. `…_uri` are places in the object store, null until what they name was moved there. */
export async function runRecord(engine: Engine, run: RunRow) {
  const { db } = engine.deps;
  const [span, manifest, asked, effects] = await Promise.all([
    runSpan(db, run, { upTo: null }),
    manifestUri(engine, run),
    pendingApprovals(db, run),
    effectsOf(db, run),
  ]);
  const state = await stateOf(engine, run, span);
  const messages = messagesOf(state.values);
  const said = await saidUsage(engine, run, span, messages);
  const spending = await spendingOf(db, run, engine.policyOf(run.graphId).budget, said);
  const attention = attentionOf(run);
  const { request, failure } = await contentOf(engine, run);
  const facts = { code: run.errorCode, type: run.errorType };
  const approval = asked.find(({ runId }) => runId === run.runId);
  return {
    run_id: run.runId,
    tenant_id: run.tenantId,
    thread_id: run.threadId,
    assistant_id: run.assistantId,
    assistant_version: run.assistantVersion,
    agent_version: run.agentVersion,
    pinned_to: run.pin === "" ? null : run.pin,
    model: modelOf(messages),
    current_step: stepOf(run, state, messages.at(-1)),
    status: run.status,
    attempt: run.attempt,
    messages_uri: manifest && `${manifest}#/messages`,
    tool_results_uri: manifest && `${manifest}#/tool_results`,
    plan: planOf(state.values),
    pending_approval: approval
      ? {
          approval_id: approval.approvalId,
          interrupt_id: approval.interruptId,
          node: approval.node,
          asked_at: approval.askedAt,
        }
      : null,
    needs_attention: attention && { ...attention, last_step: state.next[0] ?? null },
    effects,
    cost_so_far: spending.cost,
    token_so_far: spending.tokens,
    budget: spending.budget,
    seed: seedOf(run.runId, request?.config.configurable),
    result_uri: resultUri(engine, run, span),
    trace_id: null,
    ended_by: endedBy(run),
    error:
      run.errorCode === null || run.status === "success"
        ? null
        : { ...facts, message: failure?.message ?? run.errorPreview },
    created_at: run.createdAt,
    updated_at: run.updatedAt,
  };
}

/** The newest calls of its tools, also those that are being made; `/v1/effects` has all of them. */
async function effectsOf(db: Sql, { tenantId, runId }: RunRow): Promise<EffectRecord[]> {
  const all = { threadId: null, status: null, limit: MOST_EFFECTS, offset: 0 };
  return (await listEffects(db, { tenantId, runId, ...all })).map(effectRecord);
}

async function manifestUri({ deps }: Engine, run: RunRow): Promise<string | null> {
  const packId = (await manifestOfRun(deps.db, run))?.packId ?? null;
  return packId === null ? null : `${deps.bodies.uri}/${manifestKey(run, packId)}`;
}

/** The record of the checkpoint a run ended with: a line of its pack. */
function resultUri({ deps }: Engine, run: RunRow, span: RunSpan | undefined): string | null {
  if (!isFinished(run.status) || span === undefined || span.packKey === null) return null;
  return `${deps.bodies.uri}/${span.packKey}#${span.checkpointId}`;
}

const LOST = ["not_found", "graph_invalid", "expired"] as const;
const NOTHING: State = { values: {}, next: [] };

/** A record is to be had without the graph, and without what was lost. */
async function stateOf(engine: Engine, run: RunRow, span: RunSpan | undefined): Promise<State> {
  const { tenantId, threadId } = run;
  const thread = await getThread(engine.deps.db, { tenantId, threadId });
  if (thread === undefined || span === undefined) return NOTHING;
  const address = { checkpoint_id: span.checkpointId, checkpoint_ns: "" };
  try {
    const { values, next } = await getStateAt(engine, { tenantId, thread }, address, { subgraphs: false });
    return { values: fieldsOf(values) ?? {}, next };
  } catch (error) {
    if (isBodyLost(error) || LOST.some((code) => isEngineError(error, code))) return NOTHING;
    throw error;
  }
}

function messagesOf(values: Fields): Fields[] {
  const list: readonly unknown[] = Array.isArray(values["messages"]) ? values["messages"] : [];
  return list.map(fieldsOf).filter((message) => message !== undefined);
}

/** What the last answer says it came from. */
function modelOf(messages: readonly Fields[]): string | null {
  for (const message of messages.toReversed()) {
    const { model_name: name, model } = fieldsOf(message["response_metadata"]) ?? {};
    const said = name ?? model;
    if (typeof said === "string") return said;
  }
  return null;
}

/** Nodes in which LangChain's own agents ask their model. */
const MODEL_NODES = new Set(["model_request", "agent"]);

function stepOf(run: RunRow, { next }: State, last: Fields | undefined): string {
  if (run.cancelReason !== null) return "cancelled";
  if (run.status === "success") return "finished";
  if (run.status === "error" || run.status === "timeout") return "failed";
  if (run.waitsFor === "approval") return "awaiting_approval";
  if (run.waitsFor === "provider") return "awaiting_provider";
  if (run.waitsFor === "timer") return "awaiting_timer";
  if (run.status === "pending") return "queued";
  const [node] = next;
  if (node === undefined) return run.begun ? "finishing" : "starting";
  if (MODEL_NODES.has(node)) return "llm_call";
  const calls = last?.["tool_calls"];
  return Array.isArray(calls) && calls.length > 0 ? "tool_execution" : `node:${node}`;
}

/** The graph's own plan, when it keeps one. */
function planOf(values: Fields): Json {
  const plan = [values["plan"], values["todos"]].find((list) => Array.isArray(list));
  return renderJson(plan ?? []) ?? [];
}

/** What the messages this run added say that they took. */
async function saidUsage(
  engine: Engine,
  run: RunRow,
  span: RunSpan | undefined,
  messages: readonly Fields[],
): Promise<readonly SaidUsage[]> {
  const counted = messages.flatMap((message) => {
    const usage = fieldsOf(message["usage_metadata"]);
    return typeof usage?.["total_tokens"] === "number" ? [{ message, usage, tokens: usage["total_tokens"] }] : [];
  });
  if (counted.length === 0) return [];
  const before = new Set(await idsBefore(engine, run, span));
  return counted
    .filter(({ message }) => !before.has(message["id"]))
    .map(({ message, usage, tokens }) => ({
      model: modelOf([message]),
      tokens,
      inputTokens: Number(usage["input_tokens"]) || 0,
      outputTokens: Number(usage["output_tokens"]) || 0,
    }));
}

/** Ids of the messages that were there when the run began. */
async function idsBefore(engine: Engine, run: RunRow, span: RunSpan | undefined): Promise<unknown[]> {
  const base = span?.base?.checkpointId;
  if (base === undefined) return [];
  const configurable = { thread_id: run.threadId, checkpoint_ns: "", checkpoint_id: base };
  const tuple = await readSaver(engine, run.tenantId).getTuple({ configurable });
  return messagesOf(tuple?.checkpoint.channel_values ?? {}).map((message) => message["id"]);
}

type Content = Readonly<{ request: RunRequest | null; failure: RunError | null }>;

/** What it was asked and what it failed with; nulls where that isn't kept any more. */
async function contentOf({ deps, bodyReader }: Engine, run: RunRow): Promise<Content> {
  try {
    const content = await loadRunContent(deps, run.tenantId, run.runId, { stream: false, bodyReader });
    const request = content.request === null ? null : decodeRequest(content.request);
    return { request, failure: content.error as RunError | null };
  } catch (error) {
    if (!isBodyLost(error) && !isEngineError(error, "expired")) throw error;
    return { request: null, failure: null };
  }
}
