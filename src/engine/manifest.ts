// Manifests: for each run a JSON object in the object store that lists the messages it added, in order, with their metadata and
// where their bodies are, and links the manifest of the run before. Whoever has the bucket can read a conversation with it
// and gunzip. Written after the move, from what was moved: which runs need one is in their rows, so that a mover that dies
// leaves the rest to the next.
import { uuidToULID } from "ulid";
import { threadPrefix } from "../bodies/keys.js";
import { newItems } from "../checkpoint/array-items.js";
import { findBodies, findPacks } from "../checkpoint/body-queries.js";
import { createBodyReader } from "../checkpoint/body-reader.js";
import { type StoredMessage, storedMessages } from "../checkpoint/message-facts.js";
import type { ThreadKey } from "../checkpoint/move-queries.js";
import { openTexts } from "../checkpoint/open-snapshot.js";
import type { PackReader } from "../checkpoint/pack-types.js";
import { doomManifest, doomPack, insertPendingPack, markPackStored } from "../checkpoint/packs.js";
import { readById } from "../checkpoint/queries.js";
import { runSpan, type RunSpan } from "../checkpoint/run-span.js";
import type { Deps } from "../core/deps.js";
import { isBodyLost } from "../core/errors.js";
import type { PackId, RunId } from "../core/ids.js";
import { dueManifests, manifestOfRun, placeManifest, withdrawManifest } from "../runs/manifests.js";
import { lockThread } from "../runs/thread-lock.js";
import { isTombstoned } from "../runs/tombstones.js";
import { type Doomed, removeDoomed } from "./remove-doomed.js";

const FORMAT = 1;
const CACHE_BYTES = 4 * 1024 * 1024;

export type ManifestStep = "manifest_announced" | "manifest_uploaded" | "manifest_placed";
type Hooks = Readonly<{ reached?: (step: ManifestStep) => Promise<void> | void }>;
type Writing = Readonly<{ deps: Deps; key: ThreadKey; packs: PackReader; hooks: Hooks }>;

/** Writes the manifests that the thread's runs lack. Throws `unavailable` when the object store or the database is away. */
export async function writeManifests(deps: Deps, key: ThreadKey, packs: PackReader, hooks: Hooks = {}): Promise<void> {
  for (const { runId, dueSeq } of await dueManifests(deps.db, key)) {
    try {
      await writeManifest({ deps, key, packs, hooks }, runId, dueSeq);
    } catch (error) {
      if (!isBodyLost(error)) throw error;
      const fields = { tenant_id: key.tenantId, thread_id: key.threadId, run_id: runId, code: error.code };
      deps.log.error(fields, "a run's manifest can't be written: a body is lost");
    }
  }
}

async function writeManifest(writing: Writing, runId: RunId, dueSeq: number): Promise<void> {
  const { deps, key, hooks } = writing;
  const { reached = () => {} } = hooks;
  const span = await runSpan(deps.db, { ...key, runId }, { upTo: dueSeq });
  if (span === undefined) return withdraw(writing, runId);
  const previous = await previousManifest(writing, span);
  // What the run started from isn't all there yet: this one has to wait for it.
  if (previous === "not_yet") return;
  const packId = deps.ids.next<PackId>();
  // Where no list came before, as on a copy, this one begins with the conversation.
  const listed = previous === undefined ? { ...span, base: null } : span;
  const manifest = { ...(await contentOf(writing, runId, listed)), previous: previous?.uri ?? null };
  const bytes = Buffer.from(`${JSON.stringify(manifest, null, 1)}\n`);
  const pack = {
    ...key,
    packId,
    kind: "manifest" as const,
    key: manifestKey(key, packId),
    bytes: bytes.length,
    offsets: [],
    hashes: [],
    entries: 0,
  };
  await insertPendingPack(deps.db, pack);
  await reached("manifest_announced");
  await deps.bodies.create(pack.key, bytes);
  await reached("manifest_uploaded");
  const seq = Math.max(span.seq, dueSeq);
  const doomed = await place(writing, { runId, packId, previousId: previous?.packId ?? null, seq });
  await reached("manifest_placed");
  await removeDoomed(deps, doomed === false ? [pack] : doomed);
}

/** Where the manifest with this id is. */
export function manifestKey(key: ThreadKey, packId: PackId): string {
  return `${threadPrefix(key)}${uuidToULID(packId)}.json`;
}

type Previous = Readonly<{ packId: PackId; uri: string }>;

/** The manifest of the thread's run that made what this one started from; undefined when there will be none. */
async function previousManifest({ deps, key }: Writing, { base }: RunSpan): Promise<Previous | undefined | "not_yet"> {
  if (base === null) return undefined;
  if (!base.moved) return "not_yet";
  if (base.runId === null) return undefined;
  const row = await manifestOfRun(deps.db, { ...key, runId: base.runId });
  if (row === undefined || row.dueSeq === null) return undefined;
  if (row.packId === null || row.seq === null || row.seq < base.seq) return "not_yet";
  return { packId: row.packId, uri: `${deps.bodies.uri}/${manifestKey(key, row.packId)}` };
}

async function contentOf(writing: Writing, runId: RunId, span: RunSpan) {
  const messages = await newMessages(writing, span);
  const uris = await urisOf(
    writing,
    messages.flatMap(({ key, names }) => [key, ...names]),
  );
  const entries = messages.map(({ channel, facts, key, names }) => ({
    channel,
    ...facts,
    ...placeOf(uris, key),
    bodies: names.map((name) => placeOf(uris, name)),
  }));
  const { tenantId, threadId } = writing.key;
  return {
    format: FORMAT,
    tenant_id: tenantId,
    thread_id: threadId,
    run_id: runId,
    checkpoint_id: span.checkpointId,
    messages: entries,
    tool_results: entries.filter(({ type }) => type === "tool"),
  };
}

async function newMessages(
  { deps, key, packs }: Writing,
  { checkpointId, base }: RunSpan,
): Promise<(StoredMessage & Readonly<{ channel: string }>)[]> {
  const { tenantId, threadId } = key;
  const { db: sql, bodies } = deps;
  const reader = createBodyReader({ sql, bodies, packs, cacheBytes: CACHE_BYTES });
  const read = (keys: readonly string[]) => reader.read(tenantId, threadId, keys);
  const textsOf = async (id: string) =>
    (await openTexts(await readById(sql, tenantId, threadId, "", id), packs))[0]?.channels ?? [];
  const before = new Map(
    (base === null ? [] : await textsOf(base.checkpointId)).map(({ channel, text }) => [channel, text]),
  );
  const found = [];
  for (const { channel, text } of await textsOf(checkpointId)) {
    // LangGraph's own channels hold messages on their way, not those of the conversation.
    if (text === undefined || text === before.get(channel) || /^(__|branch:)/.test(channel)) continue;
    const items = (await newItems(read, text, before.get(channel))) ?? [];
    for (const message of await storedMessages(read, items)) found.push({ channel, ...message });
  }
  return found;
}

/** Where bodies are, by key. */
async function urisOf({ deps, key }: Writing, keys: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const moved = (await findBodies(deps.db, key.tenantId, key.threadId, keys)).flatMap((body) =>
    body.staged === null ? [body] : [],
  );
  const ids = [...new Set(moved.map(({ packId }) => packId))];
  const packs = new Map((await findPacks(deps.db, key.tenantId, ids)).map(({ address }) => [address.packId, address]));
  return new Map(moved.map(({ key: body, packId }) => [body, `${deps.bodies.uri}/${packs.get(packId)?.key}#${body}`]));
}

/** No URI: the message is so short that it has no body, and stands in the checkpoint's record only. */
function placeOf(uris: ReadonlyMap<string, string>, key: string) {
  const uri = uris.get(key) ?? null;
  return uri === null ? { sha256: null, uri } : { sha256: key, uri };
}

/** Its checkpoints were pruned: what of its messages is kept, the manifests of later runs list. */
async function withdraw(writing: Writing, runId: RunId): Promise<void> {
  const { deps, key } = writing;
  const doomed = await deps.db.tx(async (sql): Promise<readonly Doomed[]> => {
    if ((await lockThread(sql, key)) === undefined) return [];
    const packId = await withdrawManifest(sql, { ...key, runId });
    if (packId === undefined) return [];
    const objectKey = await doomManifest(sql, { tenantId: key.tenantId, packId });
    return objectKey === undefined ? [] : [{ tenantId: key.tenantId, packId, key: objectKey }];
  });
  await removeDoomed(deps, doomed);
}

/** The transaction. What it took the place of, to be deleted; false when this one isn't needed any more. */
async function place(
  { deps, key }: Writing,
  manifest: Readonly<{ runId: RunId; packId: PackId; previousId: PackId | null; seq: number }>,
): Promise<false | readonly Doomed[]> {
  const { tenantId } = key;
  return deps.db.tx(async (sql) => {
    const own = { tenantId, packId: manifest.packId };
    const wanted = (await lockThread(sql, key)) !== undefined && !(await isTombstoned(sql, key));
    if (!wanted || !(await markPackStored(sql, own))) {
      await doomPack(sql, own);
      return false;
    }
    const placed = await placeManifest(sql, key, manifest);
    const loser = placed === false ? manifest.packId : placed.replaced;
    if (loser === null) return [];
    const objectKey = await doomManifest(sql, { tenantId, packId: loser });
    return objectKey === undefined ? [] : [{ tenantId, packId: loser, key: objectKey }];
  });
}
