// Conversations (table `threads`) as people read, make, label and delete them. Locking and status: thread-lock.ts.
// Ephemeral threads belong to stateless runs: readers that serve people don't see them.
import { type Within, withinParam } from "../core/access.js";
import type { Sql } from "../core/deps.js";
import type { AssistantId, RunId, TenantId, ThreadId } from "../core/ids.js";
import type { ThreadStatus } from "../core/run.js";
import type { ThreadTtl } from "../core/thread-ttl.js";
import { type LockedThread, lockThread, type ThreadKey } from "./thread-lock.js";
import { refuseReuse } from "./tombstones.js";

export type ThreadRow = Readonly<{
  threadId: ThreadId;
  status: ThreadStatus;
  ephemeral: boolean;
  metadata: Readonly<Record<string, unknown>>;
  config: Readonly<Record<string, unknown>>;
  createdAt: Date;
  updatedAt: Date;
  stateUpdatedAt: Date | null;
  /** Both or neither. */
  ttlMinutes: number | null;
  ttlStrategy: ThreadTtl["strategy"] | null;
}>;

const COLUMNS = `
  thread_id as "threadId", status, ephemeral, metadata, config,
  created_at as "createdAt", updated_at as "updatedAt", state_updated_at as "stateUpdatedAt",
  ttl_minutes as "ttlMinutes", ttl_strategy as "ttlStrategy"`;

export type NewThread = ThreadKey &
  Readonly<{
    metadata?: Readonly<Record<string, unknown>>;
    config?: Readonly<Record<string, unknown>>;
    ephemeral?: boolean;
    ttl?: ThreadTtl | null;
  }>;

/** Inserts an idle thread; undefined when the tenant has one with this id. `refuseReuse` comes next. */
export async function insertThread(sql: Sql, thread: NewThread): Promise<ThreadRow | undefined> {
  const { rows } = await sql.query<ThreadRow>(
    `insert into threads (tenant_id, thread_id, metadata, config, ephemeral, ttl_minutes, ttl_strategy)
    values ($1, $2, $3, $4, $5, $6, $7)
    on conflict do nothing
    returning ${COLUMNS}`,
    [
      thread.tenantId,
      thread.threadId,
      JSON.stringify(thread.metadata ?? {}),
      JSON.stringify(thread.config ?? {}),
      thread.ephemeral ?? false,
      thread.ttl?.minutes ?? null,
      thread.ttl?.strategy ?? null,
    ],
  );
  return rows[0];
}

/** Creates the thread unless it exists; locked either way. Throws `conflict` for the id of a deleted thread. */
export async function ensureThread(sql: Sql, thread: NewThread): Promise<LockedThread & Readonly<{ isNew: boolean }>> {
  const made = await insertThread(sql, thread);
  // Nobody else sees it before this transaction ends.
  if (made !== undefined) {
    await refuseReuse(sql, thread);
    return { ...made, tenantId: thread.tenantId, isNew: true };
  }
  const found = await lockThread(sql, thread);
  // Deleted just now: then it is refused.
  return found === undefined ? ensureThread(sql, thread) : { ...found, isNew: false };
}

/** The thread, ephemeral ones included. */
export async function getThread(sql: Sql, key: ThreadKey): Promise<ThreadRow | undefined> {
  const { rows } = await sql.query<ThreadRow>(
    `select ${COLUMNS} from threads where tenant_id = $1 and thread_id = $2`,
    [key.tenantId, key.threadId],
  );
  return rows[0];
}

/** Changes whenever a run is accepted or settled on the thread, or its state or labels are edited; undefined: it is gone. */
export async function threadVersion(sql: Sql, key: ThreadKey): Promise<string | undefined> {
  const { rows } = await sql.query<{ version: string }>(
    "select updated_at::text as version from threads where tenant_id = $1 and thread_id = $2",
    [key.tenantId, key.threadId],
  );
  return rows[0]?.version;
}

/** The number of the newest run or edit of the thread, quiet ones too; null when there is none, undefined when the thread is gone. */
export async function newestRunSeq(sql: Sql, key: ThreadKey): Promise<number | null | undefined> {
  const { rows } = await sql.query<{ seq: number | null }>(
    `select (select max(r.seq) from runs r where r.tenant_id = $1 and r.thread_id = $2) as seq
    from threads
    where tenant_id = $1 and thread_id = $2`,
    [key.tenantId, key.threadId],
  );
  return rows[0]?.seq;
}

export type ThreadOfGraph = Readonly<{ threadId: ThreadId; graphId: string | null }>;

/** Threads that people see, of these graphs or all, by id. */
export async function threadsOfGraphs(
  sql: Sql,
  page: Readonly<{
    tenantId: TenantId;
    threadId: ThreadId | null;
    graphIds: readonly string[] | null;
    after: ThreadId | null;
    limit: number;
  }>,
): Promise<ThreadOfGraph[]> {
  const { rows } = await sql.query<ThreadOfGraph>(
    `select thread_id as "threadId", metadata ->> 'graph_id' as "graphId"
    from threads
    where tenant_id = $1 and not ephemeral and ($2::uuid is null or thread_id = $2)
      and ($3::text[] is null or metadata ->> 'graph_id' = any ($3)) and ($4::uuid is null or thread_id > $4)
    order by thread_id
    limit $5`,
    [page.tenantId, page.threadId, page.graphIds, page.after, page.limit],
  );
  return rows;
}

export type ThreadFilter = Readonly<{
  tenantId: TenantId;
  ids?: readonly ThreadId[] | undefined;
  status?: ThreadStatus | undefined;
  /** Contained in the thread's metadata, as jsonb `@>` means it. */
  metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Only those that who asks may see. */
  within?: Within;
}>;

export type ThreadSortBy = "thread_id" | "status" | "created_at" | "updated_at" | "state_updated_at";

export type ThreadPage = ThreadFilter &
  Readonly<{ sortBy: ThreadSortBy; sortOrder: "asc" | "desc"; limit: number; offset: number }>;

function filterParams(filter: ThreadFilter): unknown[] {
  return [
    filter.tenantId,
    filter.ids ?? null,
    filter.status ?? null,
    filter.metadata === undefined ? null : JSON.stringify(filter.metadata),
    withinParam(filter.within),
  ];
}

/** One page of the threads people see. The planner folds the cases, so the default order reads its index. */
export async function searchThreads(sql: Sql, page: ThreadPage): Promise<ThreadRow[]> {
  const { rows } = await sql.query<ThreadRow>(
    `select ${COLUMNS}
    from threads
    where tenant_id = $1 and not ephemeral
      and ($2::uuid[] is null or thread_id = any($2))
      and ($3::text is null or status = $3)
      and ($4::jsonb is null or metadata @> $4)
      and ($5::jsonb is null or metadata @> $5)
    order by
      case when $6 = 'created_at' and $7 = 'desc' then created_at end desc,
      case when $6 = 'created_at' and $7 = 'asc' then created_at end asc,
      case when $6 = 'updated_at' and $7 = 'desc' then updated_at end desc,
      case when $6 = 'updated_at' and $7 = 'asc' then updated_at end asc,
      case when $6 = 'state_updated_at' and $7 = 'desc' then state_updated_at end desc nulls last,
      case when $6 = 'state_updated_at' and $7 = 'asc' then state_updated_at end asc nulls first,
      case when $6 = 'status' and $7 = 'desc' then status end desc,
      case when $6 = 'status' and $7 = 'asc' then status end asc,
      case when $7 = 'desc' then thread_id end desc,
      case when $7 = 'asc' then thread_id end asc
    limit $8 offset $9`,
    [...filterParams(page), page.sortBy, page.sortOrder, page.limit, page.offset],
  );
  return rows;
}

/** How many threads people see through this filter. */
export async function countThreads(sql: Sql, filter: ThreadFilter): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    `select count(*) as n
    from threads
    where tenant_id = $1 and not ephemeral
      and ($2::uuid[] is null or thread_id = any($2))
      and ($3::text is null or status = $3)
      and ($4::jsonb is null or metadata @> $4)
      and ($5::jsonb is null or metadata @> $5)`,
    filterParams(filter),
  );
  return rows[0]?.n ?? 0;
}

/** Merges into the thread's metadata, key by key, and sets its ttl if one is given; undefined when there is no such thread. */
export async function patchThreadRow(
  sql: Sql,
  patch: ThreadKey & Readonly<{ metadata: Readonly<Record<string, unknown>>; ttl?: ThreadTtl | null }>,
): Promise<ThreadRow | undefined> {
  const { rows } = await sql.query<ThreadRow>(
    `update threads
    set metadata = metadata || $3::jsonb, updated_at = clock_timestamp(),
      ttl_minutes = coalesce($4, ttl_minutes), ttl_strategy = coalesce($5, ttl_strategy)
    where tenant_id = $1 and thread_id = $2
    returning ${COLUMNS}`,
    [
      patch.tenantId,
      patch.threadId,
      JSON.stringify(patch.metadata),
      patch.ttl?.minutes ?? null,
      patch.ttl?.strategy ?? null,
    ],
  );
  return rows[0];
}

/** For how much longer a thread is kept as it is, in database time; undefined when there is none, or it is kept for ever. */
export async function ttlLeft(
  sql: Sql,
  key: ThreadKey,
): Promise<Readonly<{ strategy: ThreadTtl["strategy"]; leftMs: number }> | undefined> {
  const { rows } = await sql.query<{ strategy: ThreadTtl["strategy"]; leftMs: number }>(
    `select ttl_strategy as strategy,
      extract(epoch from updated_at + ttl_minutes * interval '1 minute' - clock_timestamp())::float8 * 1000 as "leftMs"
    from threads
    where tenant_id = $1 and thread_id = $2 and ttl_minutes is not null`,
    [key.tenantId, key.threadId],
  );
  return rows[0];
}

/** Shows a thread that was hidden while it was made. */
export async function showThread(sql: Sql, key: ThreadKey): Promise<ThreadRow | undefined> {
  const { rows } = await sql.query<ThreadRow>(
    `update threads
    set ephemeral = false, updated_at = clock_timestamp()
    where tenant_id = $1 and thread_id = $2
    returning ${COLUMNS}`,
    [key.tenantId, key.threadId],
  );
  return rows[0];
}

/** Deletes the thread's row and what hangs on it by foreign key (runs, events, streams, approvals). */
export async function deleteThreadRow(sql: Sql, key: ThreadKey): Promise<boolean> {
  const { rowCount } = await sql.query("delete from threads where tenant_id = $1 and thread_id = $2", [
    key.tenantId,
    key.threadId,
  ]);
  return rowCount > 0;
}

export type ParkedThread = ThreadRow &
  Readonly<{ runId: RunId | null; assistantId: AssistantId | null; agentVersion: string | null }>;

/** Threads that are to go on some time: which of them, by id after `after`, and the code that ran them last. */
export async function parkedThreads(
  sql: Sql,
  page: Readonly<{ tenantId: TenantId; after: ThreadId | null; limit: number }>,
): Promise<ParkedThread[]> {
  const { rows } = await sql.query<ParkedThread>(
    `select ${COLUMNS}, last.run_id as "runId", last.assistant_id as "assistantId", last.agent_version as "agentVersion"
    from threads
    left join lateral (
      select run_id, assistant_id, agent_version
      from runs r
      where r.tenant_id = threads.tenant_id and r.thread_id = threads.thread_id and r.agent_version is not null
      order by r.seq desc
      limit 1
    ) last on true
    where threads.tenant_id = $1 and threads.status in ('interrupted', 'busy') and not threads.ephemeral
      and ($2::uuid is null or threads.thread_id > $2)
    order by threads.thread_id
    limit $3`,
    [page.tenantId, page.after, page.limit],
  );
  return rows;
}
