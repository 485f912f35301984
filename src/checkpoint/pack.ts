// The pack file (.jsonl.gz): gzip members of about 64 KB of JSON lines, the last one an index. `gunzip` alone reads it
// all; a byte range that is one member reads one block. Lines are {"h","k","d"} for a body, {"checkpoint"}, {"run"}.
import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import { EngineError } from "../core/errors.js";
import {
  type CheckpointRecord,
  checkpointRecordKey,
  type PackBlock,
  type PackedNode,
  type RunRecord,
} from "./pack-types.js";

const BLOCK_BYTES = 64 * 1024;

/** A finished pack: its bytes, what its row in `packs` says of its blocks, and how many bodies, checkpoints and runs are in it. */
export type PackFile = Readonly<{
  bytes: Buffer;
  offsets: readonly number[];
  hashes: readonly Buffer[];
  entries: number;
}>;

/** As `RunRecord`, with texts that a JsonKeeper made. */
export type RunPart = Readonly<{
  runId: string;
  request: string | null;
  error: string | null;
  /** JSON texts of `{id, event, data}`. */
  stream: readonly string[];
  /** JSON texts of `{key, result}`. */
  effects: readonly string[];
  /** The stream goes on in another part. */
  more: boolean;
}>;

/** Collects the lines of one pack. Each add resolves to the number of the block that holds the line. */
export type PackWriter = Readonly<{
  addNode(node: Readonly<{ hash: Buffer; kind: 0 | 1 | 2; data: Buffer }>): Promise<number>;
  /** `head` is JSON text. */
  addCheckpoint(
    checkpoint: Readonly<{ ns: string; checkpointId: string; head: string }> & Omit<CheckpointRecord, "head">,
  ): Promise<number>;
  addRun(part: RunPart): Promise<number>;
  finish(): Promise<PackFile>;
}>;

type IndexedBlock = { nodes: string[]; checkpoints: [ns: string, checkpointId: string][]; runs: string[] };

export function createPackWriter(): PackWriter {
  const members: Buffer[] = [];
  const offsets = [0];
  const hashes: Buffer[] = [];
  const index: object[] = [];
  let lines: string[] = [];
  let size = 0;
  let open: IndexedBlock = { nodes: [], checkpoints: [], runs: [] };
  let bodiesAndCheckpoints = 0;
  const runs = new Set<string>();

  const closeBlock = async () => {
    const start = offsets.at(-1) ?? 0;
    const member = await compress(lines);
    members.push(member);
    offsets.push(start + member.length);
    hashes.push(sha256(member));
    index.push({ start, end: start + member.length, sha256: sha256(member).toString("base64url"), ...open });
    lines = [];
    size = 0;
    open = { nodes: [], checkpoints: [], runs: [] };
  };
  const add = async (line: string): Promise<number> => {
    const block = members.length;
    lines.push(line);
    size += line.length;
    if (size >= BLOCK_BYTES) await closeBlock();
    return block;
  };

  return {
    async addNode(node) {
      const key = node.hash.toString("base64url");
      const line = JSON.stringify({ h: key, k: node.kind, d: nodeText(key, node) });
      open.nodes.push(key);
      bodiesAndCheckpoints += 1;
      return add(line);
    },
    addCheckpoint({ ns, checkpointId, head, ...rest }) {
      open.checkpoints.push([ns, checkpointId]);
      bodiesAndCheckpoints += 1;
      const names = JSON.stringify({ ns, id: checkpointId });
      const others = JSON.stringify(rest);
      return add(`{"checkpoint":${names.slice(0, -1)},"head":${jsonText(head)},${others.slice(1)}}`);
    },
    addRun({ runId, request, error, stream, effects, more }) {
      if (!open.runs.includes(runId)) open.runs.push(runId);
      runs.add(runId);
      const content = `"request":${jsonText(request)},"error":${jsonText(error)},"stream":[${stream.join(",")}]`;
      const results = effects.length > 0 ? `,"effects":[${effects.join(",")}]` : "";
      return add(`{"run":{"run_id":${JSON.stringify(runId)},"f":1,${content}${results}${more ? ',"more":true' : ""}}}`);
    },
    async finish() {
      if (lines.length > 0) await closeBlock();
      const last = await compress([JSON.stringify({ index: { blocks: index } })]);
      const entries = bodiesAndCheckpoints + runs.size;
      return { bytes: Buffer.concat([...members, last]), offsets, hashes, entries };
    },
  };
}

/** Reads one block whose bytes were checked already; checks each node. Throws `body_corrupt` naming the pack's key. */
export async function decodeBlock(
  packKey: string,
  bytes: Uint8Array,
): Promise<Readonly<{ block: PackBlock; size: number }>> {
  const nodes = new Map<string, PackedNode>();
  const checkpoints = new Map<string, CheckpointRecord>();
  const runs = new Map<string, RunRecord>();
  const text = (await promisify(gunzip)(bytes)).toString("utf8");
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const entry = JSON.parse(line) as PackLine;
    if ("h" in entry) {
      const data = Buffer.from(entry.d, entry.k === 2 ? "base64" : "utf8");
      if (sha256(data).toString("base64url") !== entry.h) throw corrupt(packKey, `body ${entry.h}`);
      nodes.set(entry.h, { kind: entry.k, data });
    } else if ("checkpoint" in entry) {
      const { ns, id, ...record } = entry.checkpoint;
      checkpoints.set(checkpointRecordKey(ns, id), record);
    } else {
      const { run_id: runId, ...part } = entry.run;
      runs.set(runId, joinParts(runs.get(runId), part));
    }
  }
  return { block: { nodes, checkpoints, runs }, size: text.length };
}

type PackLine =
  | { h: string; k: 0 | 1 | 2; d: string }
  | { checkpoint: { ns: string; id: string } & CheckpointRecord }
  | { run: { run_id: string } & RunRecord };

function joinParts(before: RunRecord | undefined, next: RunRecord): RunRecord {
  if (before === undefined) return next;
  return {
    ...next,
    request: before.request,
    error: before.error,
    stream: [...before.stream, ...next.stream],
    effects: [...(before.effects ?? []), ...(next.effects ?? [])],
  };
}

export function corrupt(packKey: string, what: string): EngineError {
  return new EngineError("body_corrupt", `${what} in ${packKey} doesn't match its hash: the object is damaged`, {
    details: { key: packKey },
  });
}

export function sha256(data: Uint8Array): Buffer {
  return createHash("sha256").update(data).digest();
}

/** What can't come back as it is must not leave the database: the rows are deleted after the move. */
function nodeText(key: string, node: Readonly<{ hash: Buffer; kind: 0 | 1 | 2; data: Buffer }>): string {
  if (!sha256(node.data).equals(node.hash)) {
    throw new EngineError("body_corrupt", `staged body ${key} doesn't match its hash: the row is damaged`);
  }
  if (node.kind === 2) return node.data.toString("base64");
  if (!isUtf8(node.data)) throw new EngineError("internal", `staged body ${key} is no UTF-8 text`);
  return node.data.toString("utf8");
}

/** The text itself when it is JSON on one line; a line that isn't would make the rest of its block unreadable. */
function jsonText(text: string | null): string {
  if (text === null) return "null";
  const value: unknown = JSON.parse(text);
  return text.includes("\n") ? JSON.stringify(value) : text;
}

async function compress(lines: readonly string[]): Promise<Buffer> {
  return promisify(gzip)(`${lines.join("\n")}\n`, { level: 6 });
}
