// Reading and editing the state of a thread through its graph: now, at a checkpoint, over its history.
// A thread without a graph has the empty state, which clients rely on.
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { systemAssistantId } from "../assistants/queries.js";
import { createSaver, type Saver } from "../checkpoint/saver.js";
import type { Lease } from "../core/clock.js";
import { EngineError, isEngineError } from "../core/errors.js";
import { type AssistantId, isUuid, type TenantId } from "../core/ids.js";
import { isTransientDbError } from "../core/retry.js";
import { listRuns } from "../runs/runs.js";
import type { ThreadRow } from "../runs/threads.js";
import { checkpointMadeBefore } from "./commands/edit-made-before.js";
import { editThread } from "./commands/edit-thread.js";
import type { Once } from "./commands/make-once.js";
import type { Engine } from "./engine.js";
import type { GraphConfig, RunnableGraph } from "./graphs.js";
import { unknownNode } from "./refuse-unknown.js";
import { readOpenHead } from "./open-head.js";
import { openQuestions } from "./open-questions.js";
import { requestOf } from "./run-shape.js";
import { EMPTY_STATE, type ThreadState, toThreadState } from "./thread-state.js";

/** A place in a thread's history; nothing in it means the newest state of the root graph. */
export type StateAddress = Readonly<{
  checkpoint_ns?: string | undefined;
  checkpoint_id?: string | undefined;
  checkpoint_map?: Readonly<Record<string, unknown>> | undefined;
}>;

type GraphThread = Pick<ThreadRow, "threadId" | "metadata" | "config">;
export type OfThread = Readonly<{ tenantId: TenantId; thread: GraphThread }>;

/** The newest state. */
export function getState(
  engine: Engine,
  of: OfThread,
  options: Readonly<{ subgraphs: boolean }>,
): Promise<ThreadState> {
  return getStateAt(engine, of, {}, options);
}

/** The state at an address. Throws `not_found` when it names a checkpoint or subgraph that isn't there. */
export async function getStateAt(
  engine: Engine,
  of: OfThread,
  address: StateAddress,
  options: Readonly<{ subgraphs: boolean }>,
  saver: BaseCheckpointSaver<string> = readSaver(engine, of.tenantId),
): Promise<ThreadState> {
  const graph = await openGraph(engine, of, saver);
  if (graph === undefined) {
    if (address.checkpoint_id !== undefined) throw checkpointNotFound(of.thread, address.checkpoint_id);
    return EMPTY_STATE;
  }
  const state = await reading(of, async () => {
    const snapshot = await graph.getState(configOf(of, address), options);
    return toThreadState(snapshot, await openQuestions(snapshot, saver));
  });
  if (address.checkpoint_id !== undefined && state.checkpoint === null) {
    throw checkpointNotFound(of.thread, address.checkpoint_id);
  }
  return state;
}

/** States newest first: those before a checkpoint, of one namespace, whose metadata contains the filter. */
export async function getHistory(
  engine: Engine,
  of: OfThread,
  page: Readonly<{
    limit: number;
    before?: string | undefined;
    metadata?: Readonly<Record<string, unknown>> | undefined;
    address?: StateAddress | undefined;
  }>,
): Promise<ThreadState[]> {
  const { deps, bodyReader } = engine;
  const saver = createSaver({
    sql: deps.db,
    tenantId: of.tenantId,
    commit: null,
    bodies: bodyReader,
    markBroken: true,
  });
  const graph = await openGraph(engine, of, saver);
  if (graph === undefined) return [];
  const config = configOf(of, page.address ?? {});
  const options = {
    limit: page.limit,
    ...(page.before !== undefined && {
      before: { configurable: { ...config.configurable, checkpoint_id: page.before } },
    }),
    ...(page.metadata !== undefined && { filter: page.metadata }),
  };
  return reading(of, async () => {
    const states: ThreadState[] = [];
    for await (const snapshot of graph.getStateHistory(config, options)) states.push(toThreadState(snapshot));
    return states;
  });
}

/**
 * Edits the state as if `asNode` had returned `values` (`null` as `__end__` ends what is going on), on the newest state or
 * on the one addressed. A request that comes again gets what the first has stored.
 * Throws `thread_busy`, `not_found`, and `bad_request` when the graph can't take the update.
 */
export async function updateState(
  engine: Engine,
  of: OfThread,
  update: Readonly<{ values: unknown; asNode: string | undefined; address: StateAddress; once: Once | null }>,
): Promise<Readonly<{ checkpoint: EditedCheckpoint; again: boolean }>> {
  const { thread, tenantId } = of;
  const graphId = graphIdOf(thread);
  if (graphId === undefined) throw new EngineError("bad_request", `Thread ${thread.threadId} has no graph ID`);
  const { once } = update;
  const ns = update.address.checkpoint_ns ?? "";
  const { threadId } = thread;
  const before = once && (await checkpointMadeBefore(engine.deps, once, { threadId, ns }));
  if (before) {
    return { checkpoint: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: before }, again: true };
  }
  const edit = {
    ...engine.edits,
    once,
    tenantId,
    threadId: thread.threadId,
    graphId,
    assistantId: assistantIdOf(thread, graphId),
  };
  if (update.address.checkpoint_id !== undefined) {
    await getStateAt(engine, of, update.address, { subgraphs: false });
  }
  const checkpoint = await editThread(engine.deps, edit, async (lease) => {
    const saver = writeSaver(engine, lease, { writesWithPut: true });
    const graph = await openGraph(engine, of, saver, "threads.update");
    if (graph === undefined) throw new EngineError("internal", `Thread ${thread.threadId} lost its graph`);
    refuseUnknownNode(graph, graphId, update);
    const config = configOf(of, { ...update.address, checkpoint_ns: ns });
    const withRun = { ...config, metadata: { run_id: lease.runId } };
    const next = await applying(() => graph.updateState(withRun, update.values as never, update.asNode));
    const { checkpointId, hasNext, interrupts } = await readOpenHead(
      graph,
      saver,
      thread.threadId,
      engine.approvals(graphId),
    );
    return { value: editedCheckpoint(next, thread.threadId), checkpointId, hasNext, interrupts };
  });
  return { checkpoint, again: false };
}

/** Names of LangGraph's own that an edit may be made as. */
const EDITED_AS = ["__end__", "__input__", "__copy__"];

/** Throws `bad_request`. Of a subgraph's nodes LangGraph knows more than the root does. */
export function refuseUnknownNode(
  graph: RunnableGraph,
  graphId: string,
  { asNode, address }: Readonly<{ asNode: string | undefined; address: StateAddress }>,
): void {
  if (asNode === undefined || (address.checkpoint_ns ?? "") !== "") return;
  const nodes = Object.keys(graph.nodes);
  if (nodes.includes(asNode) || EDITED_AS.includes(asNode)) return;
  throw new EngineError("bad_request", `as_node: ${unknownNode(asNode, graphId, nodes)}`);
}

/** The graph of a thread on a saver of our own; undefined when no run or caller has said which graph it is. */
export async function openGraph(
  engine: Engine,
  of: OfThread,
  saver: BaseCheckpointSaver<string>,
  accessContext: "threads.read" | "threads.update" = "threads.read",
): Promise<RunnableGraph | undefined> {
  const graphId = graphIdOf(of.thread);
  if (graphId === undefined) return undefined;
  const config = await madeWith(engine, of, graphId);
  const shared = await engine.graphs.get(graphId, config, { accessContext, executionRuntime: null });
  const graph = shared.withConfig({});
  // LangGraph's type fixes versions to numbers; its code compares whatever the saver makes.
  graph.checkpointer = saver as unknown as BaseCheckpointSaver;
  return graph;
}

/** What a factory was given for the thread's newest run: states are read and edited through the graph that wrote them. */
async function madeWith(engine: Engine, { tenantId, thread }: OfThread, graphId: string): Promise<GraphConfig> {
  const own = thread.config.configurable as Readonly<Record<string, unknown>> | undefined;
  const plain = own === undefined ? {} : { configurable: own };
  if (!engine.graphs.isMade(graphId)) return plain;
  const [run] = await listRuns(engine.deps.db, { tenantId, threadId: thread.threadId, limit: 1, offset: 0 });
  const request = run && (await requestOf(engine, run));
  if (!request) return plain;
  return { configurable: { ...own, ...request.config.configurable }, context: request.context };
}

export function readSaver(engine: Engine, tenantId: TenantId): BaseCheckpointSaver<string> {
  return createSaver({ sql: engine.deps.db, tenantId, commit: null, bodies: engine.bodyReader });
}

/** For edits. Past its lease a commit is refused anyway, so there is no use in trying longer than that. */
export function writeSaver(
  { deps, bodyReader, edits }: Engine,
  lease: Lease,
  {
    signal = AbortSignal.timeout(edits.leaseMs),
    writesWithPut = false,
  }: Readonly<{ signal?: AbortSignal; writesWithPut?: boolean }> = {},
): Saver {
  return createSaver({
    sql: deps.db,
    tenantId: lease.tenantId,
    runId: lease.runId,
    attempt: lease.attempt,
    commit: edits.combiner.forLease(lease, signal),
    bodies: bodyReader,
    largeBodies: { deps, threadId: lease.threadId },
    writesWithPut,
  });
}

/** Stamped on the thread by its first run, or given when it was created. */
export function graphIdOf(thread: Pick<ThreadRow, "metadata">): string | undefined {
  const { graph_id } = thread.metadata;
  return typeof graph_id === "string" ? graph_id : undefined;
}

/** The assistant whose state it is: of the thread's first run, or the graph's own. */
export function assistantIdOf(thread: Pick<ThreadRow, "metadata">, graphId: string): AssistantId {
  const { assistant_id } = thread.metadata;
  return typeof assistant_id === "string" && isUuid(assistant_id)
    ? (assistant_id as AssistantId)
    : systemAssistantId(graphId);
}

function configOf(of: OfThread, address: StateAddress) {
  const given = Object.entries(address).filter(([, value]) => value !== undefined);
  return { configurable: { ...Object.fromEntries(given), thread_id: of.thread.threadId as string } };
}

type EditedCheckpoint = Readonly<{ thread_id: string; checkpoint_ns: string; checkpoint_id: string }>;

function editedCheckpoint(
  config: Readonly<{ configurable?: Record<string, unknown> }>,
  threadId: string,
): EditedCheckpoint {
  return {
    thread_id: threadId,
    checkpoint_ns: String(config.configurable?.checkpoint_ns ?? ""),
    checkpoint_id: String(config.configurable?.checkpoint_id),
  };
}

function checkpointNotFound(thread: GraphThread, checkpointId: string): EngineError {
  return new EngineError("not_found", `Checkpoint ${checkpointId} not found on thread ${thread.threadId}`);
}

/** Errors of the graph's own code while its state is read get a code; ours and the database's keep theirs. */
async function reading<T>(of: OfThread, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (isEngineError(error) || isTransientDbError(error)) throw error;
    const what = error instanceof Error ? error.name : typeof error;
    throw new EngineError(
      "graph_invalid",
      `Graph "${graphIdOf(of.thread)}" can't read the state of thread ${of.thread.threadId}: it threw ${what}`,
      { cause: error },
    );
  }
}

/** What LangGraph or a reducer refuses is the caller's to mend. */
export async function applying<T>(apply: () => Promise<T>): Promise<T> {
  try {
    return await apply();
  } catch (error) {
    if (isEngineError(error) || isTransientDbError(error)) throw error;
    const what = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    throw new EngineError("bad_request", `The update can't be applied. ${what}`, { cause: error });
  }
}
