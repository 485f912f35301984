// What the engine hands to the tools of an attempt, in the config of its graph: the ledger of its run's thread. By shape, not by
// import: a project has its own copy of this package.
import type { RunId, TenantId, ThreadId } from "../core/ids.js";
import type { Sql } from "../core/deps.js";
import type { FollowupLimits } from "../core/followup-limits.js";
import type { EffectMove, FoundEffect, UndeclaredTools } from "./effect.js";
import type { TaskCalls } from "./task-calls.js";

/** Where the executor puts it. RemoteGraph sends on all of a configuration but for what begins as LangGraph's own keys do. */
export const EFFECTS = "__pregel_perdure_effects";

export type Flying = Readonly<{ argsHash: string; done: Promise<unknown> }>;

export type EffectsPort = Readonly<{
  tenantId: TenantId;
  threadId: ThreadId;
  runId: RunId;
  attempt: number;
  /** What happens with a cut-off call of a tool that declares nothing; null: nothing of the run is stored. */
  undeclared: UndeclaredTools | null;
  /** What may be promised for later. */
  followups: FollowupLimits;
  /** Aborted when the attempt may do nothing more. */
  signal: AbortSignal;
  find(
    of: Readonly<{ key: string; tool: string; argsHash: string; withinMs: number }>,
  ): Promise<Readonly<{ own: FoundEffect | undefined; twin: FoundEffect | undefined }>>;
  /** Those of the thread with one of the keys, or called in one of the tasks; newest first. */
  findAll(of: Readonly<{ keys: readonly string[]; tasks: readonly string[] }>): Promise<readonly FoundEffect[]>;
  /** Notes of a call that was begun by another attempt that nobody knows what became of it. */
  doubt(effect: FoundEffect): Promise<void>;
  /** Durable when it resolves, and so is all that the graph did before. Rejects with `lease_lost` when the run isn't ours. */
  move(move: EffectMove): Promise<void>;
  /** Does a local effect: `work` and the ledger's row in one transaction, or none of it. Gives what `work` returned. */
  local(move: EffectMove, work: (tx: Sql) => Promise<unknown>): Promise<unknown>;
  /** The bytes to keep. Throws `value_unsupported` naming the tool when a part of it can't be kept. */
  encode(value: unknown, tool: string): Buffer;
  /** What a succeeded effect returned, from wherever that is now. */
  resultOf(effect: FoundEffect): Promise<unknown>;
  /** Ends the run with this error, whoever catches it, and lets it store nothing more. */
  refuse(error: Error): void;
  /** The calls that are being made, by key. */
  flying: Map<string, Flying>;
  /** What is going on in each task of the graph, or in a tool's call in it. */
  tasks: Map<string, TaskCalls>;
}>;

type Config = Readonly<{ configurable?: Readonly<Record<string, unknown>> | undefined }>;

/** Undefined outside of perdure. */
export function effectsOf(config: Config | undefined): EffectsPort | undefined {
  return config?.configurable?.[EFFECTS] as EffectsPort | undefined;
}
