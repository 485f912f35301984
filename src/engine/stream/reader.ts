// A run's stream for whoever watches it, from any process: what is stored, then what comes, until the run is finished.
import type { Deps, Topic } from "../../core/deps.js";
import type { RunId, TenantId } from "../../core/ids.js";
import { isEngineError } from "../../core/errors.js";
import { isTransientDbError } from "../../core/retry.js";
import { isFinished } from "../../core/run.js";
import { lastStreamId, readStreamPage, type StreamLine, type StreamPage } from "../../runs/stream-chunks.js";
import type { Follower } from "./live.js";
import { createNews } from "./news.js";
import { movedLines, createRestorer } from "./restore.js";
import type { Streams } from "./streams.js";

/** Batches read at a time: bounds what a slow reader holds. */
const PAGE_ROWS = 16;

export type Heartbeat = Readonly<{ kind: "heartbeat" }>;
export type StreamItem = Readonly<{ kind: "line"; line: StreamLine }> | Heartbeat;

export type ReadStreamOptions = Readonly<{
  tenantId: TenantId;
  runId: RunId;
  /** Events with higher ids are read; -1 for all, undefined for those that come from now on. */
  afterId: number | undefined;
  /** Ends the reading, without an error. */
  signal: AbortSignal;
  /** A heartbeat comes whenever nothing else came for this long. */
  heartbeatMs: number;
  /** The first heartbeat comes as soon as there is nothing more for now. */
  beatAtOnce?: boolean | undefined;
  /** What it shares with the other readers of this process. */
  streams?: Streams;
  pollMs?: number;
}>;

/** Yields a run's events in order; ends when the run is finished and all was read, when it is deleted, or by the signal. */
export async function* readStream(deps: Deps, options: ReadStreamOptions): AsyncGenerator<StreamItem> {
  const { runId, signal } = options;
  const restorer = createRestorer(deps, options);
  const { news, ahead, close } = listen(deps, options);
  try {
    let from: StartingPoint | undefined;
    while (!signal.aborted) {
      news.forget();
      try {
        from ??= await startingPoint(deps, options);
        const told = news.takeDue() ? [] : ahead(from.afterId);
        const page = told.length > 0 ? null : await nextPage(deps, options, from);
        if (page === undefined) return;
        for (const stored of page?.lines ?? told) {
          const line = await restorer.restore(stored);
          if (line.id <= from.afterId) continue;
          from.afterId = line.id;
          yield { kind: "line", line };
          if (signal.aborted) return;
          news.sent();
        }
        if (page !== null) {
          from.packId = page.packId;
          if (page.full) continue;
          if (page.expiredAt !== null) yield { kind: "line", line: expired(runId, page.expiredAt, from.afterId + 1) };
          if (isFinished(page.status)) return;
        }
      } catch (error) {
        // Stores that are away for a while are waited for: who watches would only come back and ask again.
        // What expired between two looks is told by the next one.
        if (!isTransientDbError(error) && !isEngineError(error, "expired")) throw error;
      }
      if ((await news.wait()) === "heartbeat") yield { kind: "heartbeat" };
    }
  } finally {
    close();
  }
}

/** `ahead`: what comes next and needs not be read, as far as there is any. */
function listen(deps: Deps, { streams, ...options }: ReadStreamOptions) {
  const { runId } = options;
  let follower: Follower | undefined;
  const ignores = (topic: Topic): boolean => topic === "lines" && follower?.isHere() === true;
  const news = createNews(deps, { ...options, topics: ["lines", "stream"], ignores });
  follower = streams?.live.follow(runId, news.hear);
  return {
    news,
    ahead: (afterId: number) => follower?.take(afterId) ?? [],
    close() {
      follower?.close();
      news.close();
    },
  };
}

/** State and events in one snapshot: a finished run's last events are in it. Undefined when there is no such run. */
async function nextPage(
  deps: Deps,
  { tenantId, runId, streams }: ReadStreamOptions,
  { afterId, packId }: StartingPoint,
): Promise<StreamPage | undefined> {
  const key = { tenantId, runId, afterId, maxRows: PAGE_ROWS };
  const page = await (streams?.page(key) ?? readStreamPage(deps.db, key));
  if (page === undefined || page.packId === packId) return page;
  return { ...page, lines: await movedLines(deps, { tenantId, runId }), full: true };
}

/** Instead of the events of a run that are no longer kept. */
function expired(runId: RunId, expiredAt: Date, id: number): StreamLine {
  return { id, event: "expired", json: JSON.stringify({ run_id: runId, expired_at: expiredAt.toISOString() }) };
}

type StartingPoint = { afterId: number; packId: string | null };

/** Where to begin: with everything, after an id, or after what is there now, which may have been moved. */
async function startingPoint(deps: Deps, { tenantId, runId, afterId }: ReadStreamOptions): Promise<StartingPoint> {
  if (afterId !== undefined) return { afterId, packId: null };
  const lastId = await lastStreamId(deps.db, { tenantId, runId });
  const page = await readStreamPage(deps.db, { tenantId, runId, afterId: lastId, maxRows: 1 });
  const packId = page?.packId ?? null;
  if (lastId >= 0 || packId === null) return { afterId: lastId, packId };
  const moved = await movedLines(deps, { tenantId, runId });
  return { afterId: moved.at(-1)?.id ?? -1, packId };
}
