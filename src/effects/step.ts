// A piece of a node that is not done again when the node is entered again: after a crash, a question or an error further down.
import { getConfig } from "@langchain/langgraph";
import { type EffectSpec, rowFor } from "./effect-spec.js";
import { type CallConfig, hashOfArgs, keyOf, taskOf } from "./identity.js";
import { effectsOf, type EffectsPort } from "./port.js";
import { runEffect } from "./run-effect.js";

/** Steps have no limit of their own: what is slow in them has one. */
const NO_LIMIT_MS = 2 ** 31 - 1;

/**
 * Runs `fn` once per entry of the node, as far as that can be known, and keeps what it returns: a node that is entered again gets
 * the kept value. If the process dies while `fn` runs, it runs again: what must not happen twice is a `durableTool`. Within a node
 * each step needs a name of its own.
 *
 * @example const page = await step("fetch page", () => fetch(url).then((response) => response.text()));
 * @throws EngineError `value_unsupported` when the value can't be kept
 */
export async function step<T>(name: string, fn: () => Promise<T> | T): Promise<T> {
  const config = getConfig() as CallConfig | undefined;
  const port = effectsOf(config);
  if (config === undefined || port === undefined) return fn();
  return (await keepOnce(port, config, { name: `step:${name}`, work: async () => fn() })) as T;
}

/** The value of `work`, which is done once in this task of the graph. */
function keepOnce(
  port: EffectsPort,
  config: CallConfig,
  { name, work }: Readonly<{ name: string; work: () => Promise<unknown> }>,
): Promise<unknown> {
  const task = taskOf(config);
  const identity = { key: keyOf(port, ["step", task, name]), argsHash: hashOfArgs(null), epoch: 0, task };
  const base = { port, config, identity, tool: name, args: null, kind: "none" as const, policy: "retry" as const };
  const spec: EffectSpec = {
    ...base,
    timeoutMs: NO_LIMIT_MS,
    dedupeWindowMs: 0,
    rowAs: (status) => rowFor(base, status),
    before: () => Promise.resolve(null),
    perform: work,
    lookup: null,
    aborted: () => Promise.resolve(null),
  };
  return runEffect(spec);
}
