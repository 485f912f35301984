// What the main thread and the heartbeat thread say to each other.
import type { HeldRun } from "../../runs/claim.js";

export type HeartbeatData = Readonly<{
  databaseUrl: string;
  owner: string;
  leaseMs: number;
  everyMs: number;
  maxBlockMs: number;
  logLevel: string;
  /** One BigInt64: when the main thread's event loop last ticked, as `process.hrtime.bigint()` gives it. */
  ticks: SharedArrayBuffer;
}>;

export type Change =
  | Readonly<{ kind: "hold"; run: HeldRun }>
  | Readonly<{ kind: "drop"; runId: string; attempt: number }>;

export type ToThread = Readonly<{ kind: "changes"; changes: readonly Change[] }> | Readonly<{ kind: "stop" }>;

export type ToMain =
  /** It has reached the database: what it is given to hold is renewed from now on. */
  | Readonly<{ kind: "ready" }>
  | Readonly<{ kind: "renewed"; runIds: readonly string[]; sentAt: bigint }>
  | Readonly<{ kind: "lost"; runId: string; attempt: number }>;
