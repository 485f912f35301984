// From how the graph stopped to the outcome of the attempt.
import { inspect } from "node:util";
import { isGraphDrained, type StateSnapshot } from "@langchain/langgraph";
import type { OpenInterrupt } from "../../checkpoint/pending.js";
import type { ApprovalPolicy } from "../../core/approval.js";
import { BudgetExceeded } from "../../core/budget.js";
import { EngineError, isEngineError } from "../../core/errors.js";
import { classify, type Failure } from "../../core/failure.js";
import type { RunPolicy } from "../../core/policy.js";
import { backoffMs, isTransientDbError } from "../../core/retry.js";
import type { OutageOutcome, Outcome, RunError } from "../../core/run.js";
import { questionOf } from "../approval-policy.js";
import { EDGE_ATTEMPTS } from "../edge.js";
import { remainingNodes } from "../open-questions.js";
import { sleepOf } from "../sleep.js";

/** How long a run waits before it tries again when Postgres or the object store was out of reach: longer with each attempt. */
const AWAY_RETRY_MS = 3_000;
const AWAY_RETRY_CAP_MS = 60_000;

/** The graph stopped by itself: finished, waiting for people, or sleeping. */
export function outcomeOf(
  state: StateSnapshot,
  open: readonly OpenInterrupt[],
  defaults: ApprovalPolicy,
): Extract<Outcome, { kind: "success" | "interrupted" | "sleeping" }> {
  const checkpointId = (state.config.configurable?.["checkpoint_id"] as string | undefined) ?? null;
  if (remainingNodes(state, open).length === 0) return { kind: "success", checkpointId };
  const questions = open.filter(({ value }) => sleepOf(value) === undefined);
  const wakes = open.flatMap(({ value }) => sleepOf(value) ?? []);
  const wakeAt = wakes.length === 0 ? null : new Date(Math.min(...wakes.map((wake) => wake.getTime())));
  if (questions.length === 0 && wakeAt !== null) return { kind: "sleeping", checkpointId, until: wakeAt };
  const nodeOf = new Map(state.tasks.map((task) => [task.id, task.name]));
  const unique = new Map(
    questions.map(({ id, taskId, value }) => [
      id,
      questionOf({ id, node: nodeOf.get(taskId) ?? null, value }, defaults),
    ]),
  );
  return { kind: "interrupted", checkpointId, interrupts: [...unique.values()], wakeAt };
}

/** What a failed attempt means: give the run back, end it, or (undefined) say nothing, since it isn't ours any more. */
export function failureOutcome(
  error: unknown,
  why: Readonly<{
    /** What ended the graph from outside, before it failed itself: its stores, or a call that took too long. */
    cutOffBy: unknown;
    aborted: boolean;
    /** We asked the graph to stop: only then does it mean us when it says that it did. */
    draining: boolean;
    checkpointId: string | null;
    attempt: number;
    random: number;
    policy: RunPolicy;
    /** What is out of reach, when the failure itself doesn't say. */
    provider: string;
    nowMs: number;
    /** It has the cheaper model already. */
    cheaper: boolean;
  }>,
): Extract<Outcome, { kind: "success" | "error" | "released" | "retry" | "outage" }> | undefined {
  const cause = why.cutOffBy ?? error;
  if (cause instanceof BudgetExceeded) return atCap(cause, why);
  if (isEngineError(cause, "lease_lost")) return undefined;
  // Our own stores were away, not the graph's doing: another attempt goes on from the last checkpoint.
  const away = why.cutOffBy === undefined ? isEngineError(error, "unavailable") : isTransientDbError(why.cutOffBy);
  if (away) {
    const afterMs = backoffMs(why.attempt, why.random, AWAY_RETRY_MS, AWAY_RETRY_CAP_MS);
    return { kind: "released", afterMs };
  }
  const drained = why.draining && error instanceof Error && isGraphDrained(error);
  const stopped = why.cutOffBy === undefined && (why.aborted || drained);
  if (stopped) return { kind: "released", afterMs: 0 };
  return failed(cause, why);
}

/** The next call of a model doesn't fit into a budget: what was chosen for that. */
function atCap(
  why: BudgetExceeded,
  {
    policy: { budget },
    cheaper,
    checkpointId,
  }: Readonly<{ policy: RunPolicy; cheaper: boolean; checkpointId: string | null }>,
): Extract<Outcome, { kind: "success" | "error" | "released" }> {
  if (budget.atCap === "finish") return { kind: "success", checkpointId, endedBy: why.code };
  if (budget.atCap === "model" && !cheaper) return { kind: "released", afterMs: 0, cheaper: true };
  const error = { code: why.code, type: why.name, message: why.message };
  return { kind: "error", checkpointId, error, waitsFor: "person" };
}

function failed(
  cause: unknown,
  why: Readonly<{ checkpointId: string | null; policy: RunPolicy; provider: string; nowMs: number }>,
): Extract<Outcome, { kind: "error" | "retry" | "outage" }> {
  const failure = classify(cause, why.nowMs);
  const { mode, outagePatienceMs: patienceMs } = why.policy;
  const maxAttempts = mode === "edge" ? Math.min(why.policy.maxAttempts, EDGE_ATTEMPTS) : why.policy.maxAttempts;
  const ended = { checkpointId: why.checkpointId, error: describeError(cause, failure) };
  const afterMs = failure.retryAfterMs ?? 0;
  switch (failure.class) {
    case "outage":
      return { kind: "outage", ...ended, provider: failure.host ?? why.provider, afterMs, patienceMs, called: true };
    case "retryable":
      return { kind: "retry", ...ended, afterMs, maxAttempts };
    case "content":
    case "permanent":
      return { kind: "error", ...ended, waitsFor: null };
  }
}

/** What a run that isn't even started waits for, since others found that out of reach. */
export function waitsForProvider(provider: string, policy: RunPolicy): OutageOutcome {
  const message = `${provider} can't be reached or is overloaded; the run waits for it`;
  const error = { code: "unreachable", type: "ProviderAway", message };
  const patience = { afterMs: 0, patienceMs: policy.outagePatienceMs };
  return { kind: "outage", checkpointId: null, error, provider, ...patience, called: false };
}

/** An error as the run keeps it. Things that aren't errors can be thrown too, and errors can be made of anything. */
export function describeError(error: unknown, failure?: Failure): RunError {
  try {
    const described = describe(error);
    const code = failure?.code ?? null;
    return described.code === "graph_error" && code !== null ? { ...described, code } : described;
  } catch {
    return { code: "graph_error", type: "Error", message: "an error that can't be read" };
  }
}

function describe(error: unknown): RunError {
  if (error instanceof EngineError) return { code: error.code, type: error.code, message: error.message };
  if (!(error instanceof Error)) return { code: "graph_error", type: "Error", message: textOf(error) };
  const { stack } = error;
  return {
    code: codeOf(error),
    type: typeName(error.name),
    message: textOf(error.message),
    ...(typeof stack === "string" ? { stack } : {}),
  };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : inspect(value);
}

/** The type stands in text columns and events, which are no place for content nor for what Postgres can't hold. */
function typeName(name: unknown): string {
  return typeof name === "string" && /^[\x20-\x7e]{1,80}$/.test(name) ? name : "Error";
}

/** LangGraph's own limits and refusals get a code that a client can test for; everything else is the graph's. */
function codeOf(error: Error): string {
  switch (error.name) {
    case "GraphRecursionError":
      return "recursion_limit";
    case "UnknownInterruptError":
      return "not_pending";
    case "EmptyInputError":
      return "empty_input";
    case "InvalidUpdateError":
      return "invalid_update";
    default:
      return "graph_error";
  }
}
