// What the main thread and the heartbeat thread say to each other.
import { createHash } from "node:crypto";
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

/** What the connection of an owner's heartbeat is called: while there is one, the process lives. Names have 63 bytes at most. */
export function heartbeatName(owner: string): string {
  return `perdure heartbeat ${createHash("sha256").update(owner).digest("hex").slice(0, 24)}`;
}
