// One call of a tool with an effect, from what the ledger says of it to its result: at most one call per intent, and where nobody
// knows whether it was done, the tool's policy decides.
import { EngineError, isEngineError } from "../core/errors.js";
import { call, refuse } from "./call.js";
import { settleDoubt } from "./doubt.js";
import type { FoundEffect, Resolution } from "./effect.js";
import { type EffectSpec, isRepeatable } from "./effect-spec.js";
import { refuseInLocalEffect } from "./local-scope.js";
import { taskCalls, whileRunning, whileWaiting } from "./task-calls.js";

/** The result. Two branches that want the same get the same; `effect_conflict` for other arguments under one key. */
export async function runEffect(spec: EffectSpec): Promise<unknown> {
  const { port, identity, tool, kind } = spec;
  if (kind !== "none") refuseInLocalEffect(`The tool "${tool}"`);
  for (let flying = port.flying.get(identity.key); flying !== undefined; flying = port.flying.get(identity.key)) {
    const { done } = flying;
    if (flying.argsHash === identity.argsHash) return whileWaiting(done);
    // The other one is not cut off by it.
    await whileWaiting(done.catch(() => undefined));
    // Some models give all calls of a message the same id.
    if (!isRepeatable(spec)) throw refuse(spec, conflict(spec));
  }
  const done = whileRunning(taskCalls(port.tasks, identity.scope), () => findAndRun(spec));
  port.flying.set(identity.key, { argsHash: identity.argsHash, done });
  try {
    return await done;
  } finally {
    port.flying.delete(identity.key);
  }
}

async function findAndRun(spec: EffectSpec): Promise<unknown> {
  const { port, identity, tool, dedupeWindowMs: withinMs } = spec;
  const { own, twin } = await port.find({ key: identity.key, tool, argsHash: identity.argsHash, withinMs });
  const isOther = own !== undefined && own.argsHash !== identity.argsHash;
  if (isOther && !isRepeatable(spec)) throw refuse(spec, conflict(spec));
  const counts = !isRepeatable(spec) || (!isOther && own?.task === identity.task);
  if (own?.status === "succeeded" && counts) {
    try {
      return await port.resultOf(own);
    } catch (error) {
      // What may be repeated is, when what it returned isn't kept any more.
      if (!isRepeatable(spec) || !isEngineError(error, "expired")) throw error;
    }
  }
  if (own?.status === "failed" && own.compensatedAt !== null) throw refuse(spec, undone(spec));
  let row: FoundEffect | undefined = own;
  for (;;) {
    let resolution: Resolution | null = null;
    if (row?.status === "started" || row?.status === "unknown") {
      const settled = await settleDoubt(spec, row);
      if ("value" in settled) return settled.value;
      resolution = settled.again;
    } else if (row?.status !== "failed") {
      const instead = await spec.before(row, twin);
      if (instead !== null) return instead.value;
    }
    const called = await call(spec, row, resolution);
    if ("value" in called) return called.value;
    row = called.doubtful;
  }
}

function conflict({ identity, tool }: EffectSpec): EngineError {
  const message = `The effect ${identity.key} of the tool "${tool}" was called with other arguments before: another intent needs another key (another tool call, or a new effect_epoch)`;
  return new EngineError("effect_conflict", message, { details: { key: identity.key, tool } });
}

function undone({ identity, tool }: EffectSpec): EngineError {
  const message = `The effect ${identity.key} of the tool "${tool}" was undone; to do it again, run with a new effect_epoch`;
  return new EngineError("effect_conflict", message, { details: { key: identity.key, tool } });
}
