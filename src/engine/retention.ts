// Retention over many threads: which there are, one after the other, and what became of each.
import { threadsBeyond } from "../checkpoint/prune/read-queries.js";
import type { Deps } from "../core/deps.js";
import { isEngineError } from "../core/errors.js";
import type { TenantId, ThreadId } from "../core/ids.js";
import type { PrunePolicy, Retention } from "../core/retention.js";
import { isTransientDbError } from "../core/retry.js";
import { deleteOldEdits, threadsWithOldRuns } from "../runs/expire.js";
import { type ThreadOfGraph, threadsOfGraphs } from "../runs/threads.js";
import { expireRuns } from "./commands/expire-runs.js";
import { type Pruned, pruneThread } from "./commands/prune-thread.js";

export type RetentionScope = Readonly<{
  tenantId: TenantId;
  /** One thread; null: all. */
  threadId: ThreadId | null;
  dryRun: boolean;
  /** Who holds a thread while it is pruned. */
  owner: string;
  leaseMs: number;
  /** Ends it between two threads. */
  signal?: AbortSignal;
}>;

/** A thread something was to be done with. `busy`: a run of it is under way. `failed`: why stands in `code`. */
export type ThreadReport = Readonly<{
  threadId: ThreadId;
  graphId: string | null;
  outcome: "pruned" | "busy" | "failed";
  code: string | null;
  pruned: Pruned | null;
  /** Runs that expired. */
  runs: number;
}>;

const PAGE = 200;

/** Does what the retention says, thread by thread; those with nothing to do are left out. */
export async function* keepRetention(
  deps: Deps,
  retention: Retention,
  scope: RetentionScope,
): AsyncGenerator<ThreadReport> {
  if (retention.checkpoints !== null) yield* pruneThreads(deps, retention.checkpoints, scope);
  if (retention.runs !== null) yield* expireThreads(deps, retention.runs, scope);
}

async function* pruneThreads(
  deps: Deps,
  { graphIds, ...policy }: NonNullable<Retention["checkpoints"]>,
  scope: RetentionScope,
): AsyncGenerator<ThreadReport> {
  const { tenantId, threadId, signal } = scope;
  for (let after: ThreadId | null = null; ; ) {
    const page: ThreadOfGraph[] = await threadsOfGraphs(deps.db, { tenantId, threadId, graphIds, after, limit: PAGE });
    // Whoever names one thread wants to know of every body of it that nothing names; a round over all looks for states only.
    const ids = page.map((thread) => thread.threadId);
    const beyond = threadId === null ? await threadsBeyond(deps.db, tenantId, ids, policy) : new Set<string>(ids);
    for (const thread of page.filter((one) => beyond.has(one.threadId))) {
      if (signal?.aborted) return;
      const report = await pruneOne(deps, policy, thread, scope);
      if (report !== null) yield report;
    }
    if (page.length < PAGE) return;
    after = page.at(-1)?.threadId ?? null;
  }
}

async function pruneOne(
  deps: Deps,
  policy: PrunePolicy,
  { threadId, graphId }: ThreadOfGraph,
  scope: RetentionScope,
): Promise<ThreadReport | null> {
  const report = { threadId, graphId, code: null, pruned: null, runs: 0 };
  try {
    const { tenantId, owner, leaseMs, dryRun } = scope;
    const thorough = scope.threadId !== null;
    const pruned = await pruneThread(deps, { tenantId, threadId, policy, thorough, dryRun, owner, leaseMs });
    return pruned === null ? null : { ...report, outcome: "pruned", pruned };
  } catch (error) {
    // What is away is away for the next thread as well.
    if (isTransientDbError(error) || !isEngineError(error)) throw error;
    // Deleted meanwhile: there is nothing left to prune.
    if (error.code === "not_found") return null;
    return { ...report, outcome: error.code === "thread_busy" ? "busy" : "failed", code: error.code };
  }
}

async function* expireThreads(
  deps: Deps,
  { olderThanMs }: NonNullable<Retention["runs"]>,
  scope: RetentionScope,
): AsyncGenerator<ThreadReport> {
  const { tenantId, threadId, dryRun, signal } = scope;
  for (let after: ThreadId | null = null; ; ) {
    const page: ThreadId[] = await threadsWithOldRuns(deps.db, { tenantId, threadId, olderThanMs, after, limit: PAGE });
    for (const id of page) {
      if (signal?.aborted) return;
      const runs = await expireRuns(deps, { tenantId, threadId: id }, { olderThanMs, dryRun });
      if (runs > 0) yield { threadId: id, graphId: null, outcome: "pruned", code: null, pruned: null, runs };
    }
    if (page.length < PAGE) break;
    after = page.at(-1) ?? null;
  }
  if (!dryRun && threadId === null) await deleteOldEdits(deps.db, tenantId, olderThanMs);
}
