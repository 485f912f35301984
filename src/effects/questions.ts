// What must be asked before the first call of an effect, in the order it is asked.
import { EngineError } from "../core/errors.js";
import { takeAnswers, ask } from "./ask.js";
import type { FoundEffect } from "./effect.js";
import type { EffectSpec } from "./effect-spec.js";
import { messageFor } from "./messages.js";

/** What of a tool's options decides what is asked. */
type Asking = Readonly<{
  tier?: "auto" | "approval" | "forbidden" | undefined;
  failureCost?: number | undefined;
  reversibility?: number | undefined;
}>;
type Wanted = Readonly<{ value: object; no: () => Promise<unknown> }>;

/** Null when it may be called; else what stands for its result. `twin` is the same call of a moment ago. */
export async function questionsFirst(
  spec: EffectSpec,
  options: Asking,
  row: FoundEffect | undefined,
  twin: FoundEffect | undefined,
): Promise<Readonly<{ value: unknown }> | null> {
  const given = takeAnswers(spec.config, row, spec.identity.scope);
  for (const [i, { value, no }] of wantedOf(spec, options, twin).entries()) {
    const answer = i < given.length ? given[i] : await ask(spec, row, value);
    if (!isYes(answer)) return { value: await no() };
  }
  return null;
}

function wantedOf(spec: EffectSpec, options: Asking, twin: FoundEffect | undefined): Wanted[] {
  const { tool: name, args, identity } = spec;
  const { tier, failureCost = null, reversibility = null } = options;
  const facts = { tool: name, args, key: identity.key };
  const wanted: Wanted[] = [];
  if (tier === "approval" || identity.epoch > 0) {
    const again = identity.epoch > 0 ? ` again (epoch ${identity.epoch})` : "";
    const question = `Do "${name}"${again}?`;
    const details = { failure_cost: failureCost, reversibility, options: ["approve", "reject"] };
    wanted.push({
      value: { kind: "approve_effect", question, ...facts, ...details },
      no: () => Promise.resolve(insteadOf(spec, `"${name}" was not approved, and not done.`)),
    });
  }
  if (twin !== undefined) {
    const how = twin.status === "succeeded" ? "was done" : "may have been done";
    const question = `The same "${name}" ${how} a moment ago. Do it once more?`;
    const value = { kind: "repeated_effect", question, ...facts, earlier_key: twin.key, options: ["repeat", "skip"] };
    wanted.push({ value, no: () => earlier(spec, twin) });
  }
  return wanted;
}

const YES = new Set<unknown>([true, "yes", "approve", "accept", "repeat", "run"]);

function isYes(answer: unknown): boolean {
  const { type } = (typeof answer === "object" && answer !== null ? answer : { type: answer }) as { type?: unknown };
  return YES.has(type);
}

async function earlier(spec: EffectSpec, twin: FoundEffect): Promise<unknown> {
  if (twin.status === "succeeded") return spec.port.resultOf(twin);
  return insteadOf(spec, `"${spec.tool}" was not done again; whether it was done before isn't known.`);
}

/** A model is told; a node that called by itself gets an error. */
export function insteadOf({ tool, config }: Pick<EffectSpec, "tool" | "config">, content: string): unknown {
  const id = config.toolCall?.id;
  if (id === undefined) throw new EngineError("effect_refused", content, { details: { tool } });
  return messageFor({ name: tool, id }, content);
}
