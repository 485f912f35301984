// From how the graph stopped to the outcome of the attempt.
import { isGraphDrained } from "@langchain/langgraph";
import type { Pregel } from "@langchain/langgraph";
import { EngineError, isEngineError } from "../../core/errors.js";
import { isTransientDbError } from "../../core/retry.js";
import type { Outcome, RunError } from "../../core/run.js";
import { sleepOf } from "../sleep.js";

type StateSnapshot = Awaited<ReturnType<Pregel<Record<string, never>, Record<string, never>>["getState"]>>;

/** How long a run waits before it tries again when Postgres or the object store was out of reach. */
const AWAY_RETRY_MS = 3_000;

/** The graph stopped by itself: finished, waiting for people, or sleeping. */
export function outcomeOf(state: StateSnapshot): Exclude<Outcome, { kind: "error" | "released" }> {
  const checkpointId = (state.config.configurable?.["checkpoint_id"] as string | undefined) ?? null;
  if (state.next.length === 0) return { kind: "success", checkpointId };
  const open = state.tasks.flatMap((task) =>
    (task.interrupts ?? []).flatMap(({ id, value }) => (id === undefined ? [] : [{ id, value, node: task.name }])),
  );
  const questions = open.filter(({ value }) => sleepOf(value) === undefined);
  const wakes = open.flatMap(({ value }) => sleepOf(value) ?? []);
  // Someone's answer comes first: the sleeping branch is looked at again when the thread goes on.
  if (questions.length === 0 && wakes.length > 0) {
    return { kind: "sleeping", checkpointId, until: new Date(Math.min(...wakes.map((wake) => wake.getTime()))) };
  }
  const unique = new Map(questions.map(({ id, node }) => [id, { interruptId: id, node }]));
  return { kind: "interrupted", checkpointId, interrupts: [...unique.values()] };
}

/** What a failed attempt means: give the run back, end it, or (undefined) say nothing, since it isn't ours any more. */
export function failureOutcome(
  error: unknown,
  why: Readonly<{ commitError: unknown; aborted: boolean; checkpointId: string | null }>,
): Extract<Outcome, { kind: "error" | "released" }> | undefined {
  const cause = why.commitError ?? error;
  if (isEngineError(cause, "lease_lost")) return undefined;
  // Our own stores were away, not the graph's doing: another attempt goes on from the last checkpoint.
  const away =
    why.commitError === undefined ? isEngineError(error, "unavailable") : isTransientDbError(why.commitError);
  if (away) return { kind: "released", afterMs: AWAY_RETRY_MS };
  const stopped = why.commitError === undefined && (why.aborted || isGraphDrained(error as Error));
  if (stopped) return { kind: "released", afterMs: 0 };
  return { kind: "error", checkpointId: why.checkpointId, error: describeError(cause) };
}

/** An error as the run keeps it. Things that aren't errors can be thrown too. */
export function describeError(error: unknown): RunError {
  if (error instanceof EngineError) return { code: error.code, type: error.name, message: error.message };
  if (error instanceof Error) {
    return {
      code: codeOf(error),
      type: error.name,
      message: error.message,
      ...(error.stack === undefined ? {} : { stack: error.stack }),
    };
  }
  return { code: "graph_error", type: "Error", message: String(error) };
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
