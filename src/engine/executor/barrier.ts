// Before a model or a tool starts, what came before it is durable and the lease is still ours. Before anything else starts,
// what waits to be durable isn't more than memory should hold: only here can a graph be made to wait.
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";

/** A callback handler that makes LangChain wait, and fails the step when the lease is gone. */
export class DurabilityBarrier extends BaseCallbackHandler {
  readonly name = "perdure_durability_barrier";
  override readonly awaitHandlers = true;
  override readonly raiseError = true;

  constructor(
    private readonly saver: Readonly<{ flushed(): Promise<void>; isBehind(): boolean }>,
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

  override async handleChainStart(): Promise<void> {
    if (this.saver.isBehind()) await this.pass();
  }

  private async pass(): Promise<void> {
    await this.saver.flushed();
    this.signal.throwIfAborted();
  }
}
