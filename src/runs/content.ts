// The content of runs (`runs.request`, `runs.error`, and the rows of `stream_chunks`) as the mover and its readers see it.
import { PREPARED, type Sql } from "../core/deps.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";
import type { RunStatus } from "../core/run.js";
import type { ThreadKey } from "./thread-lock.js";

/** Where a run's content is, as far as it was moved. */
export type ContentPlace = Readonly<{ packId: string; block: number }>;

export type MovableRun = Readonly<{
  runId: RunId;
  status: RunStatus;
  attempt: number;
  request: Buffer | null;
  error: Buffer | null;
  moved: ContentPlace | null;
}>;

type MovableRow = Omit<MovableRun, "moved"> & Readonly<{ packId: string | null; block: number | null }>;

/** Finished and waiting runs of the thread with content in Postgres, in their order; `withResults` have some elsewhere. */
export async function movableRuns(
  sql: Sql,
  key: ThreadKey & Readonly<{ withResults: readonly RunId[] }>,
  limit: number,
): Promise<MovableRun[]> {
  const { rows } = await sql.query<MovableRow>(
    `select r.run_id as "runId", r.status, r.attempt, r.request, r.error,
      r.content_pack_id as "packId", r.content_block as block
    from runs r
    where r.tenant_id = $1 and r.thread_id = $2
      and (r.status not in ('pending', 'running') or (r.status = 'pending' and r.available_at is not null))
      and (r.request is not null or r.error is not null or r.run_id = any($4::uuid[]) or exists (
        select 1 from stream_chunks s where s.tenant_id = $1 and s.run_id = r.run_id
      ))
    order by r.seq
    limit $3`,
    [key.tenantId, key.threadId, limit, key.withResults],
    PREPARED,
  );
  return rows.map(({ packId, block, ...run }) => ({ ...run, moved: placeOf(packId, block) }));
}

/** Whether a run of the thread is running now; only a hint unless its runs are locked. */
export async function isThreadRunning(sql: Sql, key: ThreadKey): Promise<boolean> {
  const { rows } = await sql.query<{ found: boolean }>(
    `select exists (
      select 1 from runs where tenant_id = $1 and thread_id = $2 and status = 'running'
    ) as found`,
    [key.tenantId, key.threadId],
    PREPARED,
  );
  return rows[0]?.found ?? false;
}

export type StreamRow = Readonly<{ firstId: number; lastId: number; lines: string }>;

/** Stored batches that begin after `afterId`, in order. */
export async function streamRowsAfter(
  sql: Sql,
  page: Readonly<{ tenantId: TenantId; runId: RunId; afterId: number; limit: number }>,
): Promise<StreamRow[]> {
  const { rows } = await sql.query<StreamRow>(
    `select first_id as "firstId", last_id as "lastId", lines
    from stream_chunks
    where tenant_id = $1 and run_id = $2 and first_id > $3
    order by first_id
    limit $4`,
    [page.tenantId, page.runId, page.afterId, page.limit],
    PREPARED,
  );
  return rows;
}

export type PlacedRun = Readonly<{
  runId: RunId;
  status: RunStatus;
  attempt: number;
  /** The last event that is in the pack; -1 for none. */
  lastId: number;
  block: number;
}>;

/**
 * Points runs to their records in the pack and deletes what these hold; returns which were as they were when read.
 * One that ran meanwhile may have an error or a stream that the record lacks, and stays for the next move.
 */
export async function placeRuns(
  sql: Sql,
  key: ThreadKey,
  packId: string,
  placed: readonly PlacedRun[],
): Promise<RunId[]> {
  if (placed.length === 0) return [];
  const { rows } = await sql.query<{ runId: RunId }>(
    `with placed as (
      update runs r
      set request = null, error = null, content_pack_id = $3, content_block = p.block,
        content_moved_at = clock_timestamp()
      from unnest($4::uuid[], $5::text[], $6::int[], $7::bigint[], $8::int[]) p(run_id, status, attempt, last_id, block)
      where r.tenant_id = $1 and r.thread_id = $2 and r.run_id = p.run_id
        and r.status = p.status and r.attempt = p.attempt and r.content_expired_at is null
        and (r.status not in ('pending', 'running') or (r.status = 'pending' and r.available_at is not null))
      returning r.run_id, p.last_id
    ), deleted as (
      delete from stream_chunks s
      using placed p
      where s.tenant_id = $1 and s.run_id = p.run_id and s.last_id <= p.last_id
    )
    select run_id as "runId" from placed`,
    [
      key.tenantId,
      key.threadId,
      packId,
      placed.map((r) => r.runId),
      placed.map((r) => r.status),
      placed.map((r) => r.attempt),
      placed.map((r) => r.lastId),
      placed.map((r) => r.block),
    ],
    PREPARED,
  );
  return rows.map(({ runId }) => runId);
}

/** How many runs of the thread have their content in each pack. */
export async function contentPacks(sql: Sql, key: ThreadKey): Promise<{ packId: string; runs: number }[]> {
  const { rows } = await sql.query<{ packId: string; runs: number }>(
    `select content_pack_id as "packId", count(*)::int as runs
    from runs
    where tenant_id = $1 and thread_id = $2 and content_pack_id is not null
    group by content_pack_id`,
    [key.tenantId, key.threadId],
  );
  return rows;
}

/** Every pack that runs of the thread point to, for whatever they keep there. */
export async function packsOfRuns(sql: Sql, key: ThreadKey): Promise<string[]> {
  const { rows } = await sql.query<{ packId: string }>(
    `select distinct u.pack_id as "packId"
    from runs r
    cross join lateral unnest(array[r.content_pack_id, r.manifest_pack_id, r.manifest_previous_id]) u(pack_id)
    where r.tenant_id = $1 and r.thread_id = $2 and u.pack_id is not null`,
    [key.tenantId, key.threadId],
  );
  return rows.map(({ packId }) => packId);
}

/** Where the moved contents of the thread's runs are, of one pack or of all. */
export async function contentPlaces(
  sql: Sql,
  key: ThreadKey,
  packId: string | null = null,
): Promise<(ContentPlace & Readonly<{ runId: RunId }>)[]> {
  const { rows } = await sql.query<ContentPlace & { runId: RunId }>(
    `select run_id as "runId", content_pack_id as "packId", content_block as block
    from runs
    where tenant_id = $1 and thread_id = $2 and content_pack_id is not null
      and ($3::uuid is null or content_pack_id = $3)
    order by content_pack_id, content_block, seq`,
    [key.tenantId, key.threadId, packId],
  );
  return rows;
}

/** Changes whenever content of a run is moved: it may name bodies from then on. */
export async function contentVersion(sql: Sql, key: ThreadKey): Promise<string> {
  const { rows } = await sql.query<{ version: string }>(
    `select concat(count(content_pack_id), ' ', max(content_moved_at)) as version
    from runs
    where tenant_id = $1 and thread_id = $2`,
    [key.tenantId, key.threadId],
  );
  return rows[0]?.version ?? "";
}

export type RepackedRun = Readonly<{ runId: RunId; from: string; block: number }>;

/** Points runs whose content is still in its old pack to the new one; returns how many. */
export async function repointRuns(
  sql: Sql,
  key: ThreadKey,
  packId: string,
  runs: readonly RepackedRun[],
): Promise<number> {
  const { rowCount } = await sql.query(
    `update runs r
    set content_pack_id = $3, content_block = m.block
    from unnest($4::uuid[], $5::uuid[], $6::int[]) m(run_id, from_pack, block)
    where r.tenant_id = $1 and r.thread_id = $2 and r.run_id = m.run_id and r.content_pack_id = m.from_pack`,
    [key.tenantId, key.threadId, packId, runs.map((r) => r.runId), runs.map((r) => r.from), runs.map((r) => r.block)],
  );
  return rowCount;
}

export type StoredContent = Readonly<{
  threadId: ThreadId;
  request: Buffer | null;
  error: Buffer | null;
  /** Batches in Postgres, in order; none unless asked for. */
  streamRows: readonly string[];
  moved: ContentPlace | null;
  /** Null: it is still kept. */
  expiredAt: Date | null;
}>;

/** A run's content in one snapshot: what is still here, and where the rest is. */
export async function storedContent(
  sql: Sql,
  run: Readonly<{ tenantId: TenantId; runId: RunId; stream: boolean }>,
): Promise<StoredContent | undefined> {
  const { rows } = await sql.query<Omit<StoredContent, "moved"> & { packId: string | null; block: number | null }>(
    `select r.thread_id as "threadId", r.request, r.error, r.content_pack_id as "packId", r.content_block as block,
      r.content_expired_at as "expiredAt",
      case when $3 then array(
        select s.lines
        from stream_chunks s
        where s.tenant_id = $1 and s.run_id = $2
        order by s.first_id
      ) else '{}' end as "streamRows"
    from runs r
    where r.tenant_id = $1 and r.run_id = $2`,
    [run.tenantId, run.runId, run.stream],
  );
  if (rows[0] === undefined) return undefined;
  const { packId, block, ...content } = rows[0];
  return { ...content, moved: placeOf(packId, block) };
}

function placeOf(packId: string | null, block: number | null): ContentPlace | null {
  return packId === null || block === null ? null : { packId, block };
}
