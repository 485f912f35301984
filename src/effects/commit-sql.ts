// The effects' part of a commit: CTEs that move rows of the ledger for the runs that the fence let through, and what of it
// goes into the runs' logs. They expect a CTE `g(tenant_id, thread_id, run_id, attempt)` of those runs.
//
// A row takes the place of none, of its own call, or of the call it says it replaces: whoever saw an older one changes nothing.
// So a statement that is sent again (its reply was lost) writes the same again.
import { binaryArray, plainArray } from "../db/arrays.js";
import type { EffectMove } from "./effect.js";

/** Rows for a run's log: `effect_log(tenant_id, thread_id, run_id, attempt, type, payload)`. */
export const EFFECT_LOG = "effect_log";

/** The CTEs, with `effectParams` at `firstParam` and after. */
export function effectCtes(firstParam: number): string {
  const columns = [
    ["run_id", "uuid"],
    ["key", "text"],
    ["call_id", "uuid"],
    ["replaces", "uuid"],
    ["tool", "text"],
    ["args_hash", "bytea"],
    ["kind", "text"],
    ["policy", "text"],
    ["status", "text"],
    ["epoch", "int"],
    ["task", "text"],
    ["result", "bytea"],
    ["error_code", "text"],
    ["question", "text"],
    ["resolution", "text"],
    ["compensated", "boolean"],
  ] as const;
  const arrays = columns.map(([, type], i) => `$${firstParam + i}::${type}[]`).join(", ");
  return `
effect_rows as materialized (
  select g.tenant_id, g.thread_id, g.attempt, u.*
  from unnest(${arrays}) as u(${columns.map(([name]) => name).join(", ")})
  join g using (run_id)
), effect_before as materialized (
  select e.tenant_id, e.key, e.call_id
  from effects e
  where (e.tenant_id, e.key) in (select tenant_id, key from effect_rows)
  order by e.tenant_id, e.key
  for no key update
), effect_moves as (
  insert into effects as e (tenant_id, key, thread_id, run_id, attempt, call_id, tool, args_hash, kind, policy, status,
    attempts, epoch, task, result, error_code, question, resolution, compensated_at)
  select r.tenant_id, r.key, r.thread_id, r.run_id, r.attempt, r.call_id, r.tool, r.args_hash, r.kind, r.policy, r.status,
    (r.status = 'started')::int, r.epoch, r.task, r.result, r.error_code, r.question::jsonb, r.resolution::jsonb,
    case when r.compensated then clock_timestamp() end
  from effect_rows r
  left join effect_before b on b.tenant_id = r.tenant_id and b.key = r.key
  where b.key is null or b.call_id = r.call_id or b.call_id = r.replaces
  order by r.tenant_id, r.key
  on conflict (tenant_id, key) do update
  set run_id = excluded.run_id, attempt = excluded.attempt, call_id = excluded.call_id, status = excluded.status,
    args_hash = excluded.args_hash, kind = excluded.kind, policy = excluded.policy, task = excluded.task,
    attempts = e.attempts + excluded.attempts, result = excluded.result,
    error_code = coalesce(excluded.error_code, case when excluded.status = 'unknown' then e.error_code end),
    question = excluded.question, resolution = coalesce(excluded.resolution, e.resolution),
    compensated_at = coalesce(excluded.compensated_at, e.compensated_at), updated_at = clock_timestamp()
  -- What declares nothing and may be repeated is, in a fork, with other arguments too.
  where (e.args_hash = excluded.args_hash and (e.status <> 'succeeded' or excluded.compensated_at is not null))
    or (excluded.kind = 'undeclared' and excluded.policy = 'retry')
  returning e.tenant_id, e.thread_id, e.run_id, e.attempt, e.key, e.tool, e.kind, e.status, e.attempts, e.error_code
), effect_log as (
  select m.tenant_id, m.thread_id, m.run_id, m.attempt, t.type,
    jsonb_strip_nulls(jsonb_build_object('key', m.key, 'tool', m.tool, 'kind', m.kind, 'status', m.status,
      'calls', m.attempts, 'error_code', m.error_code, 'by', r.resolution::jsonb ->> 'by', 'how', r.resolution::jsonb ->> 'how'
    )) as payload
  from effect_moves m
  join effect_rows r on r.tenant_id = m.tenant_id and r.key = m.key
  cross join lateral (
    select 'effect.resolved' as type, 1 as n where r.resolution is not null
    union all
    select 'effect.' || m.status, 2
    where m.status in ('started', 'succeeded', 'failed')
      -- Said once: not when it is asked about, nor when that is answered.
      or (m.status = 'unknown' and r.resolution is null and (r.question::jsonb ->> 'open') is distinct from 'true')
  ) t
  where m.kind <> 'none'
  order by m.key, t.n
)`;
}

/** The parameters for `effectCtes`. One move per key and statement: a second for the same key would have nothing to replace. */
export function effectParams(moves: readonly Readonly<{ runId: string; move: EffectMove }>[]): unknown[] {
  const json = (value: unknown): string | null => (value === null ? null : JSON.stringify(value));
  const of = (field: (move: EffectMove) => string | null) => moves.map(({ move }) => field(move));
  return [
    plainArray(moves.map(({ runId }) => runId)),
    binaryArray(
      "text",
      of((m) => m.key),
    ),
    plainArray(of((m) => m.callId)),
    plainArray(of((m) => m.replaces)),
    binaryArray(
      "text",
      of((m) => m.tool),
    ),
    binaryArray(
      "bytea",
      moves.map(({ move }) => Buffer.from(move.argsHash, "hex")),
    ),
    plainArray(of((m) => m.kind)),
    plainArray(of((m) => m.policy)),
    plainArray(of((m) => m.status)),
    plainArray(moves.map(({ move }) => move.epoch)),
    binaryArray(
      "text",
      of((m) => m.task),
    ),
    binaryArray(
      "bytea",
      moves.map(({ move }) => move.result),
    ),
    binaryArray(
      "text",
      of((m) => m.errorCode),
    ),
    binaryArray(
      "text",
      of((m) => json(m.question)),
    ),
    binaryArray(
      "text",
      of((m) => json(m.resolution)),
    ),
    plainArray(moves.map(({ move }) => String(move.compensated))),
  ];
}
