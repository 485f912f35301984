// What a run was asked, how it failed and what it streamed, from wherever that is now: Postgres, a pack, or some of it here
// and some there (a run that slept while it was moved, and went on).
import type { Deps } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import type { RunId, TenantId, ThreadId } from "../core/ids.js";
import { type BodyReader, createBodyReader } from "../checkpoint/body-reader.js";
import { referencesIn } from "../checkpoint/codec/format.js";
import { reviveJson } from "../checkpoint/kept-json.js";
import { packAddress } from "../checkpoint/move-queries.js";
import { corrupt } from "../checkpoint/pack.js";
import { createPackReader } from "../checkpoint/pack-reader.js";
import type { PackReader, RunRecord } from "../checkpoint/pack-types.js";
import { type ContentPlace, storedContent } from "../runs/content.js";

export type RunContent = Readonly<{
  /** The parsed request; null for runs that have none. */
  request: unknown;
  /** The parsed error; null when there was none. */
  error: unknown;
  /** In id order. */
  stream: readonly Readonly<{ id: number; event: string; data: unknown }>[];
  /** What effects returned, as far as it was moved. */
  effects: readonly Readonly<{ key: string; result: unknown }>[];
}>;

/** Enough for the blocks of one run at a time; who reads one run rarely reads it again. */
const CACHE_BYTES = 4 * 1024 * 1024;

/**
 * The content of a run; of its stream nothing with `stream: false`, which is cheaper, as a `bodyReader` is that has a cache.
 * Throws `not_found`, `expired`, or `body_missing` / `body_corrupt` when it was moved and can't be read.
 */
export async function loadRunContent(
  deps: Deps,
  tenantId: TenantId,
  runId: RunId,
  options: Readonly<{ stream?: boolean; bodyReader?: BodyReader }> = {},
): Promise<RunContent> {
  const wantsStream = options.stream ?? true;
  const here = await storedContent(deps.db, { tenantId, runId, stream: wantsStream });
  if (here === undefined) throw new EngineError("not_found", `Run ${runId} not found`);
  if (here.expiredAt !== null) throw contentExpired(runId, here.expiredAt);
  const parts: RunRecord[] = [];
  if (here.moved) {
    const { db: sql, bodies } = deps;
    const packs = createPackReader(bodies, { cacheBytes: CACHE_BYTES });
    const reader = options.bodyReader ?? createBodyReader({ sql, bodies, packs, cacheBytes: CACHE_BYTES });
    const thread = { tenantId, threadId: here.threadId };
    for await (const part of readRunRecord(deps, packs, tenantId, runId, here.moved)) {
      parts.push(await whole(reader, thread, wantsStream ? part : { ...part, stream: [] }));
      if (!wantsStream) break;
    }
  }
  const lines = here.streamRows.flatMap((row) => row.split("\n"));
  return {
    request: here.request ? parse(here.request) : (parts[0]?.request ?? null),
    error: here.error ? parse(here.error) : (parts[0]?.error ?? null),
    effects: parts.flatMap((part) => part.effects ?? []),
    stream: wantsStream
      ? [
          ...parts.flatMap((part) => part.stream),
          ...lines.map((line) => JSON.parse(line) as RunContent["stream"][number]),
        ]
      : [],
  };
}

function contentExpired(runId: RunId, expiredAt: Date): EngineError {
  const since = expiredAt.toISOString();
  return new EngineError(
    "expired",
    `What run ${runId} was asked and answered is no longer kept: it expired at ${since}`,
    {
      details: { run_id: runId, expired_at: since },
    },
  );
}

/** The part with all that it names. Uses up what it is given: no block of these packs is read twice. */
async function whole(
  bodies: BodyReader,
  { tenantId, threadId }: Readonly<{ tenantId: TenantId; threadId: ThreadId }>,
  part: RunRecord,
): Promise<RunRecord> {
  if (part.f !== 1) return part;
  const { request, error, stream, effects = [] } = part;
  const values = [request, error, stream.map(({ data }) => data), effects.map(({ result }) => result)];
  const keys = referencesIn(JSON.stringify(values));
  const loaded = await bodies.load(tenantId, threadId, keys);
  return {
    ...part,
    request: reviveJson(request, loaded),
    error: reviveJson(error, loaded),
    stream: stream.map(({ id, event, data }) => ({ id, event, data: reviveJson(data, loaded) })),
    effects: effects.map(({ key, result }) => ({ key, result: reviveJson(result, loaded) })),
  };
}

/** A moved run's record, part by part, as it is kept: a stream that is too long for one record goes on in the next block. */
export async function* readRunRecord(
  deps: Deps,
  packs: PackReader,
  tenantId: TenantId,
  runId: RunId,
  place: ContentPlace,
): AsyncGenerator<RunRecord> {
  const pack = await packAddress(deps.db, tenantId, place.packId);
  if (pack === undefined) {
    throw new EngineError("body_missing", `The pack ${place.packId} of run ${runId} is not known any more`);
  }
  for (let block = place.block, more = true; more; block++) {
    const record = (await packs.readBlocks(pack, [block])).get(block)?.runs.get(runId);
    if (record === undefined) throw corrupt(pack.key, `block ${block}: the record of run ${runId} is not in it, which`);
    yield record;
    more = record.more ?? false;
  }
}

function parse(bytes: Buffer): unknown {
  return JSON.parse(bytes.toString("utf8")) as unknown;
}
