// States of a run, and how an attempt at it can end.
import type { Question } from "./approval.js";

export type RunStatus = "pending" | "running" | "interrupted" | "success" | "error" | "timeout";
export type ThreadStatus = "idle" | "busy" | "interrupted" | "error";
export type MultitaskStrategy = "reject" | "enqueue" | "interrupt" | "rollback";

/** What failed, for people and programs. `message` and `stack` are content: they live in a body, never in a log. */
export type RunError = Readonly<{ code: string; type: string; message: string; stack?: string }>;

/** How an attempt ended. The executor makes one; settling writes it. */
export type Outcome =
  /** `endedBy`: the graph wasn't at its end. */
  | Readonly<{ kind: "success"; checkpointId: string | null; endedBy?: "budget_exceeded" }>
  | Readonly<{
      kind: "interrupted";
      checkpointId: string | null;
      interrupts: readonly Question[];
      /** When another branch, which sleeps beside the questions, goes on. */
      wakeAt: Date | null;
    }>
  /** Parked until an instant (`sleepUntil`): the same run goes on then. */
  | Readonly<{ kind: "sleeping"; checkpointId: string | null; until: Date }>
  /** `waitsFor`: a person has to decide what becomes of it. */
  | Readonly<{ kind: "error"; checkpointId: string | null; error: RunError; waitsFor: "person" | null }>
  /** Failed in a way that may pass: tried again after `afterMs`, unless that was the last of `maxAttempts` in a row. */
  | Readonly<{ kind: "retry"; checkpointId: string | null; error: RunError; afterMs: number; maxAttempts: number }>
  | OutageOutcome
  /** Given back untouched (shutdown, a store out of reach): no crash is counted. It may start again after `afterMs`, perhaps with the cheaper model. */
  | Readonly<{ kind: "released"; afterMs: number; cheaper?: boolean }>;

/** What the run calls is overloaded or away: waits until that may have passed, for `patienceMs` at most. Counts as no failure. */
export type OutageOutcome = Readonly<{
  kind: "outage";
  checkpointId: string | null;
  error: RunError;
  provider: string;
  /** Not sooner than this. */
  afterMs: number;
  patienceMs: number;
  /** False when it wasn't called, since others had found it out of reach. */
  called: boolean;
}>;

/** The order in the queue: the less, the sooner. Each gets a share all the same. */
export const PRIORITY = { interactive: 0, resumed: 1, scheduled: 2, outreach: 3 } as const;
export type PriorityName = keyof typeof PRIORITY;
export type Priority = (typeof PRIORITY)[PriorityName];
export const PRIORITY_NAMES = [
  "interactive",
  "resumed",
  "scheduled",
  "outreach",
] as const satisfies readonly PriorityName[];

/** Whether a run, once it has stored something, has taken the thread away from the questions that were open before. */
export function supersedes(run: Readonly<{ kind: "run" | "edit"; resumes: boolean }>): boolean {
  return run.kind === "edit" || !run.resumes;
}

/**
 * Whether an unfinished run has its place in its thread's order. A delayed one joins when its time has come, one that waits for an
 * answer when it is given; one that sleeps keeps it, and so does one that waits for more messages.
 */
export function isInOrder(
  run: Readonly<{ head: boolean; availableAt: Date | null; mergeUntil: Date | null; waitsFor: string | null }>,
): boolean {
  return run.head || ((run.availableAt === null || run.mergeUntil !== null) && run.waitsFor !== "approval");
}

/** After this many claims that ended with a dead worker and without progress, a person decides. */
export const MAX_CRASHES = 3;

/** What ended a run well before its graph was at its end; null: nothing did. */
export function endedBy({
  status,
  errorCode,
}: Readonly<{ status: RunStatus; errorCode: string | null }>): string | null {
  return status === "success" ? errorCode : null;
}

export function isFinished(status: RunStatus): boolean {
  return status !== "pending" && status !== "running";
}
