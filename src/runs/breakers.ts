// Breakers: what runs found overloaded or away, shared by all workers, so that hundreds of runs don't ask it again and again.
// After some failures it is open: runs wait without a worker, and when its pause is over one of them at a time tries.
import type { Sql } from "../core/deps.js";
import type { RunId, TenantId } from "../core/ids.js";

export type BreakerKey = Readonly<{ tenantId: TenantId; provider: string }>;

/** So many failures open it, when each came at most FORGET_MS after the one before. */
const OPEN_AFTER = 3;
const FORGET_MS = 60_000;
/** Its first pause; each trial that fails doubles it. */
const PAUSE_MS = 15_000;
const MAX_PAUSE_MS = 60_000;
/** A trial that says nothing for so long has died, or takes its time: another run may try. */
const TRIAL_MS = 120_000;

/** Counts a failed call. Returns for how long nobody should try, in ms: 0 while it is closed. */
export async function countBreakerFailure(
  sql: Sql,
  failed: BreakerKey & Readonly<{ runId: RunId; retryAfterMs: number }>,
): Promise<Readonly<{ failures: number; openMs: number }>> {
  const { rows } = await sql.query<{ failures: number; openMs: number }>(
    `insert into breakers as b (tenant_id, provider, failures)
    values ($1, $2, 1)
    on conflict (tenant_id, provider) do update
    set failures = case
        when b.open_until is null and b.failed_at < clock_timestamp() - $4::float8 * interval '1 ms' then 1
        else b.failures + 1 end,
      openings = b.openings + (b.open_until is not null and b.trial_run_id is not distinct from $3)::int,
      open_until = case
        -- Those that were on their way when it opened don't make the pause longer.
        when b.open_until is not null and b.trial_run_id is distinct from $3 then b.open_until
        when b.open_until is null and (
          b.failures + 1 < $5 or b.failed_at < clock_timestamp() - $4::float8 * interval '1 ms') then null
        else clock_timestamp()
          + greatest(least($6::float8 * 2 ^ b.openings, $7::float8), $8::float8) * interval '1 ms' end,
      trial_run_id = case when b.trial_run_id = $3 then null else b.trial_run_id end,
      trial_until = case when b.trial_run_id = $3 then null else b.trial_until end,
      failed_at = clock_timestamp()
    returning failures,
      greatest(0, coalesce(extract(epoch from open_until - clock_timestamp()), 0))::float8 * 1000 as "openMs"`,
    [
      failed.tenantId,
      failed.provider,
      failed.runId,
      FORGET_MS,
      OPEN_AFTER,
      PAUSE_MS,
      MAX_PAUSE_MS,
      failed.retryAfterMs,
    ],
  );
  return rows[0] ?? { failures: 1, openMs: 0 };
}

/** Whether the run may call the provider now: null, or for how many ms it shouldn't. One at a time may while it is open. */
export async function takeTurn(sql: Sql, turn: BreakerKey & Readonly<{ runId: RunId }>): Promise<number | null> {
  const { rowCount } = await sql.query(
    `update breakers
    set trial_run_id = $3, trial_until = clock_timestamp() + $4::float8 * interval '1 ms'
    where tenant_id = $1 and provider = $2 and open_until <= clock_timestamp()
      and (trial_run_id is null or trial_run_id = $3 or trial_until <= clock_timestamp())`,
    [turn.tenantId, turn.provider, turn.runId, TRIAL_MS],
  );
  return rowCount === 1 ? null : breakerWaitMs(sql, turn);
}

/** The run has its turn no more, if it was its. Returns another one that waits for the provider and may have it. */
export async function passTurn(sql: Sql, turn: BreakerKey & Readonly<{ runId: RunId }>): Promise<RunId | undefined> {
  const { rows } = await sql.query<{ runId: RunId }>(
    `with passed as (
      update breakers
      set trial_run_id = null, trial_until = null
      where tenant_id = $1 and provider = $2 and trial_run_id = $3
      returning 1
    )
    select run_id as "runId"
    from runs
    where tenant_id = $1 and provider = $2 and waits_for = 'provider' and run_id <> $3 and exists (select 1 from passed)
    order by seq
    limit 1`,
    [turn.tenantId, turn.provider, turn.runId],
  );
  return rows[0]?.runId;
}

/** For how many ms nobody else should call the provider; null while its breaker is closed. */
export async function breakerWaitMs(sql: Sql, key: BreakerKey): Promise<number | null> {
  const { rows } = await sql.query<{ ms: number }>(
    `select extract(epoch from greatest(open_until, trial_until) - clock_timestamp())::float8 * 1000 as ms
    from breakers
    where tenant_id = $1 and provider = $2 and open_until is not null`,
    [key.tenantId, key.provider],
  );
  return rows[0] === undefined ? null : Math.max(0, rows[0].ms);
}

/** It works again. */
export async function closeBreaker(sql: Sql, key: BreakerKey): Promise<void> {
  await sql.query(`delete from breakers where tenant_id = $1 and provider = $2`, [key.tenantId, key.provider]);
}

/** Runs that wait for the provider. */
export async function runsWaitingFor(sql: Sql, key: BreakerKey): Promise<RunId[]> {
  const { rows } = await sql.query<{ runId: RunId }>(
    `select run_id as "runId" from runs where tenant_id = $1 and provider = $2 and waits_for = 'provider'`,
    [key.tenantId, key.provider],
  );
  return rows.map(({ runId }) => runId);
}
