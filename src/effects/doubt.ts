// A call that began, and nobody knows whether it was done: its worker died, or it failed in a way that leaves it open.
import { EngineError } from "../core/errors.js";
import { ask } from "./ask.js";
import type { FoundEffect, Resolution } from "./effect.js";
import { type EffectSpec, rowAs } from "./effect-spec.js";
import { refuse, succeed } from "./call.js";

const OPTIONS = ["retry", "done", "abort"] as const;

/** The result or what stands for it; or that the call is to be made again, and who says so. */
export type Settled = Readonly<{ value: unknown }> | Readonly<{ again: Resolution }>;

/** Finds out, or asks, or does what the policy says. */
export async function settleDoubt(spec: EffectSpec, found: FoundEffect): Promise<Settled> {
  const row = await asUnknown(spec, found);
  if (row.resolution?.how === "abort" && row.question?.open !== true) return { value: await spec.aborted() };
  if (spec.lookup !== null) {
    const looked = await spec.lookup(row.key);
    if (looked?.done === true) return done(spec, row, looked.result, { by: "lookup", how: "done" });
    if (looked?.done === false) return { again: { by: "lookup", how: "retry" } };
  }
  switch (spec.policy) {
    case "retry":
      return { again: { by: "policy", how: "retry" } };
    case "fail":
      throw refuse(spec, inDoubt(spec));
    case "ask":
    case "lookup":
      return asked(spec, row);
  }
}

async function asUnknown(spec: EffectSpec, row: FoundEffect): Promise<FoundEffect> {
  if (row.status === "unknown") return row;
  const { callId, question } = row;
  await spec.port.move({ ...rowAs(spec, "unknown"), callId, question, errorCode: "worker_lost" });
  return { ...row, status: "unknown" };
}

async function asked(spec: EffectSpec, row: FoundEffect): Promise<Settled> {
  const { tool, args, identity } = spec;
  const question = `Nobody knows whether "${tool}" was done: ${row.errorCode === "worker_lost" || row.errorCode === null ? "its worker was lost" : "its call failed"} before it was recorded.`;
  const value = { kind: "unknown_effect", question, tool, args, key: identity.key, options: OPTIONS };
  const answer = answerOf(await ask(spec, row, value));
  switch (answer.how) {
    case "retry":
      return { again: { by: "person", how: "retry" } };
    case "done":
      return done(spec, row, answer.result, { by: "person", how: "done" });
    case "abort":
      await spec.port.move({
        ...rowAs(spec, "unknown"),
        callId: row.callId,
        question: row.question && { ...row.question, open: false },
        resolution: { by: "person", how: "abort" },
      });
      return { value: await spec.aborted() };
  }
}

async function done(spec: EffectSpec, row: FoundEffect, result: unknown, resolution: Resolution): Promise<Settled> {
  const value = result === undefined ? `"${spec.tool}" was done.` : result;
  const question = row.question && { ...row.question, open: false };
  await succeed(spec, { ...rowAs(spec, "unknown"), callId: row.callId, question, resolution }, value);
  return { value };
}

type Answer = Readonly<{ how: (typeof OPTIONS)[number]; result?: unknown }>;

/** "retry", or `{type: "done", result}`; whatever else it is, it is no permission to do it again. */
function answerOf(answer: unknown): Answer {
  const given = typeof answer === "object" && answer !== null ? (answer as Record<string, unknown>) : { type: answer };
  const how = OPTIONS.find((option) => option === given["type"]) ?? "abort";
  return { how, result: given["result"] };
}

function inDoubt({ identity, tool }: EffectSpec): EngineError {
  const message = `Nobody knows whether the effect ${identity.key} of the tool "${tool}" was done; find out, then go on from a state after it`;
  return new EngineError("effect_unknown", message, { details: { key: identity.key, tool } });
}
