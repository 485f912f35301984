// What the saver hands to the group commit: rows of this folder's tables, still without the run they are fenced by.

/** Bytes named by their content: kind 0 is text (a leaf), 1 a JSON node, 2 raw bytes. `key` is `hash` in base64url. */
export type BodyNode = Readonly<{
  key: string;
  hash: Buffer;
  kind: 0 | 1 | 2;
  refs: readonly string[];
  data: Buffer;
}>;

/** A channel without a row for its version is empty. */
export type ValueRow = Readonly<{
  ns: string;
  channel: string;
  version: string;
  data: Buffer;
  refs: readonly string[];
}>;

export type WriteRow = Readonly<{
  ns: string;
  checkpointId: string;
  taskId: string;
  /** Negative for LangGraph's special channels (`WRITES_IDX_MAP`): those replace, others keep the first. */
  idx: number;
  taskPath: string;
  channel: string;
  data: Buffer;
  refs: readonly string[];
}>;

export type CheckpointRow = Readonly<{
  ns: string;
  checkpointId: string;
  parentId: string | null;
  step: number | null;
  source: string | null;
  /** JSON text for filters and people: no NUL, no lone surrogate, no content. The exact metadata is in `head`. */
  metadata: string;
  channels: readonly string[];
  versions: readonly string[];
  head: Buffer;
}>;

/** A body too large to stage: already in the object store under this pending pack row, made `stored` by the commit. */
export type ObjectRow = Readonly<{ key: string; hash: Buffer; packId: string }>;

export type CheckpointOp = Readonly<{
  /** The thread that the saver was asked to write to; the fence's run must be one of it. */
  threadId: string;
  nodes: readonly BodyNode[];
  values: readonly ValueRow[];
  writes: readonly WriteRow[];
  checkpoints: readonly CheckpointRow[];
  objects: readonly ObjectRow[];
  /** True when a task's own result is among the writes: the run got further. */
  progress: boolean;
}>;

/**
 * Commits one operation for the run it was made for; resolves when it is durable.
 * Rejects with EngineError `lease_lost` when another attempt owns the run; nothing of it is written then.
 */
export type Commit = (op: CheckpointOp) => Promise<void>;

/** Stores nothing. */
export function emptyOp(threadId: string): CheckpointOp {
  return { threadId, nodes: [], values: [], writes: [], checkpoints: [], objects: [], progress: false };
}

/** What must be durable together, as one. All of one thread. */
export function joinOps(first: CheckpointOp, ...others: readonly CheckpointOp[]): CheckpointOp {
  const ops = [first, ...others];
  return {
    threadId: first.threadId,
    nodes: ops.flatMap(({ nodes }) => nodes),
    values: ops.flatMap(({ values }) => values),
    writes: ops.flatMap(({ writes }) => writes),
    checkpoints: ops.flatMap(({ checkpoints }) => checkpoints),
    objects: ops.flatMap(({ objects }) => objects),
    progress: ops.some(({ progress }) => progress),
  };
}

/** Bytes of content, about what it takes in memory until it is durable. */
export function bytesOf(op: CheckpointOp): number {
  let bytes = 0;
  for (const { data } of [...op.nodes, ...op.values, ...op.writes]) bytes += data.length;
  for (const { head, metadata } of op.checkpoints) bytes += head.length + metadata.length;
  return bytes;
}

/**
 * An operation that is too large for one statement, as several: its bodies first, which nothing names yet, then all that
 * must be durable together. No part but the last can be more than one body above `maxBytes`.
 */
export function splitOp(op: CheckpointOp, maxBytes: number): CheckpointOp[] {
  if (bytesOf(op) <= maxBytes) return [op];
  const nothing = { values: [], writes: [], checkpoints: [], objects: [], progress: false };
  const parts: CheckpointOp[] = [];
  let nodes: BodyNode[] = [];
  let bytes = 0;
  for (const node of op.nodes) {
    if (bytes > 0 && bytes + node.data.length > maxBytes) {
      parts.push({ threadId: op.threadId, ...nothing, nodes });
      nodes = [];
      bytes = 0;
    }
    nodes.push(node);
    bytes += node.data.length;
  }
  return [...parts, { threadId: op.threadId, ...nothing, nodes }, { ...op, nodes: [] }];
}
