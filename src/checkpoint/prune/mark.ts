// What stays needs: ancestors from which delta channels are rebuilt, and every body that states and runs name, directly or not.
// Reads packs, so it belongs outside of any transaction; what it finds holds as long as no run works on the thread and no
// run's content is moved.
import { EngineError, isEngineError } from "../../core/errors.js";
import { type BodyPlace, bodyPlaces, findPacks } from "../body-queries.js";
import { referencesIn, referencesOfNode } from "../codec/format.js";
import { inlineMessages } from "../message-facts.js";
import type { PackedNode } from "../pack-types.js";
import { type OpenTexts, openStates, type Places, type Reading, readPlaces } from "./open-states.js";
import type { StateNode } from "./plan.js";

export type Marked = Readonly<{
  /** Pruned states that stay for some channels of their descendants, by checkpoint id. */
  supports: ReadonlyMap<string, ReadonlySet<string>>;
  /** Keys of the bodies that are reached. */
  live: ReadonlySet<string>;
}>;

/** Where the content of a run is that left Postgres. */
export type RunPlace = Readonly<{ runId: string; packId: string; block: number }>;

/** How many checkpoints are opened, and bodies looked for, at a time: bounds what is held in memory. */
const PAGE = 64;
const BODIES_AT_ONCE = 2_000;
/** Of checkpoints from before version 4: what they were about to send stands in their parent's writes. */
const OLD_SENDS = "__pregel_tasks";

/**
 * Marks what `kept` needs among `nodes`, all of the thread's, and what its runs' contents name.
 * Throws `body_missing` or `body_corrupt` when something that stays can't be read: what it needs is not known then.
 */
export async function markReachable(
  reading: Reading,
  nodes: readonly StateNode[],
  kept: ReadonlySet<string>,
  runs: readonly RunPlace[],
): Promise<Marked> {
  const byId = new Map(nodes.map((node) => [node.checkpointId, node]));
  const live = new Set<string>();
  /** Short messages stand in the state's own text; the mover gave them bodies as well, which manifests name. */
  const listed = new Set<string>();
  const supports = new Map<string, Set<string>>();
  /** States whose ancestors are to be followed, with the channels that are still to be found above them. */
  let open: Need[] = [];
  const whole = nodes.filter(({ checkpointId }) => kept.has(checkpointId));
  for (const page of pages(whole, PAGE)) {
    for (const texts of await openStates(reading, page)) {
      addReferences(live, texts, null);
      for (const { text } of texts.values) for (const { key } of inlineMessages(text)) listed.add(key);
      const node = byId.get(texts.checkpointId);
      const channels = node === undefined ? new Set<string>() : missingDeltas(node, texts);
      if (node?.parentId && channels.size > 0) open.push({ at: node.parentId, channels });
    }
  }
  const seen = new Map<string, Set<string>>();
  while (open.length > 0) open = await followNeeds(reading, { byId, kept, seen, supports, live }, open);
  for (const run of runs) await addRunReferences(reading, run, live);
  await followBodies(reading, live);
  // They name what the state's text names, and a state that isn't moved yet has none.
  for (const key of listed) live.add(key);
  return { supports, live };
}

type Need = Readonly<{ at: string; channels: ReadonlySet<string> }>;
type Following = Readonly<{
  byId: ReadonlyMap<string, StateNode>;
  kept: ReadonlySet<string>;
  /** By checkpoint id: the channels that were followed through it. */
  seen: Map<string, Set<string>>;
  supports: Map<string, Set<string>>;
  live: Set<string>;
}>;

/** Goes up from each need, a page of ancestors at a time; returns what is still open at the end of the page. */
async function followNeeds(reading: Reading, following: Following, needs: readonly Need[]): Promise<Need[]> {
  const left: Need[] = [];
  for (const need of needs) {
    const chain: StateNode[] = [];
    for (let at = following.byId.get(need.at); at && chain.length < PAGE; ) {
      const known = following.seen.get(at.checkpointId);
      if ([...need.channels].every((channel) => known?.has(channel))) break;
      chain.push(at);
      at = at.parentId === null ? undefined : following.byId.get(at.parentId);
    }
    const texts = new Map((await openStates(reading, chain)).map((state) => [state.checkpointId, state]));
    let channels = new Set(need.channels);
    for (const node of chain) {
      channels = takeFrom(following, node, texts.get(node.checkpointId), channels);
      if (channels.size === 0) break;
    }
    const above = chain.at(-1)?.parentId;
    if (channels.size > 0 && above && chain.length === PAGE) left.push({ at: above, channels });
  }
  return left;
}

/** Marks what of an ancestor is needed; returns the channels that are still to be found above it. */
function takeFrom(
  { kept, seen, supports, live }: Following,
  node: StateNode,
  texts: OpenTexts | undefined,
  channels: ReadonlySet<string>,
): Set<string> {
  const known = seen.get(node.checkpointId) ?? new Set();
  const fresh = new Set([...channels].filter((channel) => !known.has(channel)));
  seen.set(node.checkpointId, new Set([...known, ...fresh]));
  if (texts === undefined || fresh.size === 0) return new Set();
  if (!kept.has(node.checkpointId)) {
    supports.set(node.checkpointId, new Set([...(supports.get(node.checkpointId) ?? []), ...fresh]));
    addReferences(live, texts, fresh);
  }
  const valued = new Set(texts.values.map(({ channel }) => channel));
  return new Set([...fresh].filter((channel) => !valued.has(channel) && channel !== OLD_SENDS));
}

/** The channels whose value is not in this state, but in its ancestors. */
function missingDeltas(node: StateNode, texts: OpenTexts): Set<string> {
  const valued = new Set(texts.values.map(({ channel }) => channel));
  const versioned = new Set(texts.channels);
  const missing = node.deltas.filter(
    (channel) => !valued.has(channel) && (versioned.has(channel) || !node.deltasVersioned),
  );
  return new Set(texts.version < 4 ? [...missing, OLD_SENDS] : missing);
}

/** What the content of a run names: a record of before there were bodies in them names nothing. */
async function addRunReferences(reading: Reading, run: RunPlace, live: Set<string>): Promise<void> {
  for (let block = run.block, more = true; more; block++) {
    const place = { packId: run.packId, block };
    const record = (await readPlaces(reading, [place])).get(`${run.packId} ${block}`)?.runs.get(run.runId);
    if (record === undefined)
      throw new EngineError("body_missing", `The content of run ${run.runId} isn't in its pack`);
    if (record.f === 1) {
      const results = (record.effects ?? []).map(({ result }) => result);
      for (const value of [record.request, record.error, ...record.stream.map(({ data }) => data), ...results])
        for (const key of referencesIn(JSON.stringify(value ?? null))) live.add(key);
    }
    more = record.more ?? false;
  }
}

function addReferences(live: Set<string>, texts: OpenTexts, only: ReadonlySet<string> | null): void {
  for (const { channel, text } of [...texts.values, ...texts.writes]) {
    if (only !== null && !only.has(channel)) continue;
    for (const key of referencesIn(text)) live.add(key);
  }
}

/** Adds to `live` what the bodies in it name, until there is nothing new. */
async function followBodies(reading: Reading, live: Set<string>): Promise<void> {
  const done = new Set<string>();
  for (let open = [...live]; open.length > 0; open = [...live].filter((key) => !done.has(key))) {
    for (const some of pages(open, BODIES_AT_ONCE)) {
      const read = () => followSome(reading, some, live, done);
      await read().catch((error: unknown) => (isEngineError(error, "body_missing") ? read() : Promise.reject(error)));
    }
  }
}

async function followSome(
  reading: Reading,
  keys: readonly string[],
  live: Set<string>,
  done: Set<string>,
): Promise<void> {
  const { tenantId, threadId } = reading.key;
  const found = await bodyPlaces(reading.sql, tenantId, threadId, keys);
  const lost = new Set(keys);
  for (const { key } of found) lost.delete(key);
  for (const key of lost) throw missing(reading, key);
  const moved = found.filter((place) => place.staged === null);
  const objects = await readObjects(reading, moved);
  const blocks = await readPlaces(reading, moved);
  const namesOf = (place: BodyPlace): readonly string[] => {
    if (place.staged !== null) return place.staged;
    const node = objects.get(place.packId) ?? blocks.get(`${place.packId} ${place.block}`)?.nodes.get(place.key);
    if (node === undefined) throw missing(reading, place.key);
    return referencesOfNode(node);
  };
  for (const place of found) {
    for (const name of [place.key, ...namesOf(place)]) live.add(name);
    done.add(place.key);
  }
}

const NAMES_NOTHING: PackedNode = { kind: 2, data: Buffer.alloc(0) };

/** Large bodies by their packs' ids. Texts and bytes name nothing, so they are not read. */
async function readObjects({ sql, bodies, key }: Reading, places: Places): Promise<Map<string, PackedNode>> {
  const found = new Map<string, PackedNode>();
  for (const pack of await findPacks(sql, key.tenantId, [...new Set(places.map(({ packId }) => packId))])) {
    if (pack.kind !== "object") continue;
    const isNode = pack.bodyKind === 1;
    const node = isNode ? { kind: 1 as const, data: Buffer.from(await bodies.read(pack.address.key)) } : NAMES_NOTHING;
    found.set(pack.address.packId, node);
  }
  return found;
}

function missing({ key }: Reading, name: string): EngineError {
  return new EngineError(
    "body_missing",
    `Body ${name} of thread ${key.threadId} is neither in Postgres nor in the store`,
    {
      details: { body: name, thread_id: key.threadId },
    },
  );
}

function* pages<T>(items: readonly T[], size: number): Iterable<readonly T[]> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size);
}
