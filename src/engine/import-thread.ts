// Makes a thread with a history: what nodes are said to have written, step by step. The thread is hidden until all of it is stored, and
// a timer removes what a process that died has left of it.
import { doomThread } from "../checkpoint/queries.js";
import { reaches, type Within } from "../core/access.js";
import type { Deps } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import type { TenantId, ThreadId, TimerId } from "../core/ids.js";
import type { ThreadTtl } from "../core/thread-ttl.js";
import { lockThread, type ThreadKey } from "../runs/thread-lock.js";
import { deleteThreadRow, getThread, insertThread, showThread, type ThreadRow } from "../runs/threads.js";
import { refuseReuse } from "../runs/tombstones.js";
import { cancelTimers, setTimer } from "../schedule/timers.js";
import { type MadeThread, threadMadeBefore } from "./commands/create-thread.js";
import { editThread } from "./commands/edit-thread.js";
import { type Once, takeOnce } from "./commands/make-once.js";
import type { RunCommand } from "./commands/request.js";
import type { Engine } from "./engine.js";
import { toCommand } from "./executor/input.js";
import { readOpenHead } from "./open-head.js";
import { removeDoomed } from "./remove-doomed.js";
import { applying, assistantIdOf, graphIdOf, openGraph, refuseUnknownNode, writeSaver } from "./state.js";

export type Superstep = Readonly<{
  updates: readonly Readonly<{ values: unknown; command: RunCommand | undefined; asNode: string | undefined }>[];
}>;

type Import = Readonly<{
  tenantId: TenantId;
  threadId: ThreadId | undefined;
  metadata: Readonly<Record<string, unknown>>;
  ttl: ThreadTtl | null;
  ifExists: "raise" | "do_nothing";
  within?: Within;
  supersteps: readonly Superstep[];
  once: Once | null;
}>;

/** How long after the import's lease is over what is left of it goes. */
const LEFTOVERS_MS = 60_000;

/**
 * The thread with its states. One that exists already stays as it is. Throws `conflict` as `createThread` does, and `bad_request` when
 * no graph is named, or it can't take the updates: then there is no thread.
 */
export async function importThread(engine: Engine, asked: Import): Promise<MadeThread> {
  const { deps } = engine;
  const before = asked.once === null ? undefined : await threadMadeBefore(deps, asked.once);
  if (before !== undefined) return { thread: before, again: true };
  const graphId = graphIdOf(asked);
  if (graphId === undefined || !engine.graphs.has(graphId)) {
    throw new EngineError("bad_request", "supersteps: metadata.graph_id must name the graph whose states they are");
  }
  const key = { tenantId: asked.tenantId, threadId: asked.threadId ?? deps.ids.next<ThreadId>() };
  const found = await beginHidden(engine, key, asked);
  if (found !== undefined) return { thread: found, again: false };
  try {
    await writeSupersteps(engine, key, asked, graphId);
    return { thread: await show(deps, key, asked.once), again: false };
  } catch (error) {
    await abandon(deps, key).catch((failure: unknown) => {
      const code = String((failure as { code?: unknown }).code ?? "internal");
      deps.log.warn({ thread_id: key.threadId, code }, "what is left of an import goes later");
    });
    throw error;
  }
}

/** The thread that is there already, if that may be. */
async function beginHidden({ deps, edits }: Engine, key: ThreadKey, asked: Import): Promise<ThreadRow | undefined> {
  return deps.db.tx(async (sql) => {
    const made = await insertThread(sql, { ...key, metadata: asked.metadata, ttl: asked.ttl, ephemeral: true });
    if (made === undefined) {
      const found = asked.ifExists === "do_nothing" ? await getThread(sql, key) : undefined;
      if (found?.ephemeral === false && reaches(asked.within ?? null, found.metadata)) return found;
      throw new EngineError("conflict", `Thread ${key.threadId} already exists`);
    }
    await refuseReuse(sql, key);
    const timer = { tenantId: key.tenantId, timerId: deps.ids.next<TimerId>(), kind: "thread.delete" } as const;
    await setTimer(sql, { ...timer, refId: key.threadId, when: { afterMs: edits.leaseMs + LEFTOVERS_MS } });
    return undefined;
  });
}

async function writeSupersteps(engine: Engine, key: ThreadKey, asked: Import, graphId: string): Promise<void> {
  const thread = { threadId: key.threadId, metadata: asked.metadata, config: {} };
  const edit = { ...engine.edits, ...key, once: null, graphId, assistantId: assistantIdOf(asked, graphId) };
  await editThread(engine.deps, edit, async (lease) => {
    const saver = writeSaver(engine, lease);
    const graph = await openGraph(engine, { tenantId: key.tenantId, thread }, saver, "threads.update");
    if (graph === undefined) throw new EngineError("internal", `Thread ${key.threadId} lost its graph`);
    for (const { asNode } of asked.supersteps.flatMap(({ updates }) => updates))
      refuseUnknownNode(graph, graphId, { asNode, address: {} });
    const supersteps = asked.supersteps.map(({ updates }) => ({
      updates: updates.map(({ values, command, asNode }) => ({
        values: command === undefined ? values : toCommand(command),
        ...(asNode !== undefined && { asNode }),
      })),
    }));
    const config = { configurable: { thread_id: key.threadId, checkpoint_ns: "" }, metadata: { run_id: lease.runId } };
    await applying(() => graph.bulkUpdateState(config, supersteps as Parameters<typeof graph.bulkUpdateState>[1]));
    const { checkpointId, hasNext, interrupts } = await readOpenHead(
      graph,
      saver,
      key.threadId,
      engine.approvals(graphId),
    );
    return { value: undefined, checkpointId, hasNext, interrupts };
  });
}

async function show(deps: Deps, key: ThreadKey, once: Once | null): Promise<ThreadRow> {
  return deps.db.tx(async (sql) => {
    await lockThread(sql, key);
    await takeOnce(sql, once, key.threadId);
    await cancelTimers(sql, { tenantId: key.tenantId, kinds: ["thread.delete"], refIds: [key.threadId] });
    const shown = await showThread(sql, key);
    if (shown === undefined) throw new EngineError("unavailable", "The import took too long; try again");
    return shown;
  });
}

/** Without a trace, so that the id is free again: nothing of it was ever shown. */
async function abandon(deps: Deps, key: ThreadKey): Promise<void> {
  const objects = await deps.db.tx(async (sql) => {
    const thread = await lockThread(sql, key);
    if (thread?.ephemeral !== true) return [];
    await cancelTimers(sql, { tenantId: key.tenantId, kinds: ["move", "thread.delete"], refIds: [key.threadId] });
    const doomed = await doomThread(sql, key);
    await deleteThreadRow(sql, key);
    return doomed;
  });
  await removeDoomed(deps, objects);
}
