// The checkpoint part of a commit: CTEs that write what savers handed over, for the runs that the fence let through.
//
// They expect a CTE `f(tenant_id, thread_id, run_id, attempt)` of the fenced runs; rows of other runs are not written.
// They leave out a run as a whole when a large body of it was swept before its commit (its pack is doomed), so that
// nothing is stored that names it: `CHECKPOINT_RESULT` counts those per row of `fence(run_id)`, and the run must fail.
// A checkpoint that was moved and is put again keeps its place in the pack: the writes in its record are nowhere else.
// A body that was moved and comes again is staged again: the mover drops it, it has all of a thread's hashes at hand.
// Every insert may be repeated, and rows go in in the order of their keys, so that two workers can't deadlock.
import { binaryArray, plainArray } from "../db/arrays.js";
import type { BodyNode, CheckpointOp, CheckpointRow, ObjectRow, ValueRow, WriteRow } from "./ops.js";

export type RunOp = Readonly<{ runId: string; op: CheckpointOp }>;

/** For the select list over `fence`: how many large bodies of its run are gone. */
export const CHECKPOINT_RESULT = "(select count(*)::int from gone_objects where gone_objects.run_id = fence.run_id)";

/** The CTEs, with `checkpointParams` at `firstParam` and after. */
export function checkpointCtes(firstParam: number): string {
  let next = firstParam;
  /** `unnest` of as many parameters as there are columns, one array each. */
  const rows = (columns: Readonly<Record<string, string>>): string => {
    const arrays = Object.values(columns).map((type) => `$${next++}::${type}[]`);
    return `unnest(${arrays.join(", ")}) as u(${Object.keys(columns).join(", ")})`;
  };
  return `
object_rows as (
  select * from ${rows({ run_id: "uuid", hash: "bytea", pack_id: "uuid" })}
), held_objects as materialized (
  select p.tenant_id, p.pack_id
  from packs p
  where (p.tenant_id, p.pack_id) in (select f.tenant_id, o.pack_id from object_rows o join f using (run_id))
    and p.status <> 'doomed'
  order by p.tenant_id, p.pack_id
  for no key update
), gone_objects as (
  select f.run_id
  from object_rows o
  join f using (run_id)
  where not exists (select 1 from held_objects h where h.tenant_id = f.tenant_id and h.pack_id = o.pack_id)
), g as (
  select f.*
  from f
  where f.run_id not in (select run_id from gone_objects)
), stored_objects as (
  update packs p
  set status = 'stored', bodies = array[o.hash], body_blocks = '{0}'
  from object_rows o
  join g using (run_id)
  where p.tenant_id = g.tenant_id and p.pack_id = o.pack_id and p.status = 'pending'
), new_bodies as (
  insert into staged_bodies (tenant_id, thread_id, hash, kind, refs, data)
  select g.tenant_id, g.thread_id, u.hash, u.kind, u.refs::bytea[], u.data
  from ${rows({ run_id: "uuid", hash: "bytea", kind: "smallint", refs: "text", data: "bytea" })}
  join g using (run_id)
  order by 1, 2, 3
  on conflict (tenant_id, thread_id, hash) do nothing
), new_values as (
  insert into channel_versions (tenant_id, thread_id, ns, channel, version, data, refs)
  select g.tenant_id, g.thread_id, u.ns, u.channel, u.version, u.data, u.refs::bytea[]
  from ${rows({ run_id: "uuid", ns: "text", channel: "text", version: "text", data: "bytea", refs: "text" })}
  join g using (run_id)
  order by 1, 2, 3, 4, 5
  on conflict (tenant_id, thread_id, ns, channel, version) do nothing
), write_rows as (
  select g.tenant_id, g.thread_id, g.attempt, u.*
  from ${rows({
    run_id: "uuid",
    ns: "text",
    checkpoint_id: "uuid",
    task_id: "text",
    idx: "int",
    task_path: "text",
    channel: "text",
    data: "bytea",
    refs: "text",
  })}
  join g using (run_id)
  order by 1, 2, 5, 6, 7, 8
), new_writes as (
  insert into checkpoint_writes
    (tenant_id, thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, run_id, attempt, data, refs)
  select tenant_id, thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, run_id, attempt, data, refs::bytea[]
  from write_rows
  where idx >= 0
  on conflict (tenant_id, thread_id, ns, checkpoint_id, task_id, idx) do nothing
), replaced_writes as (
  insert into checkpoint_writes
    (tenant_id, thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, run_id, attempt, data, refs)
  select tenant_id, thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, run_id, attempt, data, refs::bytea[]
  from write_rows
  where idx < 0
  on conflict (tenant_id, thread_id, ns, checkpoint_id, task_id, idx) do update
  set task_path = excluded.task_path, channel = excluded.channel, run_id = excluded.run_id,
    attempt = excluded.attempt, data = excluded.data, refs = excluded.refs
), new_checkpoints as (
  insert into checkpoints (tenant_id, thread_id, ns, checkpoint_id, parent_id, run_id, attempt, step, source, metadata,
    channels, versions, head)
  select g.tenant_id, g.thread_id, u.ns, u.checkpoint_id, u.parent_id, g.run_id, g.attempt, u.step, u.source,
    u.metadata::jsonb, array(select json_array_elements_text(u.channels)), array(select json_array_elements_text(u.versions)),
    u.head
  from ${rows({
    position: "int",
    run_id: "uuid",
    ns: "text",
    checkpoint_id: "uuid",
    parent_id: "uuid",
    step: "int",
    source: "text",
    metadata: "text",
    channels: "json",
    versions: "json",
    head: "bytea",
  })}
  join g using (run_id)
  order by u.position
  on conflict (tenant_id, thread_id, ns, checkpoint_id) do update
  set parent_id = excluded.parent_id, run_id = excluded.run_id, attempt = excluded.attempt, step = excluded.step,
    source = excluded.source, metadata = excluded.metadata, channels = excluded.channels,
    versions = excluded.versions, head = excluded.head
)`;
}

/** The parameters for `checkpointCtes`: columns as arrays. Rows that stand in several operations of a run go once. */
export function checkpointParams(ops: readonly RunOp[]): unknown[] {
  const objects = new Map<string, { runId: string; row: ObjectRow }>();
  const bodies = new Map<string, { runId: string; row: BodyNode }>();
  const values = new Map<string, { runId: string; row: ValueRow }>();
  const writes = new Map<string, { runId: string; row: WriteRow }>();
  const checkpoints = new Map<string, { runId: string; row: CheckpointRow }>();
  for (const { runId, op } of ops) {
    for (const row of op.objects) objects.set(`${runId} ${row.key}`, { runId, row });
    for (const row of op.nodes) bodies.set(`${runId} ${row.key}`, { runId, row });
    for (const row of op.values) keepFirst(values, keyOf(runId, row.ns, row.channel, row.version), { runId, row });
    for (const row of op.writes) {
      const key = keyOf(runId, row.ns, row.checkpointId, row.taskId, row.idx);
      if (row.idx < 0) writes.set(key, { runId, row });
      else keepFirst(writes, key, { runId, row });
    }
    for (const row of op.checkpoints) {
      // One that is put again keeps its place in the order, as it does when each put has a statement of its own.
      checkpoints.set(keyOf(runId, row.ns, row.checkpointId), { runId, row });
    }
  }
  return [
    ...columns([...objects.values()], [({ runId }) => runId, bytes(({ row }) => row.hash), ({ row }) => row.packId]),
    ...columns(
      [...bodies.values()],
      [
        ({ runId }) => runId,
        bytes(({ row }) => row.hash),
        ({ row }) => row.kind,
        text(({ row }) => hashArray(row.refs)),
        bytes(({ row }) => row.data),
      ],
    ),
    ...columns(
      [...values.values()],
      [
        ({ runId }) => runId,
        text(({ row }) => row.ns),
        text(({ row }) => row.channel),
        text(({ row }) => row.version),
        bytes(({ row }) => row.data),
        text(({ row }) => hashArray(row.refs)),
      ],
    ),
    ...columns(
      [...writes.values()],
      [
        ({ runId }) => runId,
        text(({ row }) => row.ns),
        ({ row }) => row.checkpointId,
        text(({ row }) => row.taskId),
        ({ row }) => row.idx,
        text(({ row }) => row.taskPath),
        text(({ row }) => row.channel),
        bytes(({ row }) => row.data),
        text(({ row }) => hashArray(row.refs)),
      ],
    ),
    ...columns(
      [...checkpoints.values()].map((checkpoint, position) => ({ ...checkpoint, position })),
      [
        ({ position }) => position,
        ({ runId }) => runId,
        text(({ row }) => row.ns),
        ({ row }) => row.checkpointId,
        ({ row }) => row.parentId,
        ({ row }) => row.step,
        text(({ row }) => row.source),
        text(({ row }) => row.metadata),
        json(({ row }) => row.channels),
        json(({ row }) => row.versions),
        bytes(({ row }) => row.head),
      ],
    ),
  ];
}

/** An id or a number. */
type Plain<Row> = (row: Row) => string | number | null;
type Field<Row> =
  | Plain<Row>
  | Readonly<{ type: "bytea" | "text" | "json"; of: (row: Row) => Uint8Array | string | null }>;

function bytes<Row>(of: (row: Row) => Uint8Array | null): Field<Row> {
  return { type: "bytea", of };
}

function text<Row>(of: (row: Row) => string | null): Field<Row> {
  return { type: "text", of };
}

function json<Row>(of: (row: Row) => unknown): Field<Row> {
  return { type: "json", of: (row) => JSON.stringify(of(row)) };
}

/** A parameter per field: an array with that of each row. */
function columns<Row>(rows: readonly Row[], fields: readonly Field<Row>[]): unknown[] {
  return fields.map((field) =>
    typeof field === "function" ? plainArray(rows.map(field)) : binaryArray(field.type, rows.map(field.of)),
  );
}

function keepFirst<Value>(map: Map<string, Value>, key: string, value: Value): void {
  if (!map.has(key)) map.set(key, value);
}

/** No name has a NUL in it. */
function keyOf(...parts: readonly (string | number)[]): string {
  return parts.join("\0");
}

/** A bytea[] as its text: an array of arrays of different lengths is no parameter. Null for none. */
function hashArray(keys: readonly string[]): string | null {
  if (keys.length === 0) return null;
  return `{${keys.map((key) => `"\\\\x${Buffer.from(key, "base64url").toString("hex")}"`).join(",")}}`;
}
