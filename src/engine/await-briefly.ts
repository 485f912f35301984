// Waiting for a run as long as a caller would, and no longer than it makes sense: not when the worker that had it is dead.
import { isTransientDbError } from "../core/retry.js";
import { isConnected } from "../db/health.js";
import type { RunOfThread } from "../runs/runs.js";
import type { Engine } from "./engine.js";
import { heartbeatName } from "./heartbeat/messages.js";
import type { RunKey } from "./reads.js";
import { awaitRun } from "./stream/await-run.js";

/** How often it is looked at whether the worker lives. */
const LOOK_EVERY_MS = 500;

/**
 * The run if it ends within `waitMs`; undefined when it doesn't, as soon as its worker died, or when `signal` was aborted.
 * Throws `not_found` when it is deleted.
 */
export async function awaitBriefly(
  engine: Engine,
  run: RunKey,
  { waitMs, isNew, signal }: Readonly<{ waitMs: number; isNew: boolean; signal: AbortSignal }>,
): Promise<RunOfThread | undefined> {
  const enough = new AbortController();
  const stop = (): void => enough.abort();
  signal.addEventListener("abort", stop, { once: true });
  const timer = setTimeout(stop, waitMs);
  const watching = watchWorker(engine, run, enough.signal).then(stop);
  try {
    return await awaitRun(engine, { tenantId: run.tenantId, runId: run.runId, signal: enough.signal, isNew });
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    stop();
    await watching;
  }
}

/**
 * Resolves when an attempt that was running has lost its worker, or was given back, or the signal is aborted. A worker's lease
 * outlives it; the connection of its heartbeat doesn't. Where that one was never seen, since a pooler is in between, the lease counts.
 */
async function watchWorker({ deps, reads }: Engine, run: RunKey, signal: AbortSignal): Promise<void> {
  let seen: string | null = null;
  let attempt = 0;
  while (!signal.aborted) {
    await deps.clock.sleep(LOOK_EVERY_MS, signal);
    if (signal.aborted) return;
    try {
      const now = await reads.run(run);
      const owner = now?.leaseOwner ?? null;
      if (now === undefined || (attempt > 0 && (owner === null || now.attempt > attempt))) return;
      if (owner === null) continue;
      attempt = now.attempt;
      if (await isConnected(deps.db, heartbeatName(owner))) seen = owner;
      else if (seen === owner) return;
    } catch (error) {
      if (!isTransientDbError(error)) throw error;
    }
  }
}
