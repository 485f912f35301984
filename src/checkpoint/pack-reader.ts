// Reads blocks of packs: by range, checked against the hash in the pack's row, cached by bytes; readers that want the
// same block at the same time share one read.
import { LRUCache } from "lru-cache";
import type { BodyStore } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { corrupt, decodeBlock, sha256 } from "./pack.js";
import type { PackAddress, PackBlock, PackReader } from "./pack-types.js";

export type PackReaderOptions = Readonly<{
  /** How many bytes of decoded blocks to keep, about. */
  cacheBytes?: number;
}>;

const CACHE_BYTES = 64 * 1024 * 1024;
const BLOCKS_PER_READ = 64;
const READS_AT_ONCE = 8;
/** A decoded block takes about twice its text: strings and buffers beside each other. */
const BYTES_PER_CHAR = 2;

/**
 * A reader for one process, over all its packs.
 *
 *     const packs = createPackReader(bodies, { cacheBytes: 64 << 20 });
 */
export function createPackReader(bodies: BodyStore, options: PackReaderOptions = {}): PackReader {
  const cache = new LRUCache<string, PackBlock>({ maxSize: options.cacheBytes ?? CACHE_BYTES });
  const reading = new Map<string, Promise<PackBlock>>();
  const inTurn = limiter(READS_AT_ONCE);
  const nameOf = (pack: PackAddress, block: number) => `${pack.packId}/${block}`;

  /** Starts one range read for neighbouring blocks; each is in `reading` until its end. */
  const start = (pack: PackAddress, blocks: readonly number[]): void => {
    const range = inTurn(() => readRange(bodies, pack, blocks));
    blocks.forEach((block, i) => {
      const name = nameOf(pack, block);
      const one = range
        .then((members) => decode(pack, block, members[i] ?? new Uint8Array()))
        .then(({ block: decoded, size }) => {
          cache.set(name, decoded, { size: Math.max(1, size * BYTES_PER_CHAR) });
          return decoded;
        })
        .finally(() => reading.delete(name));
      reading.set(name, one);
    });
  };

  return {
    async readBlocks(pack, blocks) {
      const wanted = [...new Set(blocks)].sort((a, b) => a - b);
      const found = new Map(wanted.map((block) => [block, cache.get(nameOf(pack, block))]));
      const missing = wanted.filter((block) => found.get(block) === undefined && !reading.has(nameOf(pack, block)));
      for (const range of neighbours(missing)) start(pack, range);
      const read = wanted.map(async (block): Promise<[number, PackBlock]> => {
        const value = found.get(block) ?? (await reading.get(nameOf(pack, block)));
        if (value === undefined)
          throw new EngineError("internal", `block ${block} of pack ${pack.packId} was not read`);
        return [block, value];
      });
      return new Map(await Promise.all(read));
    },
  };
}

/** Lets so many run at once; the others wait for their turn. */
function limiter(atOnce: number) {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running === atOnce) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running--;
    }
  };
}

/** The members' bytes, in the order of `blocks`, which follow each other. */
async function readRange(bodies: BodyStore, pack: PackAddress, blocks: readonly number[]): Promise<Uint8Array[]> {
  const start = offset(pack, blocks[0] ?? 0);
  const end = offset(pack, (blocks.at(-1) ?? 0) + 1);
  const bytes = await bodies.read(pack.key, { start, end });
  return blocks.map((block) => bytes.subarray(offset(pack, block) - start, offset(pack, block + 1) - start));
}

function offset(pack: PackAddress, index: number): number {
  const at = pack.offsets[index];
  if (at === undefined) throw new EngineError("internal", `pack ${pack.packId} has no block that begins at ${index}`);
  return at;
}

async function decode(pack: PackAddress, block: number, bytes: Uint8Array) {
  const hash = pack.hashes[block];
  if (hash === undefined || !sha256(bytes).equals(hash)) throw corrupt(pack.key, `block ${block}`);
  return decodeBlock(pack.key, bytes);
}

/** Ascending numbers, cut where they don't follow each other or would make one read too large. */
function neighbours(blocks: readonly number[]): number[][] {
  const ranges: number[][] = [];
  for (const block of blocks) {
    const last = ranges.at(-1);
    if (last && last.at(-1) === block - 1 && last.length < BLOCKS_PER_READ) last.push(block);
    else ranges.push([block]);
  }
  return ranges;
}
