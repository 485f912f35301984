// What is kept of threads and runs, and how long.
import type { RunStatus } from "./run.js";

/** How runs can have ended whose states are to go. */
export const PRUNED_OUTCOMES = ["success", "error", "interrupted", "timeout"] as const satisfies readonly RunStatus[];

/** Which states of a thread may go. */
export type PrunePolicy = Readonly<{
  /** So many of the newest states of each branch stay; at least one. */
  keepLatest: number;
  /** Younger states stay; null: age doesn't matter. */
  olderThanMs: number | null;
  /** Only what runs with these outcomes left goes; null: whatever the outcome. */
  outcomes: readonly RunStatus[] | null;
  /** Only what this run left goes, but for the state it ended in. */
  only?: Readonly<{ runId: string; keeps: string | null }>;
}>;

export type Retention = Readonly<{
  /** The states of threads, of these graphs or of all; null: every state stays. */
  checkpoints: (PrunePolicy & Readonly<{ graphIds: readonly string[] | null }>) | null;
  /** What runs were asked, how they failed, what they streamed, and their logs; null: for ever. */
  runs: Readonly<{ olderThanMs: number }> | null;
}>;
