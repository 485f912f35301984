// The pruner: keeps to the retention from time to time, ends threads whose time to live is over, and packs anew what was left of packs. One process at a time does a round,
// by the claim of its timer; packs are anybody's, thread by thread.
import type { Deps } from "../../core/deps.js";
import { isEngineError } from "../../core/errors.js";
import type { TenantId, ThreadId } from "../../core/ids.js";
import type { Retention } from "../../core/retention.js";
import { backoffMs, isTransientDbError } from "../../core/retry.js";
import { claimTimers, endClaim, postponeClaim, type TimerClaim } from "../../schedule/timer-claims.js";
import { nextDueInMs, setTimer, type TimerKind } from "../../schedule/timers.js";
import { expireThread } from "../commands/expire-thread.js";
import { keepLastState } from "../commands/keep-last-state.js";
import { pruneThread } from "../commands/prune-thread.js";
import { repackThread } from "../repack-thread.js";
import { keepRetention } from "../retention.js";
import { createLoop, type Loop } from "./loop.js";

export type PrunerOptions = Readonly<{
  /** Null: everything is kept for ever. */
  retention: Retention | null;
  owner: string;
  leaseMs: number;
}>;

/** Longer than it takes; then the timer of a pruner that died is due again. */
const CLAIM_MS = 30 * 60_000;
const EVERY_MS = 60 * 60_000;
const FIRST_MS = 60_000;
const CONCURRENCY = 2;
const BACKOFF_BASE_MS = 5_000;
const BACKOFF_CAP_MS = 5 * 60_000;
/** The retention's timer is the tenant's own. */
const OF_TENANT = "00000000-0000-0000-0000-000000000000";

/** Sets the timer of a tenant's rounds, if it isn't set. */
export async function setRetentionTimer(deps: Deps, tenantId: TenantId, afterMs = FIRST_MS): Promise<void> {
  const timer = {
    tenantId,
    timerId: deps.ids.next<TimerClaim["timerId"]>(),
    kind: "retention",
    refId: OF_TENANT,
  } as const;
  await setTimer(deps.db, { ...timer, when: { afterMs } });
}

export function createPruner(deps: Deps, options: PrunerOptions & Readonly<{ pollMs: number }>): Loop {
  const always: TimerKind[] = ["repack", "prune", "thread.ttl", "run.prune"];
  const kinds: TimerKind[] = options.retention === null ? always : [...always, "retention"];
  return createLoop(deps, {
    name: "pruner",
    pollMs: options.pollMs,
    topics: ["move"],
    nextDueInMs: () => nextDueInMs(deps.db, kinds),
    tick: (stopping) => tickPruner(deps, options, stopping),
  });
}

/** One round: packs that are due, and the retention when it is; returns how many timers it took. */
export async function tickPruner(deps: Deps, options: PrunerOptions, signal?: AbortSignal): Promise<number> {
  const packs = await claimTimers(deps.db, { kind: "repack", limit: CONCURRENCY, forMs: CLAIM_MS });
  await Promise.all(packs.map((timer) => repackOne(deps, timer)));
  const thorough = await claimTimers(deps.db, { kind: "prune", limit: CONCURRENCY, forMs: CLAIM_MS });
  await Promise.all(thorough.map((timer) => pruneOne(deps, options, timer)));
  const over = await claimTimers(deps.db, { kind: "thread.ttl", limit: CONCURRENCY, forMs: CLAIM_MS });
  await Promise.all(over.map((timer) => expireOne(deps, options, timer)));
  const ended = await claimTimers(deps.db, { kind: "run.prune", limit: CONCURRENCY, forMs: CLAIM_MS });
  await Promise.all(
    ended.map((timer) => keepLastState(deps, timer, options).catch((error: unknown) => postpone(deps, timer, error))),
  );
  const taken = packs.length + thorough.length + over.length + ended.length;
  if (options.retention === null || signal?.aborted) return taken;
  const rounds = await claimTimers(deps.db, { kind: "retention", limit: 1, forMs: CLAIM_MS });
  for (const timer of rounds) await retainOne(deps, options.retention, options, timer, signal);
  return taken + rounds.length;
}

async function repackOne(deps: Deps, timer: TimerClaim): Promise<void> {
  const thread = { tenantId: timer.tenantId, threadId: timer.refId as ThreadId };
  try {
    const { rewritten, retired } = await repackThread(deps, thread);
    const fields = { tenant_id: thread.tenantId, thread_id: thread.threadId, rewritten, retired };
    if (rewritten + retired > 0) deps.log.debug(fields, "packs of a thread were written anew");
    await endClaim(deps.db, timer);
  } catch (error) {
    await postpone(deps, timer, error);
  }
}

async function expireOne(deps: Deps, { owner, leaseMs }: PrunerOptions, timer: TimerClaim): Promise<void> {
  const fields = { tenant_id: timer.tenantId, thread_id: timer.refId };
  try {
    const outcome = await expireThread(deps, timer, { owner, leaseMs });
    if (outcome !== "kept") deps.log.info({ ...fields, outcome }, "a thread's time to live is over");
  } catch (error) {
    await postpone(deps, timer, error);
  }
}

/** Every state stays; what none of them names goes. */
async function pruneOne(deps: Deps, { owner, leaseMs }: PrunerOptions, timer: TimerClaim): Promise<void> {
  const thread = { tenantId: timer.tenantId, threadId: timer.refId as ThreadId };
  const policy = { keepLatest: 1, olderThanMs: null, outcomes: [] };
  try {
    await pruneThread(deps, { ...thread, policy, thorough: true, dryRun: false, owner, leaseMs });
    const repack = {
      ...thread,
      kind: "repack",
      refId: timer.refId,
      timerId: deps.ids.next<TimerClaim["timerId"]>(),
    } as const;
    await setTimer(deps.db, { ...repack, when: { afterMs: 0 } });
    await endClaim(deps.db, timer);
  } catch (error) {
    if (isEngineError(error, "not_found")) await endClaim(deps.db, timer);
    else await postpone(deps, timer, error);
  }
}

async function retainOne(
  deps: Deps,
  retention: Retention,
  options: PrunerOptions,
  timer: TimerClaim,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { tenantId } = timer;
  const scope = { tenantId, threadId: null, dryRun: false, owner: options.owner, leaseMs: options.leaseMs };
  let [threads, skipped] = [0, 0];
  try {
    for await (const report of keepRetention(deps, retention, { ...scope, ...(signal && { signal }) })) {
      if (report.outcome === "pruned") threads += 1;
      else skipped += 1;
      const fields = { tenant_id: tenantId, thread_id: report.threadId, code: report.code };
      if (report.outcome === "failed") deps.log.error(fields, "a thread can't be pruned");
    }
    if (threads + skipped > 0) deps.log.info({ tenant_id: tenantId, threads, skipped }, "a round of retention is over");
    await postponeClaim(deps.db, timer, { afterMs: signal?.aborted ? 0 : EVERY_MS, error: null });
  } catch (error) {
    await postpone(deps, timer, error);
  }
}

async function postpone(deps: Deps, timer: TimerClaim, error: unknown): Promise<void> {
  const code = isEngineError(error) ? error.code : String((error as { code?: unknown }).code ?? "internal");
  const fields = { ref_id: timer.refId, code, error: (error as Error).name };
  if (isTransientDbError(error) || code === "thread_busy") deps.log.warn(fields, "pruning has to wait");
  else deps.log.error(fields, "pruning failed");
  const afterMs = backoffMs(timer.attempts, deps.random(), BACKOFF_BASE_MS, BACKOFF_CAP_MS);
  await postponeClaim(deps.db, timer, { afterMs, error: code });
}
