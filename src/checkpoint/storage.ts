// What a thread's states take, by what they consist of.
import type { Sql } from "../core/deps.js";
import type { TenantId, ThreadId } from "../core/ids.js";

type Part = Readonly<{ count: number; bytes: number }>;

/** As the wire has it. Bodies that checkpoints name stand once for all of them; objects are what they take in the object store. */
export type ThreadStorage = Readonly<{
  thread_id: ThreadId;
  total_bytes: number;
  checkpoints: Part;
  channel_values: Part &
    Readonly<{ by_channel: Readonly<Record<string, Readonly<{ versions: number; bytes: number }>>> }>;
  pending_writes: Part;
  staged_bodies: Part;
  objects: Part;
}>;

type Row = Readonly<{ part: string; channel: string | null; count: number; bytes: number }>;

export async function threadStorage(
  sql: Sql,
  { tenantId, threadId }: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
): Promise<ThreadStorage> {
  const { rows } = await sql.query<Row>(
    `select 'checkpoints' as part, null as channel, count(*)::int as count,
      coalesce(sum(pg_column_size(c.*)), 0)::float8 as bytes
    from checkpoints c
    where c.tenant_id = $1 and c.thread_id = $2
    union all
    select 'channel_values', v.channel, count(*)::int, coalesce(sum(pg_column_size(v.*)), 0)::float8
    from channel_versions v
    where v.tenant_id = $1 and v.thread_id = $2
    group by v.channel
    union all
    select 'pending_writes', null, count(*)::int, coalesce(sum(pg_column_size(w.*)), 0)::float8
    from checkpoint_writes w
    where w.tenant_id = $1 and w.thread_id = $2
    union all
    select 'staged_bodies', null, count(*)::int, coalesce(sum(pg_column_size(s.*)), 0)::float8
    from staged_bodies s
    where s.tenant_id = $1 and s.thread_id = $2
    union all
    select 'objects', null, count(*)::int, coalesce(sum(p.bytes), 0)::float8
    from packs p
    where p.tenant_id = $1 and p.thread_id = $2 and p.status = 'stored'`,
    [tenantId, threadId],
  );
  const part = (name: string): Part => {
    const [row] = rows.filter((one) => one.part === name);
    return { count: row?.count ?? 0, bytes: row?.bytes ?? 0 };
  };
  const values = rows.filter((row) => row.part === "channel_values");
  const byChannel = values.map(({ channel, count, bytes }) => [channel ?? "", { versions: count, bytes }]);
  return {
    thread_id: threadId,
    total_bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0),
    checkpoints: part("checkpoints"),
    channel_values: { ...total(values), by_channel: Object.fromEntries(byChannel) },
    pending_writes: part("pending_writes"),
    staged_bodies: part("staged_bodies"),
    objects: part("objects"),
  };
}

function total(rows: readonly Row[]): Part {
  return {
    count: rows.reduce((sum, { count }) => sum + count, 0),
    bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}
