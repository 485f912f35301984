// Before a model or a tool starts, what came before it is durable and the lease is still ours. Before anything else starts,
// what waits to be durable isn't more than memory should hold: only here can a graph be made to wait.
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { CallbackManager, CallbackManagerForChainRun } from "@langchain/core/callbacks/manager";

/** What of a saver the barrier waits for. */
type Durable = Readonly<{ flushed(): Promise<void>; isBehind(): boolean }>;
type ChainStart = Parameters<CallbackManager["handleChainStart"]>;

/**
 * Between the steps of a graph LangGraph itself waits until they are stored, but not between the tasks that a node calls. So
 * a functional graph has a barrier, and any other as soon as a node of it was seen to call a task.
 */
export type Barriers = Readonly<{
  /** What to run the graph with, so that it waits for `saver` and ends when `signal` aborts. */
  before(
    graph: object,
    graphId: string,
    saver: Durable,
    signal: AbortSignal,
    /** More that want to be told of calls; with any, LangChain does all of its work for all of them. */
    others: readonly BaseCallbackHandler[],
  ): { callbacks?: CallbackManager };
  callsTasks(graphId: string): void;
}>;

export function createBarriers(): Barriers {
  const callTasks = new Set<string>();
  return {
    before(graph, graphId, saver, signal, others) {
      const isFunctional = !("builder" in graph);
      const waits = isFunctional || callTasks.has(graphId);
      if (!waits && others.length === 0) return {};
      const callbacks = waits ? new BarrierCallbacks(new DurabilityBarrier(saver, signal)) : new CallbackManager();
      for (const other of others) callbacks.addHandler(other, true);
      return { callbacks };
    },
    callsTasks: (graphId) => void callTasks.add(graphId),
  };
}

/** A callback handler that makes LangChain wait, and fails the step when the lease is gone. */
class DurabilityBarrier extends BaseCallbackHandler {
  readonly name = "perdure_durability_barrier";
  override readonly awaitHandlers = true;
  override readonly raiseError = true;

  constructor(
    private readonly saver: Durable,
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

/**
 * LangChain copies the manager for each of the many small runnables of a node, with all its tags and metadata. While there is
 * nobody but the barrier to be told of them, a copy is one small object; with another handler it is like any other.
 */
class BarrierCallbacks extends CallbackManager {
  private readonly origin: this = this;

  constructor(private readonly barrier: DurabilityBarrier) {
    super();
    super.addHandler(barrier, true);
  }

  private isAlone(): boolean {
    return this.handlers.length === 1 && this.handlers[0] === this.barrier;
  }

  override copy(more: BaseCallbackHandler[] = [], inherit = true): CallbackManager {
    return this.isAlone() && more.length === 0
      ? (Object.create(this.origin) as CallbackManager)
      : super.copy(more, inherit);
  }

  /** A copy's lists are still those it was copied from. */
  override addHandler(handler: BaseCallbackHandler, inherit = true): void {
    this.handlers = [...this.handlers];
    this.inheritableHandlers = [...this.inheritableHandlers];
    super.addHandler(handler, inherit);
  }

  override addTags(tags: string[], inherit = true): void {
    if (!this.isAlone()) super.addTags(tags, inherit);
  }

  override addMetadata(metadata: Record<string, unknown>, inherit = true): void {
    if (!this.isAlone()) super.addMetadata(metadata, inherit);
  }

  override async handleChainStart(...start: ChainStart): Promise<CallbackManagerForChainRun> {
    if (!this.isAlone()) return super.handleChainStart(...start);
    await this.barrier.handleChainStart();
    return new BarrierRun(this, start[2] ?? "");
  }
}

/** A chain of which only the barrier knew. */
class BarrierRun extends CallbackManagerForChainRun {
  constructor(
    private readonly manager: CallbackManager,
    runId: string,
  ) {
    super(runId, manager.handlers, manager.inheritableHandlers, [], [], {}, {});
  }

  override getChild(): CallbackManager {
    return this.manager.copy();
  }
  override async handleChainEnd(): Promise<void> {
    // Nobody is told.
  }
  override async handleChainError(): Promise<void> {
    // Nobody is told.
  }
}
