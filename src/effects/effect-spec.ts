// A call of an effect with all that is known of it: what tools of any kind hand to the ledger.
import type { Sql } from "../core/deps.js";
import type { EffectKind, EffectMove, EffectRow, EffectStatus, FoundEffect, OnUnknown } from "./effect.js";
import type { CallConfig, Identity } from "./identity.js";
import type { EffectsPort } from "./port.js";

/** What `lookup` found out: done and with what, not done, or (undefined) it can't tell. */
export type LookedUp = Readonly<{ done: true; result?: unknown }> | Readonly<{ done: false }> | undefined;

export type Performing = Readonly<{ key: string; signal: AbortSignal; tx?: Sql; row: EffectRow | undefined }>;

/** A call with all that is known of it. */
export type EffectSpec = Readonly<{
  port: EffectsPort;
  config: CallConfig;
  identity: Identity;
  tool: string;
  args: unknown;
  kind: EffectKind;
  policy: OnUnknown;
  timeoutMs: number;
  /** Asks before the first call, where it must; gives a value when there is to be none. */
  before(row: FoundEffect | undefined, twin: FoundEffect | undefined): Promise<Readonly<{ value: unknown }> | null>;
  /** How long the same arguments count as the same intent; 0: not at all. */
  dedupeWindowMs: number;
  perform(how: Performing): Promise<unknown>;
  lookup: ((key: string) => Promise<LookedUp>) | null;
  /** What a person aborted: what the graph gets instead of a result. */
  aborted(): Promise<unknown>;
  /** The row in this state, still without its call. */
  rowAs(status: EffectStatus): Omit<EffectMove, "callId">;
}>;

export function rowFor(
  spec: Pick<EffectSpec, "identity" | "tool" | "kind" | "policy">,
  status: EffectStatus,
): Omit<EffectMove, "callId"> {
  const { identity, tool, kind, policy } = spec;
  const { key, argsHash, epoch } = identity;
  const nothing = { replaces: null, result: null, errorCode: null, question: null, resolution: null };
  return { key, tool, argsHash, kind, policy, status, epoch, ...nothing, compensated: false };
}
