// The texts of checkpoints that pruning looks at, and blocks of packs, from wherever they are.
import type { BodyStore, Sql } from "../../core/deps.js";
import { EngineError, isEngineError } from "../../core/errors.js";
import { findPacks } from "../body-queries.js";
import type { ThreadKey } from "../move-queries.js";
import {
  type CheckpointRecord,
  checkpointRecordKey,
  countedWrites,
  type PackBlock,
  type PackReader,
  recordedValue,
} from "../pack-types.js";
import type { StateNode } from "./plan.js";
import { type StoredTexts, storedTexts } from "./read-queries.js";

export type Reading = Readonly<{ sql: Sql; bodies: BodyStore; key: ThreadKey; packs: PackReader }>;

/** A checkpoint's own texts, wherever they were. */
export type OpenTexts = Pick<StoredTexts, "checkpointId" | "channels" | "values" | "writes"> &
  Readonly<{ /** LangGraph's, of the checkpoint's form. */ version: number }>;

/** The texts of these checkpoints from wherever they are. */
export async function openStates(reading: Reading, nodes: readonly StateNode[]): Promise<OpenTexts[]> {
  const read = async () => openStored(reading, await storedTexts(reading.sql, reading.key, nodes));
  // Moved or packed anew between the statement and the read: look once more.
  return read().catch((error: unknown) => (isEngineError(error, "body_missing") ? read() : Promise.reject(error)));
}

async function openStored(reading: Reading, stored: readonly StoredTexts[]): Promise<OpenTexts[]> {
  const blocks = await readPlaces(
    reading,
    stored.flatMap(({ place }) => place ?? []),
  );
  return stored.map((state) => {
    const { ns, checkpointId, place } = state;
    if (place === null) return textsHere(state);
    const record = blocks.get(`${place.packId} ${place.block}`)?.checkpoints.get(checkpointRecordKey(ns, checkpointId));
    if (record === undefined) {
      throw new EngineError("body_missing", `Checkpoint ${checkpointId} isn't in block ${place.block} of its pack`);
    }
    return state.head === null ? textsMoved(state, record) : textsHere(state, record);
  });
}

/** `record`: of a checkpoint that was put again. */
function textsHere(state: StoredTexts, record?: CheckpointRecord): OpenTexts {
  const { checkpointId, channels, versions, head, values, writes, writtenBy } = state;
  const here = new Set(values.map(({ channel }) => channel));
  const recorded = channels.flatMap((channel, i) => {
    const text = record && !here.has(channel) ? recordedValue(record, channel, versions[i] ?? "") : undefined;
    return text === undefined ? [] : [{ channel, text }];
  });
  return {
    checkpointId,
    channels,
    values: [...values, ...recorded],
    writes: [...writes, ...(record ? countedWrites(record, writtenBy) : [])],
    version: versionOf(JSON.parse(head?.toString("utf8") ?? "{}")),
  };
}

function textsMoved({ checkpointId, writes, writtenBy }: StoredTexts, record: CheckpointRecord): OpenTexts {
  return {
    checkpointId,
    channels: record.channels,
    values: record.values.map(([at, text]) => ({ channel: record.channels[at] ?? "", text })),
    writes: [...writes, ...countedWrites(record, writtenBy)],
    version: versionOf(record.head),
  };
}

function versionOf(head: unknown): number {
  const { v } = (head as { checkpoint?: { v?: unknown } }).checkpoint ?? {};
  return typeof v === "number" ? v : 4;
}

export type Places = readonly Readonly<{ packId: string; block: number }>[];

/** The blocks of packs at these places, by pack id and number. */
export async function readPlaces({ sql, key, packs }: Reading, places: Places): Promise<Map<string, PackBlock>> {
  const byPack = new Map<string, Set<number>>();
  for (const { packId, block } of places) byPack.set(packId, (byPack.get(packId) ?? new Set()).add(block));
  const found = new Map<string, PackBlock>();
  for (const { kind, address } of await findPacks(sql, key.tenantId, [...byPack.keys()])) {
    if (kind !== "pack") continue;
    const blocks = await packs.readBlocks(address, [...(byPack.get(address.packId) ?? [])]);
    for (const [number, block] of blocks) found.set(`${address.packId} ${number}`, block);
  }
  return found;
}
