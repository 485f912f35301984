// What LangGraph hands to a saver, as rows: encoded at once, so that later changes to the state don't get in.
import {
  type Checkpoint,
  type ChannelVersions,
  type PendingWrite,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import { EngineError } from "../core/errors.js";
import { createEncoder, type EncodeSession } from "./codec/encoder.js";
import { bodyNodeOf, type Node } from "./codec/node.js";
import { headText } from "./head.js";
import { metadataTexts } from "./metadata.js";
import type { CheckpointOp, ValueRow, WriteRow } from "./ops.js";

export type Address = Readonly<{ threadId: string; ns: string; checkpointId: string | null }>;

type Fields = Readonly<Record<string, unknown>>;

export type PutInput = Readonly<{
  /** Its checkpoint id is the parent's. */
  address: Address;
  checkpoint: Checkpoint;
  metadata: Fields;
  newVersions: ChannelVersions;
  /** Write the unchanged values too: the rows of an ancestor may be gone. */
  allValues: boolean;
  config: Readonly<{ configurable?: Fields; metadata?: Fields }>;
  runId: string | null;
}>;

export function draftCheckpoint(session: EncodeSession, input: PutInput): CheckpointOp {
  const { address, checkpoint, newVersions, allValues, config, runId } = input;
  const { ns } = address;
  const encoder = createEncoder(session);
  const versions = { ...newVersions, ...checkpoint.channel_versions };
  const values: ValueRow[] = [];
  for (const channel of Object.keys(allValues ? versions : newVersions)) {
    if (!Object.hasOwn(checkpoint.channel_values, channel)) continue;
    const { text, refs } = encoder.encode(checkpoint.channel_values[channel], channel);
    values.push({ ns, channel, version: String(versions[channel]), data: Buffer.from(text), refs });
  }
  const channels = Object.keys(checkpoint.channel_versions);
  for (const name of [ns, ...channels]) checkName(name);
  const metadata = metadataTexts(config, input.metadata, runId);
  const { step, source } = metadata.fields;
  const row = {
    ns,
    checkpointId: checkpoint.id,
    parentId: address.checkpointId,
    step: typeof step === "number" && Number.isInteger(step) ? step : null,
    source: typeof source === "string" ? source : null,
    metadata: metadata.plain,
    channels,
    versions: channels.map((channel) => String(checkpoint.channel_versions[channel])),
    head: Buffer.from(headText(checkpoint, metadata.exact)),
  };
  return draft(address.threadId, encoder.nodes, { values, writes: [], checkpoints: [row], progress: false });
}

/** A write with its own index among those of its task. */
export type WriteInput = Readonly<{ taskId: string; idx: number; taskPath: string; channel: string; value: unknown }>;

/** The index of each write of a task, by LangGraph's rule. */
export function indexWrites(writes: readonly PendingWrite[], taskId: string, taskPath: string): WriteInput[] {
  return writes.map(([channel, value], position) => {
    return { taskId, idx: WRITES_IDX_MAP[channel] ?? position, taskPath, channel, value };
  });
}

export function draftWrites(
  session: EncodeSession,
  { threadId, ns, checkpointId }: Address & { checkpointId: string },
  writes: readonly WriteInput[],
): CheckpointOp {
  checkName(ns);
  const encoder = createEncoder(session);
  const rows = writes.map(({ value, ...write }): WriteRow => {
    for (const name of [write.taskId, write.taskPath, write.channel]) checkName(name);
    const { text, refs } = encoder.encode(value, write.channel);
    return { ns, checkpointId, ...write, data: Buffer.from(text), refs };
  });
  const progress = rows.some(
    ({ taskId, taskPath, channel }) => taskId !== NO_TASK && taskPath !== START_PATH && !CONTROL_CHANNELS.has(channel),
  );
  return draft(threadId, encoder.nodes, { values: [], writes: rows, checkpoints: [], progress });
}

/** Writes of input and of Commands belong to this one. */
const NO_TASK = "00000000-0000-0000-0000-000000000000";
/** The task that only takes the input in: a run that got no further than that made no progress. */
const START_PATH = "~__pregel_pull, __start__";
/** What happened to a task, not what it made: LangGraph's own `isTaskOutput`, which it doesn't export. */
const CONTROL_CHANNELS = new Set(["__error__", "__error_source_node__", "__interrupt__", "__resume__"]);

function draft(
  threadId: string,
  nodes: ReadonlyMap<string, Node>,
  rows: Pick<CheckpointOp, "values" | "writes" | "checkpoints" | "progress">,
): CheckpointOp {
  return { threadId, nodes: [...nodes.values()].map(bodyNodeOf), objects: [], ...rows };
}

/** Names are text columns, which hold neither NUL nor half a character. */
function checkName(name: string): void {
  if (!name.includes("\0") && (name as string & { isWellFormed(): boolean }).isWellFormed()) return;
  throw new EngineError(
    "value_unsupported",
    `${JSON.stringify(name.slice(0, 100))} can't be the name of a channel, namespace or task: it holds a character that Postgres can't keep.`,
  );
}
