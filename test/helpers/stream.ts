// Runs that are claimed without a worker, for tests of what an attempt writes and what watchers read.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock, Lease } from "../../src/core/clock.js";
import type { Deps, Sql } from "../../src/core/deps.js";
import { createStreamAppender, createStreamSink, type StreamSink } from "../../src/engine/stream/sink.js";
import { DEFAULT_TENANT, type RunId, type ThreadId } from "../../src/core/ids.js";

export const testClock: Clock = {
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, undefined, signal === undefined ? {} : { signal }).catch(() => undefined),
};

/** An attempt's sink that appends by itself. */
export function openSink(
  deps: Pick<Deps, "db" | "notifier" | "clock" | "random">,
  lease: Lease,
  signal: AbortSignal,
  { watched = true } = {},
): StreamSink {
  return createStreamSink(deps, lease, signal, { append: createStreamAppender(deps), watched });
}

/** A running run on a thread of its own, and the lease that owns it. */
export async function makeRunningRun(sql: Sql, options: Readonly<{ attempt?: number }> = {}): Promise<Lease> {
  const lease: Lease = {
    tenantId: DEFAULT_TENANT,
    threadId: randomUUID() as ThreadId,
    runId: randomUUID() as RunId,
    attempt: options.attempt ?? 1,
    owner: `test/${randomUUID()}`,
  };
  await sql.query("insert into threads (tenant_id, thread_id, status) values ($1, $2, 'busy')", [
    lease.tenantId,
    lease.threadId,
  ]);
  await sql.query(
    `insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, status, head, attempt,
      lease_owner, lease_expires_at)
    values ($1, $2, $3, $4, 'test', 'running', true, $5, $6, now() + interval '1 hour')`,
    [lease.tenantId, lease.runId, lease.threadId, randomUUID(), lease.attempt, lease.owner],
  );
  return lease;
}

/** Ends the run as settling does. */
export async function finishRun(sql: Sql, lease: Lease, status = "success"): Promise<void> {
  await sql.query(
    `update runs set status = $3, head = false, lease_owner = null, lease_expires_at = null, finished_at = now()
    where tenant_id = $1 and run_id = $2`,
    [lease.tenantId, lease.runId, status],
  );
}
