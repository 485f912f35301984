// What pruning reads: the tree of a thread's checkpoints, what they name, and which bodies there are. Each statement is one
// snapshot, so that a mover at work can't make a reference disappear between two looks.
import type { Sql } from "../../core/deps.js";
import type { TenantId, ThreadId } from "../../core/ids.js";
import type { ThreadKey } from "../move-queries.js";
import type { StateNode } from "./plan.js";

/** All checkpoints of a thread, pruned ones too, in the order they were put. */
export async function stateNodes(sql: Sql, key: ThreadKey): Promise<StateNode[]> {
  const { rows } = await sql.query<
    Omit<StateNode, "parents" | "deltas"> & Readonly<{ parents: unknown; deltas: string[] }>
  >(
    `select c.ns, c.checkpoint_id as "checkpointId", c.parent_id as "parentId", c.seq, c.run_id as "runId", c.source,
      c.created_at as "createdAt", c.metadata -> 'parents' as parents,
      case when jsonb_typeof(c.metadata -> 'counters_since_delta_snapshot') = 'object'
        then array(select jsonb_object_keys(c.metadata -> 'counters_since_delta_snapshot')) else '{}' end as deltas,
      c.metadata -> 'delta_writes_versioned' is not distinct from 'true'::jsonb as "deltasVersioned",
      c.delta_channels as "prunedTo"
    from checkpoints c
    where c.tenant_id = $1 and c.thread_id = $2
    order by c.seq`,
    [key.tenantId, key.threadId],
  );
  return rows.map((row) => ({ ...row, parents: idsIn(row.parents) }));
}

function idsIn(parents: unknown): Record<string, string> {
  if (typeof parents !== "object" || parents === null || Array.isArray(parents)) return {};
  const entries = Object.entries(parents as Record<string, unknown>);
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}

/** Those of the threads that may have more root states than a policy keeps: more than that, and one that is old enough. */
export async function threadsBeyond(
  sql: Sql,
  tenantId: TenantId,
  threadIds: readonly ThreadId[],
  policy: Readonly<{ keepLatest: number; olderThanMs: number | null }>,
): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ threadId: string }>(
    `select t.thread_id as "threadId"
    from unnest($2::uuid[]) t(thread_id)
    where (
      select count(*)
      from (
        select 1
        from checkpoints c
        where c.tenant_id = $1 and c.thread_id = t.thread_id and c.ns = '' and c.delta_channels is null
        limit $3::int + 1
      ) counted
    ) > $3 and ($4::float8 is null or (
      select c.created_at < clock_timestamp() - $4 * interval '1 ms'
      from checkpoints c
      where c.tenant_id = $1 and c.thread_id = t.thread_id and c.ns = '' and c.delta_channels is null
      order by c.seq
      limit 1
    ))`,
    [tenantId, threadIds, policy.keepLatest, policy.olderThanMs],
  );
  return new Set(rows.map(({ threadId }) => threadId));
}

export type CheckpointKey = Readonly<{ ns: string; checkpointId: string }>;

/** A checkpoint as it is stored: in Postgres (`head`), as a record in a pack (`place`), or as both (`StoredCheckpoint` says why). */
export type StoredTexts = CheckpointKey &
  Readonly<{
    place: Readonly<{ packId: string; block: number }> | null;
    /** Other runs whose writes in the record count. */
    writtenBy: readonly string[] | null;
    channels: readonly string[];
    versions: readonly string[];
    head: Buffer | null;
    /** Values at their channel. */
    values: readonly Readonly<{ channel: string; text: string }>[];
    writes: readonly Readonly<{ channel: string; text: string }>[];
  }>;

/** What these checkpoints hold in Postgres. Those that are gone are left out. */
export async function storedTexts(
  sql: Sql,
  key: ThreadKey,
  checkpoints: readonly CheckpointKey[],
): Promise<StoredTexts[]> {
  const { rows } = await sql.query<TextRow>(
    `with cp as materialized (
      select c.ns, c.checkpoint_id, c.channels, c.versions, c.head, c.pack_id, c.block, c.written_by
      from checkpoints c
      where c.tenant_id = $1 and c.thread_id = $2
        and (c.ns, c.checkpoint_id) in (select * from unnest($3::text[], $4::uuid[]))
    )
    select 'checkpoint' as what, cp.ns, cp.checkpoint_id as id, cp.channels, cp.versions, cp.head as data, null as channel,
      cp.pack_id as "packId", cp.block, cp.written_by as "writtenBy"
    from cp
    union all
    select 'value', cp.ns, cp.checkpoint_id, null, null, v.data, v.channel, null, null, null
    from cp
    cross join lateral unnest(cp.channels, cp.versions) u(channel, version)
    join channel_versions v on v.tenant_id = $1 and v.thread_id = $2 and v.ns = cp.ns and v.channel = u.channel
      and v.version = u.version
    where v.data is not null
    union all
    select 'write', cp.ns, cp.checkpoint_id, null, null, w.data, w.channel, null, null, null
    from cp
    join checkpoint_writes w on w.tenant_id = $1 and w.thread_id = $2 and w.ns = cp.ns
      and w.checkpoint_id = cp.checkpoint_id`,
    [key.tenantId, key.threadId, checkpoints.map((c) => c.ns), checkpoints.map((c) => c.checkpointId)],
  );
  return textsOf(rows);
}

type TextRow = Readonly<{
  what: "checkpoint" | "value" | "write";
  ns: string;
  id: string;
  channels: string[] | null;
  versions: string[] | null;
  data: Buffer | null;
  channel: string | null;
  packId: string | null;
  block: number | null;
  writtenBy: string[] | null;
}>;

function textsOf(rows: readonly TextRow[]): StoredTexts[] {
  const parts = (what: TextRow["what"]) => {
    const found = new Map<string, { channel: string; text: string }[]>();
    for (const row of rows) {
      if (row.what !== what) continue;
      const name = `${row.ns}\0${row.id}`;
      const part = { channel: row.channel ?? "", text: row.data?.toString("utf8") ?? "" };
      const before = found.get(name);
      if (before) before.push(part);
      else found.set(name, [part]);
    }
    return (row: TextRow) => found.get(`${row.ns}\0${row.id}`) ?? [];
  };
  const [values, writes] = [parts("value"), parts("write")];
  return rows
    .filter((row) => row.what === "checkpoint")
    .map((row) => ({
      ns: row.ns,
      checkpointId: row.id,
      place: row.packId === null || row.block === null ? null : { packId: row.packId, block: row.block },
      writtenBy: row.writtenBy,
      channels: row.channels ?? [],
      versions: row.versions ?? [],
      head: row.data,
      values: values(row),
      writes: writes(row),
    }));
}

/** Every body the thread has, staged or moved. */
export async function bodyHashes(sql: Sql, key: ThreadKey): Promise<Buffer[]> {
  const { rows } = await sql.query<{ hash: Buffer }>(
    `select hash from staged_bodies where tenant_id = $1 and thread_id = $2
    union
    select hash from bodies where tenant_id = $1 and thread_id = $2`,
    [key.tenantId, key.threadId],
  );
  return rows.map(({ hash }) => hash);
}
