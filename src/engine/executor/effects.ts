// The ledger of effects as the tools of one attempt see it: its moves go through the lease's commit, behind all that the graph
// stored before.
import type { Lease } from "../../core/clock.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError } from "../../core/errors.js";
import type { FollowupLimits } from "../../core/followup-limits.js";
import { backoffMs, isTransientDbError } from "../../core/retry.js";
import type { BodyReader } from "../../checkpoint/body-reader.js";
import { createDecoder } from "../../checkpoint/codec/decoder.js";
import { encodeInline } from "../../checkpoint/codec/encoder.js";
import type { CheckpointOp } from "../../checkpoint/ops.js";
import type { EffectMove, FoundEffect, UndeclaredTools } from "../../effects/effect.js";
import type { EffectsPort } from "../../effects/port.js";
import { findEffect, findEffects, writeLocalEffect } from "../../effects/queries.js";
import { appendEvent } from "../../runs/events.js";
import { ownsRun } from "../../runs/guard.js";
import type { CommitOp } from "../commit.js";
import { leaseLost } from "../lease-lost.js";
import { loadRunContent } from "../run-content.js";

export type EffectsOptions = Readonly<{
  lease: Lease;
  commit: (op: CommitOp) => Promise<void>;
  /** Resolves when what the graph stored so far is durable. */
  flushed: () => Promise<void>;
  signal: AbortSignal;
  refuse: (error: Error) => void;
  bodyReader: BodyReader;
  /** Nothing of the run is stored. */
  edge: boolean;
  undeclared: UndeclaredTools;
  followups: FollowupLimits;
}>;

/** So often a local effect is begun anew whose transaction the database lost. */
const LOCAL_TRIES = 5;

export function createEffects(deps: Deps, options: EffectsOptions): EffectsPort {
  const { lease, commit, flushed, signal, refuse, bodyReader, edge, undeclared, followups } = options;
  const { tenantId, threadId, runId, attempt } = lease;
  const find: EffectsPort["find"] = (of) => findEffect(deps.db, { tenantId, threadId, ...of });
  const resultOf = async (effect: FoundEffect): Promise<unknown> =>
    decodeResult(effect, effect.result?.toString("utf8") ?? (await movedResult(deps, effect, bodyReader)));
  const move = async (moved: EffectMove): Promise<void> => {
    if (edge) throw noEffects(moved);
    await flushed();
    await commit(opOf(threadId, moved));
  };
  return {
    ...{ tenantId, threadId, runId, attempt, signal, refuse, find, resultOf },
    undeclared: edge ? null : undeclared,
    followups,
    flying: new Map(),
    tasks: new Map(),
    findAll: (of) => findEffects(deps.db, { tenantId, threadId, ...of }),
    async doubt(effect) {
      if (effect.status === "started" && !edge) await move(asUnknown(effect));
    },
    move,
    async local(local, work) {
      if (edge) throw noEffects(local);
      await flushed();
      for (let tries = 1; ; tries += 1) {
        signal.throwIfAborted();
        try {
          return await deps.db.tx((sql) => doLocally(sql, lease, local, work));
        } catch (error) {
          if (!isTransientDbError(error) || tries >= LOCAL_TRIES) throw error;
          // The reply of the commit may be what was lost.
          const { own } = await find({ ...local, withinMs: 0 });
          if (own?.status === "succeeded") return resultOf(own);
          await deps.clock.sleep(backoffMs(tries, deps.random()), signal);
        }
      }
    },
    encode: encodeResult,
  };
}

function noEffects({ tool }: EffectMove): EngineError {
  const message = `The tool "${tool}" has effects, and its graph runs in mode "edge", which keeps nothing: give it mode "durable"`;
  return new EngineError("effect_refused", message, { details: { tool } });
}

function encodeResult(value: unknown, tool: string): Buffer {
  return Buffer.from(encodeInline(value, `result of ${tool}`), "utf8");
}

/** It keeps its call: nobody takes it over, to make it again. */
function asUnknown(effect: FoundEffect): EffectMove {
  const nothing = { replaces: null, result: null, resolution: null, compensated: false };
  return { ...effect, ...nothing, status: "unknown", errorCode: "stopped" };
}

function opOf(threadId: Lease["threadId"], move: EffectMove): CommitOp {
  const nothing: CheckpointOp = {
    threadId,
    nodes: [],
    values: [],
    writes: [],
    checkpoints: [],
    objects: [],
    progress: false,
  };
  return { ...nothing, effects: [move], progress: move.status === "succeeded" };
}

/** The lease is looked at last: until then nothing that others need is locked, and from then on nobody can take it over. */
async function doLocally(
  sql: Sql,
  lease: Lease,
  move: EffectMove,
  work: (tx: Sql) => Promise<unknown>,
): Promise<unknown> {
  const value = await work(sql);
  const result = encodeResult(value, move.tool);
  if (!(await ownsRun(sql, lease))) throw leaseLost(lease);
  if (!(await writeLocalEffect(sql, lease, { ...move, result }))) {
    throw new EngineError(
      "internal",
      `The local effect ${move.key} of "${move.tool}" was done by another call meanwhile`,
    );
  }
  const payload = { key: move.key, tool: move.tool, kind: move.kind, status: move.status };
  await appendEvent(sql, lease, { type: "effect.succeeded", attempt: lease.attempt, payload });
  return value;
}

function decodeResult({ key, tool }: FoundEffect, text: string | null): unknown {
  if (text === null) {
    const message = `The effect ${key} of "${tool}" was done, but its result isn't kept any more`;
    throw new EngineError("expired", message, { details: { key } });
  }
  const noNodes = (): never => {
    throw new EngineError("body_corrupt", `The result of the effect ${key} names a body: it is damaged`);
  };
  return createDecoder(noNodes).decode(text);
}

/** From the record of the run that had it. */
async function movedResult(deps: Deps, effect: FoundEffect, bodyReader: BodyReader): Promise<string | null> {
  const { effects } = await loadRunContent(deps, effect.tenantId, effect.runId, { stream: false, bodyReader });
  const found = effects.find(({ key }) => key === effect.key);
  return found === undefined ? null : JSON.stringify(found.result);
}
