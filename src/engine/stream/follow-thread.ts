// What the runs of a thread stream, one run after the other, for as long as somebody follows: from the beginning of the run that
// is at work, or of the last one when none is. Earlier runs are not told: who follows would take their end for this one's.
import type { RunId, TenantId, ThreadId } from "../../core/ids.js";
import { isTransientDbError } from "../../core/retry.js";
import { isFinished } from "../../core/run.js";
import { type After, afterRun, nextRuns } from "../../runs/next-run.js";
import type { RunRow } from "../../runs/runs.js";
import type { StreamLine } from "../../runs/stream-chunks.js";
import type { Engine } from "../engine.js";
import { readStream } from "./reader.js";

const AWAY_MS = 1_000;

export type ThreadItem =
  /** As it was when it began to work, or was over. */
  | Readonly<{ kind: "begin"; run: RunRow }>
  | Readonly<{ kind: "line"; run: RunRow; line: StreamLine }>
  /** It is finished and all of it was told, or it is gone. */
  | Readonly<{ kind: "end"; run: RunRow; gone: boolean }>
  | Readonly<{ kind: "heartbeat" }>;

export type FollowOptions = Readonly<{
  tenantId: TenantId;
  threadId: ThreadId;
  /** Only what started after this run; null: from the current one on. */
  after: After | null;
  /** The run to begin with, when it is known. */
  first?: RunId | undefined;
  /** The line of it after which to begin; undefined: with what comes from now on. From its start when left out. */
  firstAfterId?: number | undefined;
  signal: AbortSignal;
  heartbeatMs: number;
  /** The first heartbeat comes as soon as there is nothing more for now. */
  beatAtOnce?: boolean;
}>;

type Parts = Pick<Engine, "deps" | "reads" | "threadNews" | "streams">;

/** Ends only by the signal. A thread that isn't there yet is waited for. */
export async function* followThread(engine: Parts, options: FollowOptions): AsyncGenerator<ThreadItem> {
  const { tenantId, threadId, signal, heartbeatMs } = options;
  let { after, first } = options;
  let afterId = "firstAfterId" in options ? options.firstAfterId : -1;
  while (!signal.aborted) {
    const runId =
      first ?? (await engine.threadNews.next({ tenantId, threadId, after }, { signal, waitMs: heartbeatMs }));
    first = undefined;
    if (signal.aborted) return;
    if (runId === undefined) {
      yield { kind: "heartbeat" };
      continue;
    }
    const last = yield* followRun(engine, { ...options, runId, afterId });
    afterId = -1;
    if (last === undefined) yield { kind: "heartbeat" };
    else after = afterRun(last);
  }
}

/** The run that a follower of the thread would be shown first. */
export async function currentRun(
  { deps, reads }: Pick<Engine, "deps" | "reads">,
  of: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
): Promise<RunRow | undefined> {
  const [runId] = await nextRuns(deps.db, [{ ...of, after: null }]);
  return runId && (await reads.run({ ...of, runId }));
}

/** The run as it was last seen; undefined when it was gone before it began. */
async function* followRun(
  engine: Parts,
  options: FollowOptions & Readonly<{ runId: RunId; afterId: number | undefined }>,
): AsyncGenerator<ThreadItem, RunRow | undefined> {
  const { signal } = options;
  let run: RunRow | undefined;
  for await (const item of readStream(engine.deps, { ...options, streams: engine.streams })) {
    if (item.kind === "heartbeat") {
      yield item;
      continue;
    }
    if (run === undefined) {
      run = await look(engine, options);
      if (run === undefined) return undefined;
      yield { kind: "begin", run };
    }
    yield { ...item, run };
  }
  if (signal.aborted) return run;
  const ended = await look(engine, options);
  if (ended !== undefined && !isFinished(ended.status)) return run;
  if (run === undefined && ended !== undefined) yield { kind: "begin", run: ended };
  const shown = ended ?? run;
  if (shown !== undefined) yield { kind: "end", run: shown, gone: ended === undefined };
  return shown;
}

/** Undefined when it is deleted, or nobody waits any more. */
async function look(
  { deps, reads }: Parts,
  { tenantId, runId, signal }: FollowOptions & Readonly<{ runId: RunId }>,
): Promise<RunRow | undefined> {
  while (!signal.aborted) {
    try {
      return await reads.run({ tenantId, runId });
    } catch (error) {
      if (!isTransientDbError(error)) throw error;
      await deps.clock.sleep(AWAY_MS, signal);
    }
  }
  return undefined;
}
