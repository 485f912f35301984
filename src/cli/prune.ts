// `perdure prune`: retention by hand, now, with a report thread by thread.
import { knownGraphIds } from "../assistants/queries.js";
import type { Deps } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { DEFAULT_TENANT, type ThreadId } from "../core/ids.js";
import { nearest } from "../core/nearest.js";
import type { PrunePolicy, Retention } from "../core/retention.js";
import type { Pruned } from "../engine/commands/prune-thread.js";
import { repackThread } from "../engine/repack-thread.js";
import { keepRetention, type ThreadReport } from "../engine/retention.js";
import { getThread, threadsOfGraphs } from "../runs/threads.js";
import { type Output, table } from "./output.js";
import { json, wire } from "./wire.js";

export type PruneFlags = Readonly<{
  keepLatest: number | null;
  olderThanMs: number | null;
  outcomes: PrunePolicy["outcomes"];
  threadId: ThreadId | null;
  graphId: string | null;
  dryRun: boolean;
}>;

type Prune = PruneFlags & Readonly<{ owner: string; leaseMs: number; configured: Retention | null }>;

const NOTHING: Pruned = {
  checkpoints: 0,
  writes: 0,
  channelVersions: 0,
  bodies: 0,
  postgresBytes: 0,
  storeBytes: 0,
};

/** Prunes what the options say, or else what the project's retention says. Throws `config_invalid` when neither says anything, `not_found`. */
export async function prune(deps: Deps, options: Prune, print: Output & Readonly<{ json: boolean }>): Promise<void> {
  const { threadId, dryRun, owner, leaseMs } = options;
  if (threadId !== null && (await getThread(deps.db, { tenantId: DEFAULT_TENANT, threadId })) === undefined) {
    throw new EngineError("not_found", `There is no thread ${threadId}`);
  }
  if (options.graphId !== null) await refuseUnknownGraph(deps, options.graphId);
  const reports: ThreadReport[] = [];
  const scope = { tenantId: DEFAULT_TENANT, threadId, dryRun, owner, leaseMs };
  for await (const report of keepRetention(deps, retentionOf(options), scope)) {
    // The installation's pruner would do it as well; here it is done when the command ends.
    if (report.outcome === "pruned" && !dryRun) {
      await repackThread(deps, { tenantId: DEFAULT_TENANT, threadId: report.threadId });
    }
    reports.push(report);
  }
  const total = reports.reduce((sum, { pruned }) => add(sum, pruned ?? NOTHING), NOTHING);
  const expired = reports.reduce((sum, { runs }) => sum + runs, 0);
  if (print.json) {
    const threads = reports.map(({ pruned, runs, ...rest }) =>
      wire({ ...rest, ...(pruned ?? NOTHING), expiredRuns: runs }),
    );
    return print.line(json({ dry_run: dryRun, threads, total: wire({ ...total, expiredRuns: expired }) }));
  }
  print.line(table(reports.map(row), "There is nothing to prune."));
  if (reports.length === 0) return;
  const what = `${total.checkpoints} checkpoints, ${total.bodies} bodies and the contents of ${expired} runs`;
  const bytes = `${size(total.postgresBytes)} in Postgres and about ${size(total.storeBytes)} in the object store`;
  print.line(`\n${what} ${dryRun ? "would go" : "are gone"}: ${bytes}.`);
}

/** A graph that is in no project any more still has its threads. */
async function refuseUnknownGraph({ db }: Deps, graphId: string): Promise<void> {
  const known = await knownGraphIds(db, DEFAULT_TENANT);
  if (known.includes(graphId)) return;
  const page = { tenantId: DEFAULT_TENANT, threadId: null, graphIds: [graphId], after: null, limit: 1 };
  if ((await threadsOfGraphs(db, page)).length > 0) return;
  const guess = nearest(graphId, known);
  const hint = guess === null ? "" : `; did you mean ${JSON.stringify(guess)}?`;
  throw new EngineError("not_found", `There is no graph ${JSON.stringify(graphId)} and no thread of it${hint}`);
}

function retentionOf({ keepLatest, olderThanMs, outcomes, graphId, configured }: Prune): Retention {
  const graphIds = graphId === null ? null : [graphId];
  if (keepLatest !== null || olderThanMs !== null || outcomes !== null) {
    return { checkpoints: { keepLatest: keepLatest ?? 1, olderThanMs, outcomes, graphIds }, runs: null };
  }
  if (configured === null) {
    throw new EngineError(
      "config_invalid",
      'What is to stay? Say it with --keep-latest or --older-than, or in langgraph.json under "perdure": {"retention": …}',
    );
  }
  const { checkpoints } = configured;
  // Runs expire by their age alone, whatever their graph.
  return graphIds === null ? configured : { checkpoints: checkpoints && { ...checkpoints, graphIds }, runs: null };
}

function row({ threadId, graphId, outcome, code, pruned, runs }: ThreadReport) {
  const { checkpoints, writes, channelVersions, bodies, postgresBytes, storeBytes } = pruned ?? NOTHING;
  return {
    thread: threadId,
    graph: graphId,
    checkpoints,
    writes,
    versions: channelVersions,
    bodies,
    runs,
    postgres: size(postgresBytes),
    store: size(storeBytes),
    note: outcome === "busy" ? "busy, left alone" : outcome === "failed" ? `left alone: ${code ?? ""}` : null,
  };
}

function add(a: Pruned, b: Pruned): Pruned {
  return {
    checkpoints: a.checkpoints + b.checkpoints,
    writes: a.writes + b.writes,
    channelVersions: a.channelVersions + b.channelVersions,
    bodies: a.bodies + b.bodies,
    postgresBytes: a.postgresBytes + b.postgresBytes,
    storeBytes: a.storeBytes + b.storeBytes,
  };
}

function size(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`;
  if (bytes < 1_048_576) return `${(bytes / 1_024).toFixed(1)} KB`;
  return `${(bytes / 1_048_576).toFixed(1)} MB`;
}
