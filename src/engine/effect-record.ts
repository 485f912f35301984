// A row of the ledger as people and programs read it: without content, under the wire's names.
import type { EffectRow } from "../effects/effect.js";

export type EffectRecord = ReturnType<typeof effectRecord>;

export function effectRecord(effect: EffectRow) {
  return {
    key: effect.key,
    thread_id: effect.threadId,
    run_id: effect.runId,
    attempt: effect.attempt,
    tool: effect.tool,
    args_hash: effect.argsHash,
    kind: effect.kind,
    policy: effect.policy,
    status: effect.status,
    calls: effect.attempts,
    epoch: effect.epoch,
    error_code: effect.errorCode,
    resolution: effect.resolution,
    compensated_at: effect.compensatedAt,
    created_at: effect.createdAt,
    updated_at: effect.updatedAt,
  };
}
