// `perdure threads adopt`: brings over the threads that an application has in the tables of LangGraph's PostgresSaver.
import { EngineError } from "../core/errors.js";
import { DEFAULT_TENANT } from "../core/ids.js";
import type { Adopted } from "../engine/adopt/adopt.js";
import { adoptAll } from "../engine/adopt/adopt-all.js";
import type { Source } from "../engine/adopt/source.js";
import type { Engine } from "../engine/engine.js";
import { details, type Output } from "./output.js";
import { stopSignal } from "./stop-signal.js";
import { json } from "./wire.js";

type Print = Output & Readonly<{ json: boolean }>;
export type AdoptFlags = Readonly<{
  /** Null: the only one there is. */
  graphId: string | null;
  /** Null: all of them. */
  threadIds: readonly string[] | null;
  dryRun: boolean;
}>;

const PROGRESS_MS = 2_000;

/**
 * True when every thread is here exactly as it was, or would be. A signal lets the threads that were begun be finished;
 * told once more, the process ends at once. Both times the same command goes on later.
 */
export async function threadsAdopt(engine: Engine, source: Source, flags: AdoptFlags, print: Print): Promise<boolean> {
  const graphId = flags.graphId ?? onlyGraph(engine);
  // Now, rather than at the first thread.
  await engine.graphs.get(graphId);
  const stop = stopSignal(() => process.exit(130));
  const tally = createTally();
  const progress = setInterval(() => print.note(tally.progress()), PROGRESS_MS);
  try {
    await adoptAll(engine, source, {
      ...flags,
      tenantId: DEFAULT_TENANT,
      graphId,
      verify: true,
      waitMs: Number.POSITIVE_INFINITY,
      signal: stop.signal,
      onTotal: (threads) => (tally.total = threads),
      onPart: (checkpoints) => (tally.checkpoints += checkpoints),
      onThread(adopted) {
        tally.add(adopted);
        report(adopted, print);
      },
    });
  } finally {
    clearInterval(progress);
    stop.dispose();
    print.note(tally.progress());
  }
  const stopped = stop.signal.aborted;
  if (stopped) print.note("perdure: stopped; the same command goes on from here");
  summarize(tally.counts(), { ...flags, stopped }, print);
  const { failed, unequal } = tally.counts();
  return failed === 0 && unequal === 0 && !stopped;
}

function onlyGraph({ graphs }: Engine): string {
  const [only, other] = graphs.ids;
  if (only !== undefined && other === undefined) return only;
  const ids = graphs.ids.join(", ");
  throw new EngineError("bad_request", `--graph: say which graph the threads are of; there are: ${ids}`);
}

function createTally() {
  const outcomes = { adopted: 0, already: 0, deleted: 0, failed: 0 };
  let [equal, unequal] = [0, 0];
  return {
    total: 0,
    checkpoints: 0,
    add({ outcome, copied }: Adopted): void {
      outcomes[outcome] += 1;
      equal += copied?.equal ?? 0;
      // A question that can't be answered is a difference of no checkpoint.
      unequal += Math.max(
        (copied?.checkpoints ?? 0) - (copied?.equal ?? 0),
        (copied?.differences.length ?? 0) > 0 ? 1 : 0,
      );
    },
    counts() {
      return { threads: this.total, ...outcomes, checkpoints: this.checkpoints, equal, unequal };
    },
    progress(): string {
      const done = Object.values(outcomes).reduce((sum, n) => sum + n, 0);
      return `${done}/${this.total} threads (${outcomes.failed} failed), ${this.checkpoints} checkpoints`;
    },
  };
}

function report({ sourceThreadId, threadId, outcome, copied, error }: Adopted, print: Print): void {
  const differences = copied?.differences ?? [];
  if (print.json) {
    print.line(
      json({
        source_thread_id: sourceThreadId,
        thread_id: threadId,
        outcome,
        ...(copied !== null && { checkpoints: copied.checkpoints, writes: copied.writes, equal: copied.equal }),
        ...(error !== null && { error: error.code, message: error.message }),
        differences: differences.map(({ ns, checkpointId, channel, what }) => {
          return { checkpoint_ns: ns, checkpoint_id: checkpointId, channel, what };
        }),
      }),
    );
    return;
  }
  // Other people's text must not move the cursor or colour the screen.
  const name = JSON.stringify(sourceThreadId);
  if (error !== null) print.line(`thread ${name} was not adopted: ${error.message}`);
  for (const { ns, checkpointId, channel, what } of differences) {
    const where = [ns === "" ? null : `namespace ${ns}`, channel === null ? null : `channel ${channel}`];
    print.line([`thread ${name}`, `checkpoint ${checkpointId}`, ...where.filter(Boolean)].join(", ") + `: ${what}`);
  }
}

function summarize(
  counts: ReturnType<ReturnType<typeof createTally>["counts"]>,
  { dryRun, stopped }: Readonly<{ dryRun: boolean; stopped: boolean }>,
  print: Print,
): void {
  if (print.json) return print.line(json({ summary: { ...counts, dry_run: dryRun, stopped } }));
  const { threads, adopted, already, deleted, failed, checkpoints, equal, unequal } = counts;
  print.line(
    details({
      threads,
      [dryRun ? "can be adopted" : "adopted"]: adopted,
      "adopted before": already,
      "deleted here": deleted,
      "not adopted": failed,
      checkpoints,
      "as they were": equal,
      "not quite": unequal,
    }),
  );
}
