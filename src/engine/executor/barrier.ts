// Before a model or a tool starts, what came before it is durable and the lease is still ours.
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";

/** A callback handler that makes LangChain wait, and fails the step when the lease is gone. */
export class DurabilityBarrier extends BaseCallbackHandler {
  readonly name = "perdure_durability_barrier";
  override readonly awaitHandlers = true;
  override readonly raiseError = true;

  constructor(
    private readonly flushed: () => Promise<void>,
    private readonly signal: AbortSignal,
  ) {
    super();
  }

  override handleChatModelStart(): Promise<void> {
    return this.pass();
  }
  override handleLLMStart(): Promise<void> {
    return this.pass();
  }
  override handleToolStart(): Promise<void> {
    return this.pass();
  }

  private async pass(): Promise<void> {
    await this.flushed();
    this.signal.throwIfAborted();
  }
}
