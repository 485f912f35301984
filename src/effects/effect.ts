// What an effect is: a row of the ledger, and what a tool says about its calls. Pure.
import type { RunId, TenantId, ThreadId } from "../core/ids.js";

/** none: nothing outside. local: in this engine's Postgres, with the ledger in one transaction. remote: anywhere else. */
export type EffectKind = "none" | "local" | "remote";
/** undeclared: a call of a tool that doesn't say what it does outside. */
export type LedgerKind = EffectKind | "undeclared";
/** What happens with a cut-off call of a tool that doesn't say: a person is asked, or it is made again. */
export type UndeclaredTools = "ask" | "retry";
export const EFFECT_STATUSES = ["asked", "started", "succeeded", "failed", "unknown"] as const;
export type EffectStatus = (typeof EFFECT_STATUSES)[number];
/** What happens with a call of which nobody knows whether it was done. */
export type OnUnknown = "ask" | "lookup" | "retry" | "fail";

/** The questions asked about a call, counted in its scope: which of the scope's they are; the last may be open. */
export type EffectQuestion = Readonly<{ scope: string; at: readonly number[]; open: boolean }>;
/** Who or what settled a doubt: `by` is "person", "lookup" or "policy". */
export type Resolution = Readonly<{ by: "person" | "lookup" | "policy"; how: string }>;

export type EffectRow = Readonly<{
  tenantId: TenantId;
  key: string;
  threadId: ThreadId;
  runId: RunId;
  attempt: number;
  callId: string;
  tool: string;
  /** sha256 in hex. */
  argsHash: string;
  kind: LedgerKind;
  policy: OnUnknown;
  status: EffectStatus;
  attempts: number;
  epoch: number;
  /** The graph's task that it was called in. */
  task: string;
  errorCode: string | null;
  question: EffectQuestion | null;
  resolution: Resolution | null;
  compensatedAt: Date | null;
  createdAt: Date;
  updatedAt: Date;
}>;

/** A row with its result, as the codec wrote it; null when there is none here (it was moved, or it never had one). */
export type FoundEffect = EffectRow & Readonly<{ result: Buffer | null }>;

/** What is written: the row as it is to be. It takes the place of none, of that with the same call, or of `replaces`. */
export type EffectMove = Readonly<{
  key: string;
  callId: string;
  /** The call that is taken over. */
  replaces: string | null;
  tool: string;
  argsHash: string;
  kind: LedgerKind;
  policy: OnUnknown;
  status: EffectStatus;
  epoch: number;
  task: string;
  result: Buffer | null;
  errorCode: string | null;
  question: EffectQuestion | null;
  resolution: Resolution | null;
  compensated: boolean;
}>;
