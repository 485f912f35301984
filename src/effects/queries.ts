// The ledger of effects (table `effects`): reads, and what the mover and a local effect's transaction write. All else that is
// written goes through the group commit (commit-sql.ts).
import { type Within, withinParam } from "../core/access.js";
import { PREPARED, type Sql } from "../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";
import type { EffectMove, EffectRow, EffectStatus, FoundEffect } from "./effect.js";

const COLUMNS = `
  e.tenant_id as "tenantId", e.key, e.thread_id as "threadId", e.run_id as "runId", e.attempt, e.call_id as "callId",
  e.tool, encode(e.args_hash, 'hex') as "argsHash", e.kind, e.policy, e.status, e.attempts, e.epoch, e.task,
  e.error_code as "errorCode", e.question, e.resolution, e.compensated_at as "compensatedAt",
  e.created_at as "createdAt", e.updated_at as "updatedAt"`;

type ThreadKey = Readonly<{ tenantId: TenantId; threadId: ThreadId }>;

/** The effect with this key, and another of the thread that did the same a moment ago (`withinMs`; 0 asks for none). */
export async function findEffect(
  sql: Sql,
  of: ThreadKey & Readonly<{ key: string; tool: string; argsHash: string; withinMs: number }>,
): Promise<Readonly<{ own: FoundEffect | undefined; twin: FoundEffect | undefined }>> {
  const { rows } = await sql.query<FoundEffect>(
    `select ${COLUMNS}, e.result
    from effects e
    where e.tenant_id = $1 and (
      e.key = $2
      or ($6::float8 > 0 and e.thread_id = $3 and e.tool = $4 and e.args_hash = decode($5, 'hex')
        and e.status in ('started', 'succeeded', 'unknown') and e.compensated_at is null
        and e.updated_at > clock_timestamp() - $6::float8 * interval '1 ms')
    )
    order by e.updated_at desc`,
    [of.tenantId, of.key, of.threadId, of.tool, of.argsHash, of.withinMs],
  );
  return { own: rows.find(({ key }) => key === of.key), twin: rows.find(({ key }) => key !== of.key) };
}

/** Those of a thread with one of the keys, or called in one of the tasks; newest first. */
export async function findEffects(
  sql: Sql,
  of: ThreadKey & Readonly<{ keys: readonly string[]; tasks: readonly string[] }>,
): Promise<FoundEffect[]> {
  const { rows } = await sql.query<FoundEffect>(
    `select ${COLUMNS}, e.result
    from effects e
    where e.tenant_id = $1 and e.thread_id = $2 and e.kind <> 'none' and (e.key = any($3::text[]) or e.task = any($4::text[]))
    order by e.updated_at desc`,
    [of.tenantId, of.threadId, of.keys, of.tasks],
  );
  return rows;
}

export type EffectFilter = Readonly<{
  tenantId: TenantId;
  threadId: ThreadId | null;
  runId: RunId | null;
  status: EffectStatus | null;
  /** Only those of threads that who asks may see. */
  within?: Within;
  limit: number;
  offset: number;
}>;

/** Newest first. Kept results of calls without an effect (`none`) are no effects. */
export async function listEffects(sql: Sql, filter: EffectFilter): Promise<EffectRow[]> {
  const { rows } = await sql.query<EffectRow>(
    `select ${COLUMNS}
    from effects e
    where e.tenant_id = $1 and e.kind <> 'none' and ($2::uuid is null or e.thread_id = $2)
      and ($3::uuid is null or e.run_id = $3) and ($4::text is null or e.status = $4)
      and ($5::jsonb is null or e.thread_id in (select * from threads_within($1, $5)))
    order by e.created_at desc, e.key
    limit $6 offset $7`,
    [
      filter.tenantId,
      filter.threadId,
      filter.runId,
      filter.status,
      withinParam(filter.within),
      filter.limit,
      filter.offset,
    ],
  );
  return rows;
}

/** Inserts a local effect in the transaction that does it, or takes `replaces` over; false when another one stands there. */
export async function writeLocalEffect(
  sql: Sql,
  owner: ThreadKey & Readonly<{ runId: RunId; attempt: number }>,
  move: EffectMove,
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `insert into effects as e (tenant_id, key, thread_id, run_id, attempt, call_id, tool, args_hash, kind, policy, status,
      attempts, epoch, task, result)
    values ($1, $2, $3, $4, $5, $6, $7, decode($8, 'hex'), $9, $10, $11, 1, $12, $15, $13)
    on conflict (tenant_id, key) do update
    set run_id = excluded.run_id, attempt = excluded.attempt, call_id = excluded.call_id, status = excluded.status,
      attempts = e.attempts + 1, result = excluded.result, error_code = null, question = null,
      updated_at = clock_timestamp()
    where e.call_id = $14 and e.args_hash = excluded.args_hash and e.status <> 'succeeded'`,
    [
      owner.tenantId,
      move.key,
      owner.threadId,
      owner.runId,
      owner.attempt,
      move.callId,
      move.tool,
      move.argsHash,
      move.kind,
      move.policy,
      move.status,
      move.epoch,
      move.result,
      move.replaces,
      move.task,
    ],
  );
  return rowCount === 1;
}

/** The runs of a thread that have results in Postgres. */
export async function runsWithResults(sql: Sql, key: ThreadKey): Promise<RunId[]> {
  const { rows } = await sql.query<{ runId: RunId }>(
    `select distinct run_id as "runId"
    from effects
    where tenant_id = $1 and thread_id = $2 and result is not null`,
    [key.tenantId, key.threadId],
    PREPARED,
  );
  return rows.map(({ runId }) => runId);
}

export type EffectResult = Readonly<{ key: string; result: Buffer }>;

/** The results of a run that are in Postgres, by key. */
export async function resultsOfRun(
  sql: Sql,
  run: Readonly<{ tenantId: TenantId; runId: RunId }>,
): Promise<EffectResult[]> {
  const { rows } = await sql.query<EffectResult>(
    `select key, result from effects where tenant_id = $1 and run_id = $2 and result is not null order by key`,
    [run.tenantId, run.runId],
    PREPARED,
  );
  return rows;
}

/** Forgets results that stand in their runs' records now. */
export async function dropResults(
  sql: Sql,
  key: ThreadKey,
  placed: readonly Readonly<{ runId: RunId; key: string }>[],
): Promise<void> {
  if (placed.length === 0) return;
  await sql.query(
    `update effects e
    set result = null
    from unnest($3::uuid[], $4::text[]) p(run_id, key)
    where e.tenant_id = $1 and e.thread_id = $2 and e.run_id = p.run_id and e.key = p.key`,
    [key.tenantId, key.threadId, placed.map(({ runId }) => runId), placed.map((each) => each.key)],
  );
}

/** Forgets the results of runs whose contents expire; that they were had stays known. */
export async function expireResults(
  sql: Sql,
  runs: Readonly<{ tenantId: TenantId; runIds: readonly RunId[] }>,
): Promise<void> {
  await sql.query(
    `update effects set result = null where tenant_id = $1 and run_id = any($2::uuid[]) and result is not null`,
    [runs.tenantId, runs.runIds],
  );
}
