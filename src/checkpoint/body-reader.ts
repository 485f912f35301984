// Reads bodies wherever they are: in this process's cache, staged in Postgres, or moved to the object store. A body is
// named by the hash of its content, so that what is cached is never stale; each was checked against it once.
import { LRUCache } from "lru-cache";
import type { BodyStore, Sql } from "../core/deps.js";
import { EngineError, isEngineError } from "../core/errors.js";
import { findBodies, findPacks, type FoundBody, type Pack } from "./body-queries.js";
import { referencesOfNode } from "./codec/format.js";
import { sha256 } from "./pack.js";
import type { PackedNode, PackReader } from "./pack-types.js";

/** A body with the keys of those it names. */
export type LoadedBody = PackedNode & Readonly<{ refs: readonly string[] }>;

export type BodyReader = Readonly<{
  /**
   * Everything that `keys` of a thread name, directly or not. `staged` are bodies that the caller's own statement brought.
   * Throws `body_missing` or `body_corrupt`, naming the body and the thread.
   */
  load(
    tenantId: string,
    threadId: string,
    keys: Iterable<string>,
    staged?: ReadonlyMap<string, PackedNode>,
  ): Promise<ReadonlyMap<string, LoadedBody>>;
  /** At least these bodies, wherever they are; not what they name. Throws as `load` does. */
  read(tenantId: string, threadId: string, keys: readonly string[]): Promise<ReadonlyMap<string, PackedNode>>;
  /** Blocks of packs, for the records of moved checkpoints. */
  packs: PackReader;
}>;

export type BodyReaderOptions = Readonly<{
  sql: Sql;
  bodies: BodyStore;
  packs: PackReader;
  /** How many bytes of bodies to keep. */
  cacheBytes: number;
}>;

/** A pack up to this size is read whole: what a checkpoint needs of it is mostly all over it. */
const WHOLE_PACK_BYTES = 1_048_576;
/** What a cached body takes beside its bytes. */
const OVERHEAD_BYTES = 200;

/** One reader per process, for its cache. */
export function createBodyReader(options: BodyReaderOptions): BodyReader {
  const cache = new LRUCache<string, LoadedBody>({ maxSize: options.cacheBytes });
  const fetchBodies = bodyFetcher(options);

  return {
    packs: options.packs,
    read: fetchBodies,
    async load(tenantId, threadId, keys, staged = new Map()) {
      const loaded = new Map<string, LoadedBody>();
      const fetched = new Map<string, PackedNode>();
      const find = (key: string): LoadedBody | undefined => {
        const name = `${tenantId} ${key}`;
        const cached = cache.get(name);
        if (cached !== undefined) return cached;
        const node = fetched.get(key) ?? staged.get(key);
        if (node === undefined) return undefined;
        if (!fetched.has(key)) check(key, threadId, node.data);
        const body = { ...node, refs: referencesOfNode(node) };
        cache.set(name, body, { size: node.data.length + OVERHEAD_BYTES });
        return body;
      };
      for (let wanted = follow(keys, find, loaded); wanted.length > 0; wanted = follow(wanted, find, loaded)) {
        for (const [key, node] of await fetchBodies(tenantId, threadId, wanted)) fetched.set(key, node);
      }
      return loaded;
    },
  };
}

/** Walks from the keys over what is at hand into `loaded`; returns the keys where it found nothing. */
function follow(
  keys: Iterable<string>,
  find: (key: string) => LoadedBody | undefined,
  loaded: Map<string, LoadedBody>,
): string[] {
  const missing = new Set<string>();
  const open = [...keys];
  for (let key = open.pop(); key !== undefined; key = open.pop()) {
    if (loaded.has(key) || missing.has(key)) continue;
    const body = find(key);
    if (body === undefined) missing.add(key);
    else {
      loaded.set(key, body);
      open.push(...body.refs);
    }
  }
  return [...missing];
}

type Fetch = (tenantId: string, threadId: string, keys: readonly string[]) => Promise<Map<string, PackedNode>>;

/** Reads at least the given bodies from Postgres and the object store, checked; throws when one can't be had. */
function bodyFetcher({ sql, bodies, packs }: BodyReaderOptions): Fetch {
  const knownPacks = new LRUCache<string, Pack>({ max: 1_000 });

  async function packsOf(tenantId: string, packIds: readonly string[]): Promise<Pack[]> {
    const unknown = packIds.filter((packId) => !knownPacks.has(`${tenantId} ${packId}`));
    const found = unknown.length === 0 ? [] : await findPacks(sql, tenantId, unknown);
    for (const pack of found) knownPacks.set(`${tenantId} ${pack.address.packId}`, pack);
    return packIds.flatMap((packId) => knownPacks.get(`${tenantId} ${packId}`) ?? []);
  }

  async function fromPack(pack: Pack, places: readonly Moved[], threadId: string): Promise<[string, PackedNode][]> {
    const first = places[0]?.key ?? "";
    try {
      if (pack.kind === "object") return [[first, await readObject(bodies, pack, first, threadId)]];
      const whole = (pack.bytes ?? Number.POSITIVE_INFINITY) <= WHOLE_PACK_BYTES;
      const blocks = whole ? pack.address.hashes.map((_, i) => i) : places.map(({ block }) => block);
      const read = await packs.readBlocks(pack.address, blocks);
      return [...read.values()].flatMap((block) => [...block.nodes]);
    } catch (cause) {
      if (!isEngineError(cause, "body_missing")) throw cause;
      throw missing(first, threadId, cause);
    }
  }

  async function read(found: readonly FoundBody[], tenantId: string, threadId: string) {
    const result = new Map<string, PackedNode>();
    const moved = new Map<string, Moved[]>();
    for (const body of found) {
      if (body.staged === null) moved.set(body.packId, [...(moved.get(body.packId) ?? []), body]);
      else {
        check(body.key, threadId, body.staged.data);
        result.set(body.key, body.staged);
      }
    }
    const rows = await packsOf(tenantId, [...moved.keys()]);
    const parts = await Promise.all(rows.map((pack) => fromPack(pack, moved.get(pack.address.packId) ?? [], threadId)));
    for (const [key, node] of parts.flat()) result.set(key, node);
    return result;
  }

  return async (tenantId, threadId, keys) => {
    const found = await findBodies(sql, tenantId, threadId, keys);
    const result = await read(found, tenantId, threadId).catch(async (error: unknown) => {
      // Moved or packed anew between the statement and the read: look once more.
      if (!isEngineError(error, "body_missing")) throw error;
      return read(await findBodies(sql, tenantId, threadId, keys), tenantId, threadId);
    });
    const lost = keys.find((key) => !result.has(key));
    if (lost !== undefined) throw missing(lost, threadId);
    return result;
  };
}

type Moved = Extract<FoundBody, { staged: null }>;

async function readObject(bodies: BodyStore, pack: Pack, key: string, threadId: string): Promise<PackedNode> {
  const data = Buffer.from(await bodies.read(pack.address.key));
  check(key, threadId, data);
  return { kind: pack.bodyKind ?? 2, data };
}

function check(key: string, threadId: string, data: Buffer): void {
  if (sha256(data).toString("base64url") === key) return;
  throw new EngineError("body_corrupt", `Body ${key} of thread ${threadId} doesn't match its hash: it is damaged`, {
    details: { body: key, thread_id: threadId },
  });
}

function missing(key: string, threadId: string, cause?: unknown): EngineError {
  return new EngineError("body_missing", `Body ${key} of thread ${threadId} is neither in Postgres nor in the store`, {
    cause,
    details: { body: key, thread_id: threadId },
  });
}
