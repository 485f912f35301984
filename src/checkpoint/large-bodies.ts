// Bodies too large to go through Postgres: uploaded before the commit that names them, one object each. The pack row is
// written first, as pending, so that an object whose commit never came is found and swept.
import type { BodyStore, Db } from "../core/deps.js";
import type { Ids } from "../core/ids.js";
import type { BodyNode, CheckpointOp, ObjectRow } from "./ops.js";

export type LargeBodiesOptions = Readonly<{
  deps: Readonly<{ db: Db; bodies: BodyStore; ids: Ids }>;
  threadId: string;
  /** What is large; 1 MiB unless given. */
  fromBytes?: number;
}>;

/** An operation, and the bodies of it that must be uploaded first. */
export type Draft = Readonly<{ op: CheckpointOp; large: readonly BodyNode[] }>;

const LARGE_BYTES = 1_048_576;

export function splitLarge(op: CheckpointOp, fromBytes = LARGE_BYTES): Draft {
  const isLarge = ({ data }: BodyNode) => data.length >= fromBytes;
  return { op: { ...op, nodes: op.nodes.filter((node) => !isLarge(node)) }, large: op.nodes.filter(isLarge) };
}

/** Uploads one body; the row to commit with what names it, or null when the thread has the body already. */
export async function uploadLargeBody(
  { deps, threadId }: LargeBodiesOptions,
  tenantId: string,
  body: BodyNode,
): Promise<ObjectRow | null> {
  const packId: string = deps.ids.next();
  // Each upload has its own object: sweeping one that was given up never touches another's. No hash is in its name: it
  // would tell who lists the bucket which known content is there.
  const key = `${tenantId}/${threadId}/objects/${packId}`;
  const { rowCount } = await deps.db.query(
    `insert into packs (tenant_id, pack_id, thread_id, kind, status, key, bytes, body_kind, entries)
    select $1, $2, $3, 'object', 'pending', $4, $5, $7, 1
    where not exists (select 1 from bodies b where b.tenant_id = $1 and b.thread_id = $3 and b.hash = $6)
      and not exists (select 1 from staged_bodies s where s.tenant_id = $1 and s.thread_id = $3 and s.hash = $6)`,
    [tenantId, packId, threadId, key, body.data.length, body.hash, body.kind],
  );
  if (rowCount === 0) return null;
  await deps.bodies.create(key, body.data);
  return { key: body.key, hash: body.hash, packId };
}
