// Adoption when a thread is touched for the first time: an application moves over without a pause, thread by thread.
import { findStockThread } from "../../checkpoint/stock/tables.js";
import { EngineError } from "../../core/errors.js";
import { type ThreadKey } from "../../runs/thread-lock.js";
import { getThread, type ThreadRow } from "../../runs/threads.js";
import type { Engine } from "../engine.js";
import type { Graphs } from "../graphs.js";
import { adoptThread } from "./adopt.js";
import type { Source } from "./source.js";

/** Which threads come over by themselves. */
export type OnTouch = Readonly<{
  source: Source;
  /** Of threads that are read before anybody ran a graph on them here. */
  graphId: string;
}>;

/** As long as a client may be kept waiting: more than the default lease of a process that died. */
const WAIT_MS = 30_000;

/** Throws `config_invalid` when it can't be known which graph the threads are of. */
export function createOnTouch(source: Source, graphs: Graphs, graphId: string | null): OnTouch {
  const [only, other] = graphs.ids;
  const named = graphId ?? (other === undefined ? only : undefined);
  if (named !== undefined && graphs.has(named)) return { source, graphId: named };
  const ids = graphs.ids.join(", ");
  const why = named === undefined ? "there are several graphs" : `there is no graph "${named}"`;
  throw new EngineError(
    "config_invalid",
    `PERDURE_ADOPT_GRAPH must say which graph adopted threads are of: ${why} (${ids})`,
  );
}

/** The thread if people may see it, adopted now if it is still elsewhere. */
export async function findThread(engine: Engine, key: ThreadKey): Promise<ThreadRow | undefined> {
  const thread = await visibleThread(engine, key);
  if (thread !== undefined || engine.onTouch === null) return thread;
  await adoptOnTouch(engine, engine.onTouch, key, engine.onTouch.graphId);
  return visibleThread(engine, key);
}

/**
 * Before something is done to a thread that may still be elsewhere. Throws what forbids to adopt it (`value_unsupported`,
 * `graph_invalid` …), and `thread_busy` when that takes another process long.
 */
export async function touchThread(engine: Engine, key: ThreadKey, graphId: string | null): Promise<void> {
  if (engine.onTouch === null || (await visibleThread(engine, key)) !== undefined) return;
  await adoptOnTouch(engine, engine.onTouch, key, graphId ?? engine.onTouch.graphId);
}

async function visibleThread({ deps }: Engine, key: ThreadKey): Promise<ThreadRow | undefined> {
  const thread = await getThread(deps.db, key);
  return thread?.ephemeral === false ? thread : undefined;
}

async function adoptOnTouch(
  engine: Engine,
  { source }: OnTouch,
  { tenantId, threadId }: ThreadKey,
  graphId: string,
): Promise<void> {
  await source.shape();
  const sourceId = await source.look((sql) => findStockThread(sql, [threadId, threadId.toUpperCase()]));
  if (sourceId === undefined) return;
  const startMs = engine.deps.clock.monotonicMs();
  const options = { tenantId, graphId, verify: false, waitMs: WAIT_MS };
  const { outcome, error, copied } = await adoptThread(engine, source, sourceId, options);
  if (error !== null) {
    throw new EngineError(error.code, `Thread ${threadId} can't be adopted. ${error.message}`, { cause: error });
  }
  if (outcome !== "adopted") return;
  const ms = Math.round(engine.deps.clock.monotonicMs() - startMs);
  engine.deps.log.info({ thread_id: threadId, checkpoints: copied?.checkpoints, ms }, "a thread was adopted");
}
