// Calls of models by runs that have a budget: reserved before, settled with the commit that holds the answer.
import type { BudgetScope } from "../core/budget.js";
import type { Lease } from "../core/clock.js";
import type { Sql } from "../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";

export type Call = Readonly<{
  callId: string;
  model: string | null;
  tokens: number;
  cost: number;
  priced: boolean;
}>;
/** What a call was in the end; without usage it was what had been reserved. */
export type SettledCall = Readonly<{
  callId: string;
  usage: Readonly<{ inputTokens: number; outputTokens: number; cost: number }> | null;
}>;

type RunOf = Readonly<{ tenantId: TenantId; threadId: ThreadId; runId: RunId }>;

/** Whoever reserves waits here for others of the same tenant, thread and run, in this order, until the transaction ends. */
export async function lockReservations(sql: Sql, run: RunOf, scopes: readonly BudgetScope[]): Promise<void> {
  const keys = [
    ...(scopes.includes("day") ? [`day ${run.tenantId}`] : []),
    ...(scopes.includes("thread") ? [`thread ${run.tenantId} ${run.threadId}`] : []),
    `run ${run.tenantId} ${run.runId}`,
  ];
  for (const key of keys) await sql.query("select pg_advisory_xact_lock(hashtextextended($1, 7264861091))", [key]);
}

export type CallSums = Readonly<{ cost: number; tokens: number }>;

/** Of an index each. */
const WHERE: Readonly<Record<BudgetScope, string>> = {
  run: "run_id = $3",
  thread: "thread_id = $3",
  day: "day = (clock_timestamp() at time zone 'utc')::date",
};

/** Spent and reserved so far, but for one call. */
export async function sumCalls(sql: Sql, run: RunOf, scope: BudgetScope, except: string | null): Promise<CallSums> {
  const { rows } = await sql.query<CallSums>(
    `select coalesce(sum(cost), 0)::float8 as cost, coalesce(sum(tokens), 0)::float8 as tokens
    from model_calls
    where tenant_id = $1 and ($2::uuid is null or call_id <> $2) and ${WHERE[scope]}`,
    [run.tenantId, except, ...(scope === "run" ? [run.runId] : scope === "thread" ? [run.threadId] : [])],
  );
  return rows[0] ?? { cost: 0, tokens: 0 };
}

/** The lease is the caller's to prove. Again, as after a lost reply, it changes nothing. */
export async function insertCall(sql: Sql, lease: Lease, call: Call): Promise<void> {
  await sql.query(
    `insert into model_calls (tenant_id, run_id, call_id, thread_id, attempt, model, tokens, cost, priced)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    on conflict (tenant_id, run_id, call_id) do nothing`,
    [
      lease.tenantId,
      lease.runId,
      call.callId,
      lease.threadId,
      lease.attempt,
      call.model,
      call.tokens,
      call.cost,
      call.priced,
    ],
  );
}

/** It was refused: nothing was spent. */
export async function releaseCall(sql: Sql, lease: Lease, callId: string): Promise<void> {
  await sql.query(
    `update model_calls
    set status = 'released', tokens = 0, cost = 0, settled_at = clock_timestamp()
    where tenant_id = $1 and run_id = $2 and call_id = $3 and status = 'reserved'`,
    [lease.tenantId, lease.runId, callId],
  );
}

/**
 * A CTE for a commit: settles what is in parameter `param`, for the runs in `f(tenant_id, run_id)`, which the fence let through.
 */
export function settleCallsCte(param: number): string {
  return `settled_calls as (
  update model_calls c
  set status = 'settled', settled_at = clock_timestamp(),
    tokens = coalesce(u.input_tokens + u.output_tokens, c.tokens), cost = coalesce(u.cost, c.cost),
    input_tokens = u.input_tokens, output_tokens = u.output_tokens
  from jsonb_to_recordset($${param}::jsonb)
    u(run_id uuid, call_id uuid, input_tokens bigint, output_tokens bigint, cost numeric)
  join f using (run_id)
  where c.tenant_id = f.tenant_id and c.run_id = f.run_id and c.call_id = u.call_id and c.status = 'reserved'
)`;
}

const NONE = "[]";

/** The parameter for `settleCallsCte`. */
export function settleCallsParam(settled: readonly Readonly<{ runId: string; call: SettledCall }>[]): string {
  if (settled.length === 0) return NONE;
  return JSON.stringify(
    settled.map(({ runId, call: { callId, usage } }) => ({
      run_id: runId,
      call_id: callId,
      input_tokens: usage?.inputTokens ?? null,
      output_tokens: usage?.outputTokens ?? null,
      cost: usage?.cost ?? null,
    })),
  );
}

/** What a run's calls took. `inDoubt`: reserved by attempts that are over; whether they were made can't be known. */
export type RunCalls = Readonly<{
  calls: number;
  tokens: number;
  cost: number;
  inDoubt: number;
  inDoubtTokens: number;
  inDoubtCost: number;
  unpriced: readonly string[];
}>;

/** Undefined when it made none that was counted. */
export async function callsOfRun(
  sql: Sql,
  run: Readonly<{ tenantId: TenantId; runId: RunId; attempt: number; running: boolean }>,
): Promise<RunCalls | undefined> {
  const { rows } = await sql.query<RunCalls>(
    `select count(*) filter (where status = 'settled') as calls,
      coalesce(sum(tokens) filter (where status = 'settled'), 0)::float8 as tokens,
      coalesce(sum(cost) filter (where status = 'settled'), 0)::float8 as cost,
      count(*) filter (where status = 'reserved' and (attempt < $3 or not $4)) as "inDoubt",
      coalesce(sum(tokens) filter (where status = 'reserved' and (attempt < $3 or not $4)), 0)::float8 as "inDoubtTokens",
      coalesce(sum(cost) filter (where status = 'reserved' and (attempt < $3 or not $4)), 0)::float8 as "inDoubtCost",
      coalesce(array_agg(distinct model) filter (where not priced and model is not null), '{}') as unpriced
    from model_calls
    where tenant_id = $1 and run_id = $2
    having count(*) > 0`,
    [run.tenantId, run.runId, run.attempt, run.running],
  );
  return rows[0];
}

/** The thread is deleted: what it spent today still counts for the tenant. */
export async function forgetThread(
  sql: Sql,
  thread: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
): Promise<void> {
  await sql.query(`update model_calls set thread_id = null where tenant_id = $1 and thread_id = $2`, [
    thread.tenantId,
    thread.threadId,
  ]);
  await sql.query(`delete from budgets where tenant_id = $1 and scope = 'thread' and ref_id = $2::uuid::text`, [
    thread.tenantId,
    thread.threadId,
  ]);
}

/** Removes the calls of threads that are gone, once their day is over. For all tenants: they are nobody's any more. */
export async function deleteGoneCalls(sql: Sql): Promise<void> {
  await sql.query(
    `delete from model_calls
    where thread_id is null and day < (clock_timestamp() at time zone 'utc')::date`,
  );
}
