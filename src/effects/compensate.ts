// Undoes an effect that may have been done: a remote effect of its own, with the key `comp_<key>`, called at most once as well.
import { randomUUID } from "node:crypto";
import { type EffectSpec, rowFor } from "./effect-spec.js";
import { runEffect } from "./run-effect.js";

export async function compensate(
  spec: EffectSpec,
  undo: (call: Readonly<{ key: string; signal: AbortSignal }>) => Promise<void>,
): Promise<void> {
  const tool = `${spec.tool}.compensate`;
  const identity = { ...spec.identity, key: `comp_${spec.identity.key}` };
  const base = { ...spec, tool, identity, kind: "remote" as const, dedupeWindowMs: 0, lookup: null };
  const nested: EffectSpec = {
    ...base,
    rowAs: (status) => rowFor(base, status),
    before: () => Promise.resolve(null),
    perform: async ({ key, signal }) => {
      await undo({ key, signal });
      return null;
    },
    aborted: () => Promise.resolve(null),
  };
  await runEffect(nested);
  const { own } = await spec.port.find({ ...spec.identity, tool: spec.tool, withinMs: 0 });
  if (own === undefined || own.compensatedAt !== null) return;
  const row = { ...spec.rowAs("failed"), callId: own.callId ?? randomUUID(), question: own.question };
  await spec.port.move({ ...row, errorCode: "compensated", compensated: true });
}
