// Inside the transaction of a local effect nothing is waited for but the database: a model, a tool or another effect would hold
// the transaction open for as long as it takes.
import { AsyncLocalStorage } from "node:async_hooks";
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { patchConfig } from "@langchain/core/runnables";
import { AsyncLocalStorageProviderSingleton } from "@langchain/core/singletons";
import { EngineError } from "../core/errors.js";
import { shared } from "../core/shared.js";

const scope = shared("local_effect", () => new AsyncLocalStorage<string>());

/** Runs `work` so that calls of models and tools from it fail with `effect_refused`. */
export function inLocalEffect<T>(tool: string, config: object, work: () => Promise<T>): Promise<T> {
  const guarded = patchConfig(config, { callbacks: [new Refusal(tool)] });
  return scope.run(tool, () => AsyncLocalStorageProviderSingleton.runWithConfig<Promise<T>>(guarded, work));
}

/** Throws `effect_refused` inside of one. */
export function refuseInLocalEffect(what: string): void {
  const tool = scope.getStore();
  if (tool !== undefined) throw refused(tool, what);
}

function refused(tool: string, what: string): EngineError {
  return new EngineError(
    "effect_refused",
    `${what} was called inside the transaction of the local effect "${tool}": call it before or after, or make the tool remote`,
    { details: { tool } },
  );
}

class Refusal extends BaseCallbackHandler {
  readonly name = "perdure_local_effect";
  override readonly awaitHandlers = true;
  override readonly raiseError = true;

  constructor(private readonly tool: string) {
    super();
  }
  override handleChatModelStart(): never {
    throw refused(this.tool, "A model");
  }
  override handleLLMStart(): never {
    throw refused(this.tool, "A model");
  }
  override handleToolStart(): never {
    throw refused(this.tool, "A tool");
  }
}
