// A piece of a node that is not done again when the node is entered again: after a crash, a question or an error further down.
import { getConfig } from "@langchain/langgraph";
import { effectSpec } from "./effect-spec.js";
import { type CallConfig, hashOfArgs, keyOf, scopeOf, taskOf } from "./identity.js";
import { effectsOf } from "./port.js";
import { runEffect } from "./run-effect.js";

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
  // Where nothing is stored, nothing can be kept.
  if (config === undefined || port === undefined || port.undeclared === null) return fn();
  const tool = `step:${name}`;
  const [task, scope] = [taskOf(config), scopeOf(config)];
  const identity = { key: keyOf(port, ["step", scope, tool]), argsHash: hashOfArgs(null), epoch: 0, task, scope };
  const core = { port, config, identity, tool, args: null, kind: "none" as const, policy: "retry" as const };
  return (await runEffect(effectSpec({ ...core, perform: async () => fn() }))) as T;
}
