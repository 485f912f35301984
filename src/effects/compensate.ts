// Undoes an effect that may have been done: a remote effect of its own, with the key `comp_<key>`, called at most once as well.
import { randomUUID } from "node:crypto";
import { effectSpec, type EffectSpec, type Performing, rowAs } from "./effect-spec.js";
import { runEffect } from "./run-effect.js";

export async function compensate(
  spec: EffectSpec,
  undo: (call: Readonly<{ key: string; signal: AbortSignal }>) => Promise<void>,
): Promise<void> {
  const tool = `${spec.tool}.compensate`;
  const identity = { ...spec.identity, key: `comp_${spec.identity.key}` };
  const { port, config, args, policy, timeoutMs } = spec;
  const perform = async ({ key, signal }: Performing): Promise<null> => {
    await undo({ key, signal });
    return null;
  };
  const core = { port, config, identity, tool, args, policy, kind: "remote" as const, perform };
  await runEffect(effectSpec(core, { timeoutMs }));
  const { own } = await spec.port.find({ ...spec.identity, tool: spec.tool, withinMs: 0 });
  if (own === undefined || own.compensatedAt !== null) return;
  const row = { ...rowAs(spec, "failed"), callId: own.callId ?? randomUUID(), question: own.question };
  await spec.port.move({ ...row, errorCode: "compensated", compensated: true });
}
