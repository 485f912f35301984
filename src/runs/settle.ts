// How an attempt ends, as statements on `runs`. Each proves the lease in its `where`; the caller looks at what came back.
import { PREPARED, type Sql } from "../core/deps.js";
import type { Question } from "../core/approval.js";
import type { Lease } from "../core/clock.js";
import { formatLines, type StreamLine } from "./stream-chunks.js";

export type Ending = Readonly<{
  status: "success" | "interrupted" | "error";
  waitsFor: "approval" | "person" | null;
  resultCheckpointId: string | null;
  errorCode: string | null;
  errorType: string | null;
  errorPreview: string | null;
  /** UTF-8 JSON of the error: content. */
  error: Buffer | null;
}>;

export type AskedQuestion = Omit<Question, "policy"> &
  Readonly<{ approvalId: string; policy: Readonly<Record<string, unknown>> }>;

/** An attempt that ends, with all that becomes true by it. */
export type Settlement = Readonly<{
  lease: Lease;
  ending: Ending;
  /** Its last events, numbered. */
  finalChunks: readonly StreamLine[];
  questions: readonly AskedQuestion[];
  /** When another branch, which sleeps beside the questions, goes on. */
  wakeAt: Date | null;
  /** What it says in its conversation, as `post_deliveries` takes it. */
  posted: readonly object[];
}>;

/** `locked`: somebody holds its thread just now, and nothing was written. */
export type Settled = Readonly<{ how: "done" | "lost" | "locked"; freed: boolean }>;

/**
 * Settles attempts of one owner in one round trip, by the function in migrations/0005_settle.sql; answers in their order.
 * With `wait` it waits for threads that are locked.
 */
export async function settleRuns(
  sql: Sql,
  settlements: readonly Settlement[],
  options: Readonly<{ wait: boolean; moveAfterMs: number; keepEphemeralMs: number }>,
): Promise<Settled[]> {
  const owner = settlements[0]?.lease.owner;
  const of = <T>(pick: (settlement: Settlement) => T): T[] => settlements.map(pick);
  const { rows } = await sql.query<Settled & { runId: string }>(
    `select o_run_id as "runId", o_how as how, o_freed as freed
    from settle_runs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)`,
    [
      owner,
      options.wait,
      options.moveAfterMs,
      options.keepEphemeralMs,
      of(({ lease }) => lease.tenantId),
      of(({ lease }) => lease.threadId),
      of(({ lease }) => lease.runId),
      of(({ lease }) => lease.attempt),
      of(({ ending }) => ending.status),
      of(({ ending }) => ending.waitsFor),
      of(({ ending }) => ending.resultCheckpointId),
      of(({ wakeAt }) => wakeAt),
      of(({ ending }) => ending.errorCode),
      of(({ ending }) => ending.errorType),
      of(({ ending }) => ending.errorPreview),
      of(({ ending }) => ending.error),
      of(({ finalChunks }) => finalChunks[0]?.id ?? null),
      of(({ finalChunks }) => finalChunks.at(-1)?.id ?? null),
      of(({ finalChunks }) => (finalChunks.length === 0 ? null : formatLines(finalChunks))),
      of(({ questions }) => JSON.stringify(questions.map(questionJson))),
      of(({ posted }) => (posted.length === 0 ? null : JSON.stringify(posted))),
    ],
    PREPARED,
  );
  const byRun = new Map(rows.map((row) => [row.runId, row]));
  return of(({ lease }) => byRun.get(lease.runId) ?? { how: "lost", freed: false });
}

function questionJson({ approvalId, interruptId, ...question }: AskedQuestion) {
  return { approval_id: approvalId, interrupt_id: interruptId, ...question };
}

/** Ends the run; false when the lease is lost. Without an owner it ends a run whose lease ran out, whoever held it. */
export async function endAttempt(
  sql: Sql,
  lease: Pick<Lease, "tenantId" | "runId" | "attempt"> & Readonly<{ owner: string | null }>,
  ending: Ending,
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update runs
    set status = $5, head = false, lease_owner = null, lease_expires_at = null, waits_for = $6,
      result_checkpoint_id = $7, error_code = $8, error_type = $9, error_preview = $10, error = $11,
      content_moved_at = null, finished_at = clock_timestamp(), updated_at = clock_timestamp()
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running'
      and (lease_owner = $4 or ($4::text is null and lease_expires_at < clock_timestamp()))`,
    [
      lease.tenantId,
      lease.runId,
      lease.attempt,
      lease.owner,
      ending.status,
      ending.waitsFor,
      ending.resultCheckpointId,
      ending.errorCode,
      ending.errorType,
      ending.errorPreview,
      ending.error,
    ],
  );
  return rowCount === 1;
}

/** When a run that is given back may start again; null is at once. `provider`: what it waits for then. */
export type HandBackWhen = Readonly<{ at: Date }> | Readonly<{ afterMs: number; provider?: string | undefined }> | null;

/**
 * Gives the run back: pending again, at once or from an instant on; no crash is counted. Returns that instant (null: at
 * once), or undefined when the lease is lost.
 */
export async function handBack(sql: Sql, lease: Lease, when: HandBackWhen): Promise<Date | null | undefined> {
  const { rows } = await sql.query<{ availableAt: Date | null }>(
    `update runs
    set status = 'pending', lease_owner = null, lease_expires_at = null,
      available_at = coalesce($5::timestamptz, clock_timestamp() + $6::float8 * interval '1 ms'),
      waits_for = case
        when $7::text is not null then 'provider'
        when $5::timestamptz is not null or $6::float8 is not null then 'timer' end,
      provider = $7, outage_since = case when $7::text is not null then outage_since end,
      updated_at = clock_timestamp()
    where tenant_id = $1 and run_id = $2 and attempt = $3 and status = 'running' and lease_owner = $4
    returning available_at as "availableAt"`,
    [
      lease.tenantId,
      lease.runId,
      lease.attempt,
      lease.owner,
      when !== null && "at" in when ? when.at : null,
      when !== null && "afterMs" in when ? when.afterMs : null,
      when !== null && "afterMs" in when ? (when.provider ?? null) : null,
    ],
  );
  return rows[0]?.availableAt;
}
