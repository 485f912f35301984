// A call of an effect with all that is known of it: what tools of any kind hand to the ledger.
import type { Sql } from "../core/deps.js";
import type { EffectMove, EffectRow, EffectStatus, FoundEffect, LedgerKind, OnUnknown } from "./effect.js";
import type { CallConfig, Identity } from "./identity.js";
import type { EffectsPort } from "./port.js";

/** What `lookup` found out: done and with what, not done, or (undefined) it can't tell. */
export type LookedUp = Readonly<{ done: true; result?: unknown }> | Readonly<{ done: false }> | undefined;

export type Performing = Readonly<{ key: string; signal: AbortSignal; tx?: Sql; row: EffectRow | undefined }>;

/** What every call has. */
export type EffectCore = Readonly<{
  port: EffectsPort;
  config: CallConfig;
  identity: Identity;
  tool: string;
  args: unknown;
  kind: LedgerKind;
  policy: OnUnknown;
  perform(how: Performing): Promise<unknown>;
}>;

/** A call with all that is known of it. */
export type EffectSpec = EffectCore &
  Readonly<{
    timeoutMs: number;
    /** Asks before the first call, where it must; gives a value when there is to be none. */
    before(row: FoundEffect | undefined, twin: FoundEffect | undefined): Promise<Readonly<{ value: unknown }> | null>;
    /** How long the same arguments count as the same intent; 0: not at all. */
    dedupeWindowMs: number;
    lookup: ((key: string) => Promise<LookedUp>) | null;
    /** What a person aborted: what the graph gets instead of a result. */
    aborted(): Promise<unknown>;
  }>;

/** What is slow has limits of its own, or the engine's. */
const NO_LIMIT_MS = 2 ** 31 - 1;

/** A call that asks nothing first and looks nothing up, unless it says so. */
export function effectSpec(core: EffectCore, own: Partial<EffectSpec> = {}): EffectSpec {
  return {
    ...core,
    timeoutMs: NO_LIMIT_MS,
    dedupeWindowMs: 0,
    before: () => Promise.resolve(null),
    lookup: null,
    aborted: () => Promise.resolve(null),
    ...own,
  };
}

/** The row in this state, still without its call. */
export function rowAs(
  { identity, tool, kind, policy }: Pick<EffectSpec, "identity" | "tool" | "kind" | "policy">,
  status: EffectStatus,
): Omit<EffectMove, "callId"> {
  const { key, argsHash, epoch, task } = identity;
  const nothing = { replaces: null, result: null, errorCode: null, question: null, resolution: null };
  return { key, tool, argsHash, kind, policy, status, epoch, task, ...nothing, compensated: false };
}

/** It declares nothing and may be made again: its result counts in its own task, and a fork makes it anew. */
export function isRepeatable({ kind, policy }: Pick<EffectSpec, "kind" | "policy">): boolean {
  return kind === "undeclared" && policy === "retry";
}
