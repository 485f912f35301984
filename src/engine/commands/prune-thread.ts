// Prunes a thread: states that the policy lets go, and all that only they needed. Looked at from outside first; then the thread
// is held by a short edit, and one transaction deletes and lets go of it. Whoever dies before that has changed nothing.
import { pendingApprovals } from "../../approvals/approvals.js";
import type { ThreadKey } from "../../checkpoint/move-queries.js";
import { createPackReader } from "../../checkpoint/pack-reader.js";
import { type Marked, markReachable } from "../../checkpoint/prune/mark.js";
import { type StateNode, statesToKeep } from "../../checkpoint/prune/plan.js";
import { bodyHashes, stateNodes } from "../../checkpoint/prune/read-queries.js";
import {
  deleteBodies,
  deleteStates,
  deleteUnneededValues,
  deleteUnneededWrites,
  pruneToChannels,
  storeBytesInUse,
} from "../../checkpoint/prune/sweep-queries.js";
import type { Deps, Sql } from "../../core/deps.js";
import { EngineError, isBodyLost } from "../../core/errors.js";
import type { TimerId } from "../../core/ids.js";
import type { PrunePolicy } from "../../core/retention.js";
import { retryTransient } from "../../db/retry-transient.js";
import { contentPacks, contentPlaces, contentVersion } from "../../runs/content.js";
import { appendEvent } from "../../runs/events.js";
import { askForNewManifests } from "../../runs/manifests.js";
import { makeNextHead } from "../../runs/order.js";
import { lockUnfinishedRuns, outcomesOfThread } from "../../runs/runs.js";
import { lockThread, updateThreadStatus } from "../../runs/thread-lock.js";
import { getThread, newestRunSeq, threadVersion } from "../../runs/threads.js";
import { setTimer } from "../../schedule/timers.js";
import { assistantIdOf, graphIdOf } from "../state.js";
import { endEdit } from "./end-edit.js";
import { giveBack, type Held, takeThread, whileRenewing } from "./hold-thread.js";
import { leaseLost } from "../lease-lost.js";

/** What went, or would go. */
export type Pruned = Readonly<{
  checkpoints: number;
  writes: number;
  channelVersions: number;
  bodies: number;
  postgresBytes: number;
  /** In the object store, once packs are written anew; about. */
  storeBytes: number;
}>;

export type PruneInput = ThreadKey &
  Readonly<{
    policy: PrunePolicy;
    /** Looks for bodies that nothing names even when every state stays. */
    thorough: boolean;
    /** Only says what would go. */
    dryRun: boolean;
    /** Who holds the thread meanwhile. */
    owner: string;
    leaseMs: number;
    /** For tests: called between the steps. */
    reached?: (step: PruneStep) => Promise<void> | void;
  }>;
export type PruneStep = "marked" | "held" | "deleted";

/** So often a thread is looked at that others prune meanwhile. */
const LOOKS = 3;
/** Blocks are read again at each level of a tree. */
const CACHE_BYTES = 64 * 1024 * 1024;

/**
 * Prunes one thread; null when there was nothing to prune.
 * Throws `thread_busy` (a run is pending or running), `not_found`, `body_missing` or `body_corrupt` (what stays can't be read, so
 * that nobody knows what it needs), `unavailable`.
 */
export async function pruneThread(deps: Deps, input: PruneInput): Promise<Pruned | null> {
  const reached = input.reached ?? (() => {});
  const key = { tenantId: input.tenantId, threadId: input.threadId };
  const thread = await getThread(deps.db, key);
  const version = await threadVersion(deps.db, key);
  if (thread === undefined || thread.ephemeral) throw noThread(key);
  if (thread.status === "busy") throw new EngineError("thread_busy", `Thread ${key.threadId} is busy`);
  const sweep = await lookFromOutside(deps, input);
  if (sweep === null) return null;
  await reached("marked");
  if (input.dryRun) return rehearse(deps, key, sweep);
  const graphId = graphIdOf(thread) ?? "";
  const hold = {
    ...key,
    graphId,
    assistantId: assistantIdOf(thread, graphId),
    owner: input.owner,
    leaseMs: input.leaseMs,
  };
  const held = await takeThread(deps, hold, { quiet: true });
  try {
    await reached("held");
    const unchanged = (await threadVersion(deps.db, key)) === version;
    const act = () => sweepHeld(deps, held, input, unchanged ? sweep : undefined);
    const { pruned, next } = await whileRenewing(deps, held.lease, input.leaseMs, act);
    await reached("deleted");
    if (next) deps.notifier.notify("runs");
    deps.notifier.notify("move");
    return pruned;
  } catch (error) {
    await giveBack(deps, held.lease, held.thread.status, { quiet: true });
    // Who deletes a thread asks nobody who holds it.
    if (isBodyLost(error) && (await getThread(deps.db, key)) === undefined) throw noThread(key);
    throw error;
  }
}

function noThread({ threadId }: ThreadKey): EngineError {
  return new EngineError("not_found", `There is no thread ${threadId}`);
}

/** Sweeps the held thread; looks anew when there is no look yet, or content of runs was moved since. */
async function sweepHeld(deps: Deps, held: Held, input: PruneInput, known: Sweep | null | undefined): Promise<Swept> {
  for (let looked = known; ; looked = undefined) {
    const sweep = looked === undefined ? await planSweep(deps, held.lease, input.policy, input.thorough) : looked;
    const act = () => deps.db.tx((sql) => sweepAndLetGo(deps, sql, held, sweep));
    const swept = await retryTransient(act, { ...deps, deadlineMs: input.leaseMs });
    if (swept !== "stale") return swept;
  }
}

/**
 * Nobody is kept from the thread meanwhile: what can't be read may have been pruned or deleted by somebody else. Then it is looked
 * once more, until nobody was at it.
 */
async function lookFromOutside(deps: Deps, input: PruneInput): Promise<Sweep | null> {
  const key = { tenantId: input.tenantId, threadId: input.threadId };
  for (let looks = 1; ; looks++) {
    const before = await newestRunSeq(deps.db, key);
    try {
      return await planSweep(deps, key, input.policy, input.thorough);
    } catch (error) {
      const after = isBodyLost(error) ? await newestRunSeq(deps.db, key) : before;
      if (after === undefined) throw noThread(key);
      if (after === before) throw error;
      if (looks === LOOKS) throw new EngineError("thread_busy", `Thread ${input.threadId} is busy`);
    }
  }
}

type Swept = Readonly<{ pruned: Pruned | null; next: boolean }>;

/** What is to be deleted, by name. */
type Sweep = Readonly<{
  /** Of the runs' contents when it was looked. */
  contents: string;
  nodes: readonly StateNode[];
  drop: readonly StateNode[];
  marked: Marked;
  dead: readonly Buffer[];
}>;

async function planSweep(deps: Deps, key: ThreadKey, policy: PrunePolicy, thorough: boolean): Promise<Sweep | null> {
  const contents = await contentVersion(deps.db, key);
  const nodes = await stateNodes(deps.db, key);
  const kept = statesToKeep(nodes, await optionsOf(deps.db, key, policy));
  if (!thorough && nodes.every((node) => node.prunedTo !== null || kept.has(node.checkpointId))) return null;
  const packs = createPackReader(deps.bodies, { cacheBytes: CACHE_BYTES });
  const reading = { sql: deps.db, bodies: deps.bodies, key, packs };
  const marked = await markReachable(reading, nodes, kept, await contentPlaces(deps.db, key));
  const dead = (await bodyHashes(deps.db, key)).filter((hash) => !marked.live.has(hash.toString("base64url")));
  const drop = nodes.filter((node) => !kept.has(node.checkpointId) && !marked.supports.has(node.checkpointId));
  const hide = nodes.some((node) => node.prunedTo === null && marked.supports.has(node.checkpointId));
  return drop.length === 0 && dead.length === 0 && !hide ? null : { contents, nodes, drop, marked, dead };
}

async function optionsOf(sql: Sql, key: ThreadKey, policy: PrunePolicy) {
  const { rows } = await sql.query<{ cutoff: Date | null }>(
    "select clock_timestamp() - $1::float8 * interval '1 ms' as cutoff",
    [policy.olderThanMs],
  );
  const cutoff = rows[0]?.cutoff ?? null;
  const outcomes = policy.outcomes === null ? null : await outcomesOfThread(sql, key);
  const questions = await pendingApprovals(sql, key);
  const kept = policy.only?.keeps === undefined || policy.only.keeps === null ? [] : [policy.only.keeps];
  return {
    keepLatest: policy.keepLatest,
    pinned: new Set([...questions.flatMap(({ checkpointId }) => checkpointId ?? []), ...kept]),
    mayGo: ({ createdAt, runId }: StateNode) => {
      if (policy.only !== undefined && policy.only.runId !== runId) return false;
      if (cutoff !== null && createdAt >= cutoff) return false;
      if (outcomes === null) return true;
      const outcome = outcomes.get(runId ?? "");
      return outcome !== undefined && policy.outcomes?.includes(outcome) === true;
    },
  };
}

/** The transaction: deletes, ends the edit and frees the thread. "stale", and nothing changed, when more may be named by now. */
async function sweepAndLetGo(
  deps: Deps,
  sql: Sql,
  { lease, thread }: Held,
  sweep: Sweep | null,
): Promise<Swept | "stale"> {
  if ((await lockThread(sql, lease)) === undefined) throw leaseLost(lease);
  const others = (await lockUnfinishedRuns(sql, lease)).filter((run) => run.runId !== lease.runId);
  if (sweep !== null && (await contentVersion(sql, lease)) !== sweep.contents) return "stale";
  await endEdit(sql, lease, { checkpointId: null, errorCode: null });
  const key = { tenantId: lease.tenantId, threadId: lease.threadId };
  const pruned = sweep === null ? null : await deleteSwept(sql, key, sweep);
  const { checkpoints = 0, bodies = 0 } = pruned ?? {};
  await appendEvent(sql, lease, {
    type: "run.settled",
    attempt: 1,
    payload: { outcome: "prune", checkpoints, bodies },
  });
  if (pruned !== null) {
    // They name what is gone, or link the list of a run that has no states any more.
    await askForNewManifests(sql, key);
    // A mover that was at work may have given up, because what it relied on is gone.
    for (const kind of ["repack", "move"] as const) {
      const timer = { tenantId: key.tenantId, timerId: deps.ids.next<TimerId>(), kind, refId: key.threadId };
      await setTimer(sql, { ...timer, when: { afterMs: 0 } });
    }
  }
  const next = await makeNextHead(sql, lease);
  await updateThreadStatus(sql, { ...key, status: others.length > 0 ? "busy" : thread.status, quiet: true });
  return { pruned, next };
}

/** Null when there was nothing left of it: somebody else was faster. */
async function deleteSwept(sql: Sql, key: ThreadKey, { nodes, drop, marked, dead }: Sweep): Promise<Pruned | null> {
  const runs = await contentPacks(sql, key);
  const inUse = await storeBytesInUse(sql, key, runs);
  const states = await deleteStates(sql, key, drop);
  const supports = nodes.flatMap(({ ns, checkpointId }) => {
    const channels = marked.supports.get(checkpointId);
    return channels === undefined ? [] : [{ ns, checkpointId, channels: [...channels].sort() }];
  });
  const hidden = await pruneToChannels(sql, key, supports);
  const writes = await deleteUnneededWrites(sql, key);
  const values = await deleteUnneededValues(sql, key);
  const bodies = await deleteBodies(sql, key, dead);
  const before = drop.filter(({ prunedTo }) => prunedTo !== null).length;
  const pruned = {
    checkpoints: states.rows - before + hidden,
    writes: writes.rows,
    channelVersions: values.rows,
    bodies: bodies.rows,
    postgresBytes: states.bytes + writes.bytes + values.bytes + bodies.bytes,
    storeBytes: Math.max(0, Math.round(inUse - (await storeBytesInUse(sql, key, runs)))),
  };
  return Object.values(pruned).every((n) => n === 0) ? null : pruned;
}

/** Rolls a rehearsal back, with what it found. */
class Rehearsed extends Error {
  constructor(readonly pruned: Pruned | null) {
    super("rolled back");
  }
}

/** Does it, counts, and undoes it: the numbers are those of the act. */
async function rehearse(deps: Deps, key: ThreadKey, sweep: Sweep): Promise<Pruned | null> {
  try {
    return await deps.db.tx(async (sql) => {
      if ((await lockThread(sql, key)) === undefined)
        throw new EngineError("not_found", `There is no thread ${key.threadId}`);
      if ((await lockUnfinishedRuns(sql, key)).length > 0)
        throw new EngineError("thread_busy", `Thread ${key.threadId} is busy`);
      throw new Rehearsed(await deleteSwept(sql, key, sweep));
    });
  } catch (error) {
    if (error instanceof Rehearsed) return error.pruned;
    throw error;
  }
}
