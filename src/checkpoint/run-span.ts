// Where a run's checkpoints of the root graph begin and end: what the run added lies between them.
import { PREPARED, type Sql } from "../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";

export type RunSpan = Readonly<{
  /** The newest; `packKey` is the pack it was moved to. */
  checkpointId: string;
  seq: number;
  packKey: string | null;
  /** What the run started from, and the run that made that. */
  base: Readonly<{ checkpointId: string; seq: number; runId: RunId | null; moved: boolean }> | null;
}>;

type SpanRow = Omit<RunSpan, "base"> &
  Readonly<{ baseId: string | null; baseSeq: number; baseRunId: RunId | null; baseMoved: boolean }>;

/** As far as the run has come, or, with `upTo`, as far as it was moved and to that checkpoint; undefined while there is nothing. */
export async function runSpan(
  sql: Sql,
  run: Readonly<{ tenantId: TenantId; threadId: ThreadId; runId: RunId }>,
  { upTo }: Readonly<{ upTo: number | null }>,
): Promise<RunSpan | undefined> {
  const { rows } = await sql.query<SpanRow>(
    `select newest.checkpoint_id as "checkpointId", newest.seq, p.key as "packKey", base.checkpoint_id as "baseId", base.seq as "baseSeq",
      base.run_id as "baseRunId", base.head is null as "baseMoved"
    from (
      select c.checkpoint_id, c.seq, c.pack_id
      from checkpoints c
      where c.tenant_id = $1 and c.thread_id = $2 and c.run_id = $3 and c.ns = '' and ($4::bigint is null or c.seq <= $4 or c.head is null)
      order by c.seq desc
      limit 1
    ) newest
    cross join lateral (
      select f.parent_id
      from checkpoints f
      where f.tenant_id = $1 and f.thread_id = $2 and f.run_id = $3 and f.ns = ''
      order by f.seq
      limit 1
    ) first
    left join checkpoints base on base.tenant_id = $1 and base.thread_id = $2 and base.ns = ''
      and base.checkpoint_id = first.parent_id
    left join packs p on p.tenant_id = $1 and p.pack_id = newest.pack_id`,
    [run.tenantId, run.threadId, run.runId, upTo],
    PREPARED,
  );
  if (rows[0] === undefined) return undefined;
  const { checkpointId, seq, packKey, baseId, baseSeq, baseRunId, baseMoved } = rows[0];
  const base = baseId === null ? null : { checkpointId: baseId, seq: baseSeq, runId: baseRunId, moved: baseMoved };
  return { checkpointId, seq, packKey, base };
}

export type StoredStep = Readonly<{
  seq: number;
  checkpointId: string;
  attempt: number | null;
  step: number | null;
  source: string | null;
  createdAt: Date;
}>;

/** The run's checkpoints of the root graph after `afterSeq`, in order. */
export async function stepsOfRun(
  sql: Sql,
  page: Readonly<{ tenantId: TenantId; runId: RunId; afterSeq: number; limit: number }>,
): Promise<StoredStep[]> {
  const { rows } = await sql.query<StoredStep>(
    `select seq, checkpoint_id as "checkpointId", attempt, step, source, created_at as "createdAt"
    from checkpoints
    where tenant_id = $1 and run_id = $2 and ns = '' and delta_channels is null and seq > $3
    order by seq
    limit $4`,
    [page.tenantId, page.runId, page.afterSeq, page.limit],
  );
  return rows;
}
