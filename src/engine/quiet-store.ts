// LangGraph puts a queue in front of a graph's store, for each run and each graph in it, and looks into it every millisecond for as long
// as the run goes on. Hundreds of runs that wait for a model would keep a processor busy with that alone.
import { AsyncBatchedStore, type BaseStore, type Operation } from "@langchain/langgraph-checkpoint";

/** What we use of it; private there, so that another version may be without. */
type Queue = {
  store: BaseStore;
  queue: Map<number, { operation: Operation; resolve(value: unknown): void; reject(reason: unknown): void }>;
  enqueueOperation(operation: Operation): Promise<unknown>;
  processBatchQueue(): Promise<void>;
};

const DONE = Symbol.for("perdure.quiet_store");

/**
 * Has the queues of this process do their work when there is some, as they do it else: all that was asked for in one turn is one batch.
 * Does nothing where LangGraph's queue is made otherwise than it was.
 */
export function quietStoreQueues(): void {
  const queue = AsyncBatchedStore.prototype as unknown as Queue & { [DONE]?: true };
  const isKnown = typeof queue.enqueueOperation === "function" && typeof queue.processBatchQueue === "function";
  if (!isKnown || queue[DONE]) return;
  queue[DONE] = true;
  const enqueue = queue.enqueueOperation;
  queue.enqueueOperation = function (operation) {
    const result = enqueue.call(this, operation);
    if (this.queue.size === 1) setImmediate(() => void work(this));
    return result;
  };
  queue.processBatchQueue = () => Promise.resolve();
}

async function work(queue: Queue): Promise<void> {
  const batch = [...queue.queue.values()];
  queue.queue.clear();
  try {
    const results = await queue.store.batch(batch.map(({ operation }) => operation));
    for (const [i, { resolve }] of batch.entries()) resolve(results[i]);
  } catch (error) {
    for (const { reject } of batch) reject(error);
  }
}
