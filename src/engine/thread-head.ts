// The head of a thread: what it holds and what it waits for, as single threads, thread lists and run results show it.
import type { BaseCheckpointSaver, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { openInterrupts } from "../checkpoint/pending.js";
import { readNewestTuples } from "../checkpoint/read-tuples.js";
import { KnowingSaver, Saver } from "../checkpoint/saver.js";
import { isBodyLost, isEngineError } from "../core/errors.js";
import type { TenantId, ThreadId } from "../core/ids.js";
import type { ThreadRow } from "../runs/threads.js";
import type { Engine } from "./engine.js";
import { shownToClients } from "./hitl.js";
import { sleepOf } from "./sleep.js";
import { getStateAt, type OfThread, readSaver } from "./state.js";
import type { ThreadState, WireInterrupt } from "./thread-state.js";

export type ThreadHead = Readonly<{
  /** Null: nothing was stored yet. */
  values: unknown;
  /** By task: the open questions of every task of the head checkpoint. */
  interrupts: Readonly<Record<string, readonly WireInterrupt[]>>;
  next: readonly string[];
  checkpointId: string | null;
  /** Why the head can't be read. */
  error?: string;
}>;

export const EMPTY_HEAD: ThreadHead = { values: null, interrupts: {}, next: [], checkpointId: null };

/** So many threads of a list are read with one statement. */
const AT_ONCE = 50;

async function readHead(engine: Engine, of: OfThread, saver: BaseCheckpointSaver<string>): Promise<ThreadHead> {
  try {
    return headOf(await getStateAt(engine, of, {}, { subgraphs: false }, saver));
  } catch (error) {
    // A graph that was taken out of the project must not make its threads unreadable.
    if (!isEngineError(error, "not_found") && !isEngineError(error, "graph_invalid")) throw error;
    return rawHead(of, saver);
  }
}

function headOf(state: ThreadState): ThreadHead {
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
  for (let from = 0; from < threads.length; from += AT_ONCE) {
    const batch = threads.slice(from, from + AT_ONCE);
    const saver = await prefetch(engine, tenantId, batch);
    for (const thread of batch) heads.set(thread.threadId, await readThreadHead(engine, { tenantId, thread }, saver));
  }
  return heads;
}

/** A saver that has the heads of these threads already; one that reads them singly when one of them is broken. */
async function prefetch(
  engine: Engine,
  tenantId: TenantId,
  threads: readonly ThreadRow[],
): Promise<BaseCheckpointSaver<string>> {
  const options = { sql: engine.deps.db, tenantId, bodies: engine.bodyReader, commit: null };
  const ids = threads.map((thread) => thread.threadId);
  try {
    return new KnowingSaver(options, await readNewestTuples(options, ids, ""));
  } catch (error) {
    if (!isBodyLost(error)) throw error;
    return new Saver(options);
  }
}

/** The head, or why it can't be read: a thread whose bodies are lost can still be found, labelled and deleted. */
export async function readThreadHead(
  engine: Engine,
  of: OfThread,
  saver: BaseCheckpointSaver<string> = readSaver(engine, of.tenantId),
): Promise<ThreadHead> {
  try {
    return await readHead(engine, of, saver);
  } catch (error) {
    if (!isBodyLost(error)) throw error;
    return { ...EMPTY_HEAD, error: error.message };
  }
}

/** Without its graph a checkpoint still says what its channels hold; LangGraph's own channels are left out. */
async function rawHead(of: OfThread, saver: BaseCheckpointSaver<string>): Promise<ThreadHead> {
  const tuple = await saver.getTuple({ configurable: { thread_id: of.thread.threadId, checkpoint_ns: "" } });
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
  const byTask: Record<string, WireInterrupt[]> = {};
  for (const { taskId, id, value } of openInterrupts(tuple)) {
    if (sleepOf(value) === undefined) (byTask[taskId] ??= []).push({ id, value: shownToClients(value) });
  }
  return byTask;
}
