// Which run of a thread a client that follows the thread is shown: the one that is at work or comes next, else the last.
import { PREPARED, type Sql } from "../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";
import type { RunRow } from "./runs.js";

/** Where a follower is; null: at the beginning. Runs of a thread start one after the other. */
export type After = Readonly<{ startedAt: Date; runId: RunId }>;
/** After a run: by when it began, or what is nearest to that of one that never did. */
export function afterRun({ runId, startedAt, finishedAt, createdAt }: RunRow): After {
  return { startedAt: startedAt ?? finishedAt ?? createdAt, runId };
}

export type Ask = Readonly<{ tenantId: TenantId; threadId: ThreadId; after: After | null }>;

/** So many runs that started out of the order in which they came are looked through. */
const RECENT = 8;

/**
 * For each: without `after` the unfinished run whose turn it is, or the last that was started; with it the first that started
 * later, or the pending one whose turn is next; one whose run is gone stands at the thread's beginning. Undefined: there is none, or the thread is nobody's to see.
 */
export async function nextRuns(sql: Sql, asks: readonly Ask[]): Promise<(RunId | undefined)[]> {
  const { rows } = await sql.query<{ position: number; runId: RunId | null }>(
    `select a.position::int as position, coalesce(n.run_id, l.run_id) as "runId"
    from unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::uuid[]) with ordinality
      a(tenant_id, thread_id, started_at, run_id, position)
    join threads t on t.tenant_id = a.tenant_id and t.thread_id = a.thread_id and not t.ephemeral
    left join lateral (
      select c.run_id
      from (
        (select r.run_id, r.started_at
        from runs r
        where r.tenant_id = a.tenant_id and r.thread_id = a.thread_id and r.head and r.kind = 'run')
        union all
        (select r.run_id, r.started_at
        from (
          select s.run_id, s.started_at, s.kind
          from runs s
          where s.tenant_id = a.tenant_id and s.thread_id = a.thread_id
          order by s.seq desc
          limit ${RECENT}
        ) r
        where a.started_at is not null and r.started_at > a.started_at and r.kind = 'run')
        union all
        (select r.run_id, r.started_at
        from runs r
        where a.started_at is not null and r.tenant_id = a.tenant_id and r.thread_id = a.thread_id and r.kind = 'run'
          and r.started_at > a.started_at
          and r.seq > coalesce((select p.seq from runs p where p.tenant_id = a.tenant_id and p.run_id = a.run_id), 0)
        order by r.seq
        limit 1)
      ) c
      where c.run_id is distinct from a.run_id
      order by c.started_at nulls last
      limit 1
    ) n on true
    left join lateral (
      select r.run_id
      from runs r
      where a.started_at is null and r.tenant_id = a.tenant_id and r.thread_id = a.thread_id and r.kind = 'run'
        and r.started_at is not null
      order by r.seq desc
      limit 1
    ) l on true`,
    [
      asks.map((ask) => ask.tenantId),
      asks.map((ask) => ask.threadId),
      asks.map((ask) => ask.after?.startedAt ?? null),
      asks.map((ask) => ask.after?.runId ?? null),
    ],
    PREPARED,
  );
  const found = new Map(rows.map((row) => [row.position, row.runId]));
  return asks.map((_ask, i) => found.get(i + 1) ?? undefined);
}
