// The head of a thread: what it holds and what it waits for, as single threads, thread lists and run results show it.
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { isEngineError } from "../core/errors.js";
import type { TenantId, ThreadId } from "../core/ids.js";
import type { ThreadRow } from "../runs/threads.js";
import type { Engine } from "./engine.js";
import { getState, type OfThread, readSaver } from "./state.js";
import type { ThreadState, WireInterrupt } from "./thread-state.js";

export type ThreadHead = Readonly<{
  /** Null: nothing was stored yet. */
  values: unknown;
  /** By task: the open questions of every task of the head checkpoint. */
  interrupts: Readonly<Record<string, readonly WireInterrupt[]>>;
  next: readonly string[];
  checkpointId: string | null;
}>;

export const EMPTY_HEAD: ThreadHead = { values: null, interrupts: {}, next: [], checkpointId: null };

/** So many threads of a list are read at a time. */
const AT_ONCE = 8;

export async function readThreadHead(engine: Engine, of: OfThread): Promise<ThreadHead> {
  try {
    return headOf(await getState(engine, of, { subgraphs: false }));
  } catch (error) {
    // A graph that was taken out of the project must not make its threads unreadable.
    if (!isEngineError(error, "not_found") && !isEngineError(error, "graph_invalid")) throw error;
    return rawHead(engine, of);
  }
}

export function headOf(state: ThreadState): ThreadHead {
  if (state.checkpoint === null) return EMPTY_HEAD;
  return {
    values: state.values,
    interrupts: Object.fromEntries(state.tasks.map((task) => [task.id, task.interrupts])),
    next: state.next,
    checkpointId: state.checkpoint.checkpoint_id,
  };
}

/** The heads of a list of threads. */
export async function readThreadHeads(
  engine: Engine,
  tenantId: TenantId,
  threads: readonly ThreadRow[],
): Promise<ReadonlyMap<ThreadId, ThreadHead>> {
  const heads = new Map<ThreadId, ThreadHead>();
  const waiting = threads.values();
  const reader = async (): Promise<void> => {
    for (const thread of waiting) heads.set(thread.threadId, await readThreadHead(engine, { tenantId, thread }));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, reader));
  return heads;
}

/** Without its graph a checkpoint still says what its channels hold; LangGraph's own channels are left out. */
async function rawHead(engine: Engine, of: OfThread): Promise<ThreadHead> {
  const config = { configurable: { thread_id: of.thread.threadId, checkpoint_ns: "" } };
  const tuple: CheckpointTuple | undefined = await readSaver(engine, of.tenantId).getTuple(config);
  if (tuple === undefined) return EMPTY_HEAD;
  const values = Object.entries(tuple.checkpoint.channel_values).filter(([name]) => !/^(__|branch:)/.test(name));
  return {
    values: Object.fromEntries(values),
    interrupts: questionsByTask(tuple),
    next: [],
    checkpointId: tuple.checkpoint.id,
  };
}

function questionsByTask(tuple: CheckpointTuple): Record<string, readonly WireInterrupt[]> {
  const asked = (tuple.pendingWrites ?? []).filter(([, channel]) => channel === "__interrupt__");
  return Object.fromEntries(asked.map(([taskId, , value]) => [taskId, value as readonly WireInterrupt[]]));
}
