// A call of a tool that declares nothing: what it returned is kept by itself, and the questions it asks are its own, also where
// several are called in one task.
import { isGraphInterrupt } from "@langchain/langgraph";
import { ask, answersOf, scratchpadOf } from "./ask.js";
import { type EffectSpec, rowFor } from "./effect-spec.js";
import { type CallConfig, identityOf } from "./identity.js";
import type { EffectsPort } from "./port.js";
import { runEffect } from "./run-effect.js";

/** A tool that hangs is cut off by the engine's own limits, when it has some. */
const NO_LIMIT_MS = 2 ** 31 - 1;

/**
 * `retry`: a call that was cut off is made again, as it always was. `ask`: it counts as an effect, and a person is asked. `work` gets
 * the config to call with, in which a tool's questions are answered with its own answers only.
 */
export function journaledCall(
  port: EffectsPort,
  config: CallConfig,
  call: Readonly<{ tool: string; args: unknown; policy: "ask" | "retry" }>,
  work: (config: CallConfig) => Promise<unknown>,
): Promise<unknown> {
  const { tool, args, policy } = call;
  const identity = identityOf(port, config, { tool, args, explicit: null });
  const kind = policy === "ask" ? ("remote" as const) : ("none" as const);
  const base = { port, config, identity, tool, args, kind, policy };
  const spec: EffectSpec = {
    ...base,
    timeoutMs: NO_LIMIT_MS,
    dedupeWindowMs: 0,
    rowAs: (status) => rowFor(base, status),
    before: () => Promise.resolve(null),
    async perform({ row }) {
      const pad = scratchpadOf(config);
      const own = { ...pad, interruptCounter: -1, resume: answersOf(config, row, identity.task) };
      const configurable = { ...config.configurable, __pregel_scratchpad: own };
      try {
        return await work({ ...config, configurable });
      } catch (error) {
        if (!isGraphInterrupt(error) || policy === "ask") throw error;
        const [question] = error.interrupts;
        return ask(spec, row, question?.value);
      }
    },
    lookup: null,
    aborted: () => Promise.reject(new Error(`"${tool}" was stopped by a person`)),
  };
  return runEffect(spec);
}
