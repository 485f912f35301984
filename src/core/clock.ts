// Time as an argument, and what a lease is. Instants that decide anything come from Postgres; this clock is for waiting.
import type { RunId, TenantId, ThreadId } from "./ids.js";

export type Clock = Readonly<{
  /** Milliseconds that only grow: for deadlines inside one process. */
  monotonicMs(): number;
  /** Resolves after `ms`, or at once when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}>;

/** The right to write for a run: proven in every statement by run, attempt and owner. */
export type Lease = Readonly<{
  tenantId: TenantId;
  threadId: ThreadId;
  runId: RunId;
  attempt: number;
  /** Unique per process start, so that a claim lost in a failover can't be made twice with one fence. */
  owner: string;
}>;
