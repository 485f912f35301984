// The group commit: saver operations of all runs of a process go through one combiner. While a commit is on its way the
// next batch collects, then goes as one statement. Fenced per run: one that lost its lease fails alone.
import type { Lease } from "../core/clock.js";
import { PREPARED, type Deps } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { backoffMs, isTransientDbError } from "../core/retry.js";
import { settleCallsCte, settleCallsParam, type SettledCall } from "../budgets/model-calls.js";
import { CHECKPOINT_RESULT, checkpointCtes, checkpointParams } from "../checkpoint/commit-sql.js";
import { bytesOf, type CheckpointOp, splitOp } from "../checkpoint/ops.js";
import { EFFECT_LOG, effectCtes, effectParams } from "../effects/commit-sql.js";
import type { EffectMove } from "../effects/effect.js";
import { eventsCte } from "../runs/events.js";
import { FENCE_CTES, FENCE_PARAM_COUNT } from "../runs/guard.js";
import { leaseLost } from "./lease-lost.js";

const CTES = `${FENCE_CTES}, ${settleCallsCte(FENCE_PARAM_COUNT + 1)}, ${checkpointCtes(FENCE_PARAM_COUNT + 2)}`;
const RESULT = `select run_id as "runId", how, ${CHECKPOINT_RESULT} as "missingObjects" from fence`;
const STATEMENT = `with ${CTES} ${RESULT}`;
/** For batches that move effects: the others don't pay for it. */
const EFFECT_PARAM = FENCE_PARAM_COUNT + 2 + checkpointParams([]).length;
const STATEMENT_WITH_EFFECTS = `with ${CTES}, ${effectCtes(EFFECT_PARAM)}, ${eventsCte(EFFECT_LOG)} ${RESULT}`;

/** What would make a statement larger waits for the next. Parameters travel as hex, and neither pg nor Postgres takes 1 GB. */
const MAX_BATCH_BYTES = 16 * 1024 * 1024;
/** Tries of a statement that the server refuses, since it doesn't say whether it always will. */
const MAX_REFUSALS = 3;
/** Until a run whose row somebody has locked is tried again. */
const LOCKED_MS = 5;
const MAX_LOCKED_MS = 500;

/** What a lease commits: a saver's operation, effects, or both. */
export type CommitOp = CheckpointOp & Readonly<{ effects?: readonly EffectMove[] }>;

/** Commits an operation, and with it what calls of models came to. */
export type CommitWith = (op: CommitOp, calls?: readonly SettledCall[]) => Promise<void>;

export type Combiner = Readonly<{
  /** The commit function of one lease. Its operations are numbered, so that a lost reply is no lost lease. */
  forLease(lease: Lease, signal: AbortSignal): CommitWith;
  /** Resolves when nothing is on its way. */
  idle(): Promise<void>;
}>;

type Waiting = {
  op: CommitOp;
  calls: readonly SettledCall[];
  bytes: number;
  resolve: () => void;
  reject: (error: unknown) => void;
};
type RunQueue = {
  lease: Lease;
  signal: AbortSignal;
  commitNo: number;
  waiting: Waiting[];
  failed: unknown;
  /** How often in a row its row was locked by somebody. */
  locked: number;
};
type Batch = { queue: RunQueue; commitNo: number; taken: Waiting[] };

/** A combiner for one process (one lease owner). */
export function createCombiner(deps: Deps, owner: string): Combiner {
  const queues = new Set<RunQueue>();
  let busy: Promise<void> | undefined;
  let putOff = 0;

  const kick = (): void => {
    if (busy !== undefined) return;
    // A turn of the event loop lets one superstep's writes and checkpoint land in one statement.
    busy = new Promise<void>((resolve) => setImmediate(resolve)).then(async () => {
      while (queues.size > 0) await commitBatch(takeBatch(queues));
      busy = undefined;
    });
  };

  const commitBatch = async (batch: readonly Batch[]): Promise<void> => {
    if (batch.length === 0) return;
    const sent = await send(deps, owner, batch);
    for (const part of batch) {
      const of = sent instanceof Map ? sent.get(part.queue.lease.runId) : sent;
      if (isLocked(of) && !part.queue.signal.aborted) void putBack(part);
      else settlePart(part, of);
    }
  };

  /** Its neighbours go on meanwhile. */
  const putBack = async ({ queue, taken }: Batch): Promise<void> => {
    queue.waiting.unshift(...taken);
    queues.delete(queue);
    queue.locked += 1;
    putOff += 1;
    await deps.clock.sleep(backoffMs(queue.locked, deps.random(), LOCKED_MS, MAX_LOCKED_MS));
    putOff -= 1;
    queues.add(queue);
    kick();
  };

  return {
    forLease(lease, signal) {
      const queue: RunQueue = { lease, signal, commitNo: 0, waiting: [], failed: undefined, locked: 0 };
      const enqueue = (op: CommitOp, calls: readonly SettledCall[], bytes: number) =>
        new Promise<void>((resolve, reject) => {
          if (queue.failed !== undefined) return reject(queue.failed);
          queue.waiting.push({ op, calls, bytes, resolve, reject });
          queues.add(queue);
          kick();
        });
      return (op, calls = []) => {
        const bytes = bytesOf(op) + bytesOfEffects(op);
        if (bytes <= MAX_BATCH_BYTES || op.effects !== undefined) return enqueue(op, calls, bytes);
        const split = splitOp(op, MAX_BATCH_BYTES);
        // With the last part, which makes all of it count.
        const parts = split.map((part, i) => enqueue(part, i === split.length - 1 ? calls : [], bytesOf(part)));
        return Promise.all(parts).then(() => undefined);
      };
    },
    async idle() {
      while (busy !== undefined || putOff > 0) await (busy ?? deps.clock.sleep(LOCKED_MS));
    },
  };
}

function takeBatch(queues: Set<RunQueue>): Batch[] {
  const batch: Batch[] = [];
  let bytes = 0;
  for (const queue of [...queues]) {
    const { waiting } = queue;
    if (queue.failed !== undefined) for (const { reject } of waiting.splice(0)) reject(queue.failed);
    let count = 0;
    for (let next = waiting[0]; next !== undefined; next = waiting[count]) {
      if (bytes > 0 && bytes + next.bytes > MAX_BATCH_BYTES) break;
      bytes += next.bytes;
      count += 1;
    }
    if (waiting.length > 0 && count === 0) break;
    queues.delete(queue);
    // What is left of it comes after the others.
    if (count < waiting.length) queues.add(queue);
    if (count > 0) batch.push({ queue, commitNo: queue.commitNo + 1, taken: waiting.splice(0, count) });
  }
  return batch;
}

function bytesOfEffects({ effects = [] }: CommitOp): number {
  return effects.reduce((sum, { result }) => sum + (result?.length ?? 0), 0);
}

type Sent = Readonly<{ how: "done" | "already" | "lost" | "gap" | "locked"; missingObjects: number }>;

const DONE: ReadonlySet<Sent["how"]> = new Set(["done", "already"]);
const isLocked = (sent: Sent | Error | undefined): boolean =>
  sent !== undefined && !(sent instanceof Error) && sent.how === "locked";

/** Sends until the database answered, or every run of the batch was aborted. A failing batch of many goes again one by one. */
async function send(deps: Deps, owner: string, batch: readonly Batch[]): Promise<Map<string, Sent> | Error> {
  const leases = batch.map((part) => part.queue.lease);
  const moves = batch.flatMap((part) =>
    part.taken.flatMap(({ op }) => (op.effects ?? []).map((move) => ({ runId: part.queue.lease.runId, move }))),
  );
  const statement = moves.length === 0 ? STATEMENT : STATEMENT_WITH_EFFECTS;
  const params = [
    leases.map((l) => l.tenantId),
    leases.map((l) => l.runId),
    leases.map((l) => l.attempt),
    batch.map((part) => part.commitNo),
    batch.map((part) => part.taken.some((waiting) => waiting.op.progress)),
    owner,
    settleCallsParam(
      batch.flatMap((part) =>
        part.taken.flatMap(({ calls }) => calls.map((call) => ({ runId: part.queue.lease.runId, call }))),
      ),
    ),
    ...checkpointParams(
      batch.flatMap((part) => part.taken.map((waiting) => ({ runId: part.queue.lease.runId, op: waiting.op }))),
    ),
    ...(moves.length === 0 ? [] : effectParams(moves)),
  ];
  for (let tries = 1; ; tries += 1) {
    try {
      const { rows } = await deps.db.query<Sent & { runId: string }>(statement, params, PREPARED);
      return new Map(rows.map((row) => [row.runId, row]));
    } catch (error) {
      const refused = !isTransientDbError(error);
      if (refused && batch.length > 1) return sendOneByOne(deps, owner, batch);
      if ((refused && tries >= MAX_REFUSALS) || batch.every((part) => part.queue.signal.aborted)) return error as Error;
      deps.log.warn({ code: String((error as { code?: unknown }).code), tries }, "commit failed, trying again");
      await deps.clock.sleep(backoffMs(tries, deps.random(), 50, 1_000));
    }
  }
}

async function sendOneByOne(deps: Deps, owner: string, batch: readonly Batch[]): Promise<Map<string, Sent>> {
  const all = new Map<string, Sent>();
  for (const part of batch) {
    const sent = await send(deps, owner, [part]);
    if (sent instanceof Map) for (const [runId, row] of sent) all.set(runId, row);
    else fail(part, sent);
  }
  return all;
}

function settlePart(part: Batch, sent: Sent | Error | undefined): void {
  const { queue } = part;
  if (queue.failed !== undefined) return;
  if (sent instanceof Error) return fail(part, sent);
  if (sent === undefined || !DONE.has(sent.how)) return fail(part, leaseLost(queue.lease));
  if (sent.missingObjects > 0) {
    return fail(
      part,
      new EngineError("body_missing", `A large body of run ${queue.lease.runId} was swept before its commit`),
    );
  }
  queue.commitNo = part.commitNo;
  queue.locked = 0;
  for (const waiting of part.taken) waiting.resolve();
}

/** The run's later operations fail as well: a gap in its history must not be filled from behind. */
function fail(part: Batch, error: unknown): void {
  part.queue.failed = error;
  for (const waiting of part.taken) waiting.reject(error);
}
