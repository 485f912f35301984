// Adopts one thread: takes it, copies it, looks at what was kept, and shows it with its open questions; or leaves nothing.
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { systemAssistantId } from "../../assistants/queries.js";
import { asksWithoutId } from "../../checkpoint/pending.js";
import { createSaver, type Saver } from "../../checkpoint/saver.js";
import type { Difference } from "../../checkpoint/stock/compare.js";
import { openStockThread, type StockCheckpoint } from "../../checkpoint/stock/read-thread.js";
import type { Lease } from "../../core/clock.js";
import { EngineError, isEngineError } from "../../core/errors.js";
import type { TenantId, ThreadId } from "../../core/ids.js";
import { isTransientDbError } from "../../core/retry.js";
import type { ThreadStatus } from "../../core/run.js";
import { retryTransient } from "../../db/retry-transient.js";
import {
  abandonAdoption,
  type Adoption,
  beginAdoption,
  type Begun,
  settleAdoption,
  threadMetadata,
  whatIsThere,
} from "../commands/adopt-thread.js";
import { sweepLostRuns } from "../commands/sweep-lost-runs.js";
import type { Engine } from "../engine.js";
import { type OpenHead, readOpenHead } from "../open-head.js";
import { openGraph, readSaver, writeSaver } from "../state.js";
import { type Copied, copyThread } from "./copy-thread.js";
import { keepLease } from "./keep-lease.js";
import type { Source } from "./source.js";
import { adoptedThreadId } from "./thread-id.js";

export type AdoptOptions = Readonly<{
  tenantId: TenantId;
  /** Which graph's state it is. */
  graphId: string;
  /** Look at each checkpoint once it is stored. */
  verify: boolean;
  /** How long to wait for another process that has the thread; what is dead gives it up after its lease. */
  waitMs: number;
  onPart?: (checkpoints: number) => void;
}>;

export type Adopted = Readonly<{
  sourceThreadId: string;
  threadId: ThreadId;
  /** `deleted`: it was deleted here, and stays so. */
  outcome: "adopted" | "already" | "deleted" | "failed";
  copied: Copied | null;
  /** Why it failed. */
  error: EngineError | null;
}>;

/**
 * Adopts the thread unless it was adopted before; of several who try at once one does it and the others wait. Whatever is
 * wrong with the thread itself is in the result; throws when the database, the source or the object store is away.
 */
export async function adoptThread(
  engine: Engine,
  source: Source,
  sourceThreadId: string,
  options: AdoptOptions,
): Promise<Adopted> {
  const adoption = adoptionFor(engine, source, sourceThreadId, options);
  const begun = await begin(engine, adoption, options.waitMs);
  if (begun.kind !== "lease") return notAdopted(adoption, begun.kind);
  try {
    return adopted(adoption, await fill(engine, source, adoption, begun.lease, options));
  } catch (error) {
    await abandon(engine, begun.lease);
    return failed(adoption, asThreadError(error));
  }
}

/** What adopting the thread would give, without writing anything. */
export async function tryAdoption(
  engine: Engine,
  source: Source,
  sourceThreadId: string,
  options: AdoptOptions,
): Promise<Adopted> {
  const adoption = adoptionFor(engine, source, sourceThreadId, options);
  const { tenantId, threadId } = adoption;
  const there = await whatIsThere(engine.deps.db, adoption);
  if (there === "adopted" || there === "deleted" || there === "taken") return notAdopted(adoption, there);
  try {
    const thread = await openStockThread(source.look, sourceThreadId, await source.shape());
    const commit = () => Promise.resolve();
    const saver = createSaver({ sql: engine.deps.db, tenantId, bodies: engine.bodyReader, commit });
    const readBack = (made: StockCheckpoint) => Promise.resolve(tupleOf(made));
    return adopted(adoption, await copyThread(thread, saver, threadId, { onPart: options.onPart, readBack }));
  } catch (error) {
    return failed(adoption, asThreadError(error));
  }
}

function adoptionFor(
  { edits }: Engine,
  { schema }: Source,
  sourceThreadId: string,
  { tenantId, graphId }: AdoptOptions,
): Adoption {
  const { owner, leaseMs } = edits;
  const threadId = adoptedThreadId(sourceThreadId);
  const from = { schema, thread_id: sourceThreadId };
  return { tenantId, threadId, from, graphId, assistantId: systemAssistantId(graphId), owner, leaseMs };
}

function adopted({ from, threadId }: Adoption, copied: Copied): Adopted {
  return { sourceThreadId: from.thread_id, threadId, outcome: "adopted", copied, error: null };
}

function failed({ from, threadId }: Adoption, error: EngineError): Adopted {
  return { sourceThreadId: from.thread_id, threadId, outcome: "failed", copied: null, error };
}

function notAdopted(adoption: Adoption, why: Exclude<Begun["kind"], "lease">): Adopted {
  const { from, threadId } = adoption;
  const nothing = { sourceThreadId: from.thread_id, threadId, copied: null, error: null };
  switch (why) {
    case "adopted":
      return { ...nothing, outcome: "already" };
    case "deleted":
      return { ...nothing, outcome: "deleted" };
    case "taken":
      return failed(adoption, new EngineError("conflict", `Another thread has the id ${threadId} here already`));
    case "busy":
      return failed(adoption, new EngineError("thread_busy", `Thread ${threadId} is being adopted by another process`));
  }
}

/** As a saver would give it back, without one. */
function tupleOf({ checkpoint, metadata, parentId, writes }: StockCheckpoint): CheckpointTuple {
  return {
    config: {},
    checkpoint,
    metadata: metadata as NonNullable<CheckpointTuple["metadata"]>,
    ...(parentId !== null && { parentConfig: { configurable: { checkpoint_id: parentId } } }),
    pendingWrites: writes.map(({ taskId, channel, value }) => [taskId, channel, value]),
  };
}

/** Who holds the thread may be dead, and nobody else about to find that out: its lease is waited for. */
async function begin({ deps, edits }: Engine, adoption: Adoption, maxMs: number): Promise<Begun> {
  const endMs = deps.clock.monotonicMs() + maxMs;
  for (let waitMs = 20; ; waitMs = Math.min(2 * waitMs, 500)) {
    const begun = await beginAdoption(deps, adoption);
    if (begun.kind !== "busy" || deps.clock.monotonicMs() > endMs) return begun;
    await deps.clock.sleep(waitMs);
    await sweepLostRuns(deps, edits);
  }
}

async function fill(
  engine: Engine,
  source: Source,
  adoption: Adoption,
  lease: Lease,
  { verify, onPart }: AdoptOptions,
): Promise<Copied> {
  const { deps, edits } = engine;
  const kept = keepLease(deps, lease, edits.leaseMs);
  const saver = writeSaver(engine, lease, { signal: kept.signal });
  try {
    const thread = await openStockThread(source.look, adoption.from.thread_id, await source.shape());
    if (thread.checkpoints === 0) throw new EngineError("not_found", "The source has no thread with this id");
    const reader = readSaver(engine, adoption.tenantId);
    const copied = await copyThread(thread, saver, adoption.threadId, {
      signal: kept.signal,
      onPart,
      readBack: verify
        ? ({ ns, checkpointId }) =>
            reader.getTuple({
              configurable: { thread_id: adoption.threadId, checkpoint_ns: ns, checkpoint_id: checkpointId },
            })
        : null,
    });
    const { head, differences } = await readHead(engine, adoption, saver);
    const { checkpointId, interrupts } = head;
    const settled = { checkpointId, interrupts, status: statusOf(head), labels: thread.labels, ...copied };
    const settle = () => settleAdoption(deps, lease, adoption, settled, edits.moveAfterMs);
    await retryTransient(settle, { ...deps, deadlineMs: edits.leaseMs });
    return { ...copied, differences: [...copied.differences, ...differences] };
  } finally {
    kept.release();
    // What is still on its way must not arrive after the thread was given up.
    await saver.flushed().catch(() => undefined);
  }
}

/** Through the graph: it knows which node asks, and what is left to do. */
async function readHead(
  engine: Engine,
  adoption: Adoption,
  saver: Saver,
): Promise<Readonly<{ head: OpenHead; differences: readonly Difference[] }>> {
  const { tenantId, threadId, graphId } = adoption;
  const thread = { threadId, metadata: threadMetadata(adoption), config: {} };
  const graph = await openGraph(engine, { tenantId, thread }, saver);
  if (graph === undefined) throw new EngineError("internal", `Thread ${threadId} has no graph`);
  let head: OpenHead;
  try {
    head = await readOpenHead(graph, saver, threadId, engine.approvals(graphId));
  } catch (cause) {
    if (isEngineError(cause) || isTransientDbError(cause)) throw cause;
    const what = cause instanceof Error ? cause.name : typeof cause;
    throw new EngineError("graph_invalid", `Graph "${graphId}" can't read its state: it threw ${what}`, { cause });
  }
  const tuple = await saver.getTuple({ configurable: { thread_id: threadId } });
  const what = "asks without an id, as LangGraph did before version 1: nobody can answer";
  const difference = { ns: "", checkpointId: head.checkpointId ?? "", channel: "__interrupt__", what };
  return { head, differences: asksWithoutId(tuple) ? [difference] : [] };
}

/** As edits leave a thread; and what had failed where it was has failed. */
function statusOf({ interrupts, failed, hasNext }: OpenHead): ThreadStatus {
  if (interrupts.length > 0) return "interrupted";
  if (failed) return "error";
  return hasNext ? "interrupted" : "idle";
}

async function abandon({ deps }: Engine, lease: Lease): Promise<void> {
  try {
    await abandonAdoption(deps, lease);
  } catch (error) {
    // It stays hidden, and the next try goes on with it.
    const code = String((error as { code?: unknown }).code ?? "internal");
    deps.log.warn({ thread_id: lease.threadId, code }, "could not undo a failed adoption");
  }
}

/** What says something about the thread; anything else is thrown on. Messages of foreign code may hold content. */
function asThreadError(error: unknown): EngineError {
  if (isTransientDbError(error)) throw error;
  if (isEngineError(error)) return error;
  const { code, name } = error as { code?: unknown; name?: unknown };
  return new EngineError("internal", `It failed with ${String(code ?? name)}`, { cause: error });
}
