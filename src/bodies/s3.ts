// Bodies in a bucket of any S3-compatible server. Create-once is a single PUT with If-None-Match: *; nothing larger than
// a buffer is sent, since streams and multipart uploads are where servers differ (and multipart ignores the condition).
import {
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { setTimeout as sleep } from "node:timers/promises";
import type { BodyStore } from "../core/deps.js";
import { EngineError, isEngineError } from "../core/errors.js";
import { backoffMs } from "../core/retry.js";
import { bodyMissing, checkKey, checkKeyPrefix, checkRange } from "./keys.js";
import { probeStore } from "./probe.js";
import { factsOf, isAmbiguous, isRetryable, noRegion, toEngineError } from "./s3-errors.js";

export type S3Options = Readonly<{
  /** Buckets in the path instead of the host name: MinIO, Ceph and most servers of one's own want it. */
  forcePathStyle?: boolean;
  /** Send a checksum with every request that may have one: some buckets (object lock) demand it, some servers refuse it. */
  checksums?: boolean;
  /** Else the AWS SDK's own sources: AWS_ENDPOINT_URL_S3, AWS_REGION, AWS_ACCESS_KEY_ID …, profiles, instance roles. */
  endpoint?: string;
  region?: string;
  credentials?: Readonly<{ accessKeyId: string; secretAccessKey: string; sessionToken?: string }>;
  /** How often one request is tried, the first time included. */
  attempts?: number;
  /** A connection on which nothing went either way for so long has failed. However slow a transfer is, it may take ten times that. */
  timeoutMs?: number;
  /** Pauses between tries, and chance in [0, 1) for their jitter. */
  sleep?: (ms: number) => Promise<unknown>;
  random?: () => number;
}>;

type Place = Readonly<{ bucket: string; prefix: string }>;

/** A store that answers after a minute is slow, not away. */
const SILENCE_MS = 75_000;
const DELETE_BATCH = 1_000;
const DELETE_SINGLY = 16;

/** A store under `s3://bucket/prefix`. */
export function createS3Store(place: Place, options: S3Options): BodyStore {
  const { bucket: Bucket, prefix } = place;
  const uri = prefix === "" ? `s3://${Bucket}` : `s3://${Bucket}/${prefix}`;
  const root = prefix === "" ? "" : `${prefix}/`;
  const client = createClient(options);
  const call = retrying(uri, options, () => client.config.region());
  let batchDeletes = true;

  const read = (key: string, range?: Readonly<{ start: number; end: number }>) =>
    call(`read ${key}`, async () => {
      try {
        const Range = range && `bytes=${range.start}-${range.end - 1}`;
        const answer = await client.send(new GetObjectCommand({ Bucket, Key: root + key, ...(Range && { Range }) }));
        // A connection cut in the middle of the body is a failed try as well, hence inside of the retried part.
        return (await answer.Body?.transformToByteArray()) ?? new Uint8Array();
      } catch (error) {
        const { status, code } = factsOf(error);
        if (status === 416) return new Uint8Array();
        if (code === "NoSuchKey") throw bodyMissing(uri, key);
        throw error;
      }
    });

  const create = (key: string, bytes: Uint8Array) => {
    let ambiguous = false;
    return call(`create ${key}`, async () => {
      try {
        await client.send(new PutObjectCommand({ Bucket, Key: root + key, Body: bytes, IfNoneMatch: "*" }));
        return true;
      } catch (error) {
        if (factsOf(error).status !== 412) {
          ambiguous ||= isAmbiguous(error);
          throw error;
        }
        // The answer to an earlier try may have been lost: then the object that is in the way is ours.
        return ambiguous && Buffer.from(bytes).equals(await read(key));
      }
    });
  };

  const deleteBatch = async (keys: readonly string[]): Promise<void> => {
    const Objects = keys.map((key) => ({ Key: root + key }));
    const { Errors = [] } = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects, Quiet: true } }));
    const failed = Errors.find((error) => error.Code !== "NoSuchKey");
    if (failed) throw Object.assign(new Error("not deleted"), { name: failed.Code ?? "InternalError" });
  };
  const deleteOne = (key: string) =>
    call(`delete ${key}`, async () => {
      await client.send(new DeleteObjectCommand({ Bucket, Key: root + key }));
    });
  const deleteKeys = async (keys: readonly string[]): Promise<void> => {
    if (batchDeletes && keys.length > 1) {
      try {
        return await call(`delete ${keys.length} objects`, () => deleteBatch(keys));
      } catch (error) {
        // Servers that have no batch, or want another checksum with it than this SDK sends.
        if (!isEngineError(error, "config_invalid") || ![400, 411, 501].includes(Number(error.details["status"])))
          throw error;
        batchDeletes = false;
      }
    }
    for (const some of slices(keys, DELETE_SINGLY)) await Promise.all(some.map(deleteOne));
  };

  const store: BodyStore = {
    uri,
    create: (key, bytes) => create(checkKey(key), bytes),
    read: (key, range) => {
      if (range) checkRange(range);
      return read(checkKey(key), range);
    },
    async delete(keys) {
      for (const some of slices(keys.map(checkKey), DELETE_BATCH)) await deleteKeys(some);
    },
    async *list(keyPrefix) {
      const Prefix = root + checkKeyPrefix(keyPrefix);
      for (let next: string | undefined, more = true; more; more = next !== undefined) {
        const token = next;
        const page = await call(`list ${keyPrefix}`, () =>
          client.send(new ListObjectsV2Command({ Bucket, Prefix, ...(token && { ContinuationToken: token }) })),
        );
        for (const { Key } of page.Contents ?? []) if (Key !== undefined) yield Key.slice(root.length);
        next = page.IsTruncated ? page.NextContinuationToken : undefined;
      }
    },
    async probe() {
      await probe(store, place, options);
      if (batchDeletes) return [];
      return ["the endpoint refuses to delete in batches: objects are deleted one by one"];
    },
    async close() {
      client.destroy();
    },
  };
  return store;
}

function createClient(options: S3Options): S3Client {
  const timeoutMs = options.timeoutMs ?? SILENCE_MS;
  return new S3Client({
    ...(options.endpoint !== undefined && { endpoint: options.endpoint }),
    ...(options.region !== undefined && { region: options.region }),
    ...(options.credentials !== undefined && { credentials: options.credentials }),
    forcePathStyle: options.forcePathStyle ?? false,
    // The SDK's newer default checksums are refused by many servers; perdure keeps its own sha256.
    requestChecksumCalculation: options.checksums === true ? "WHEN_SUPPORTED" : "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    // Tries are counted here only: the SDK doesn't try again when a body breaks off.
    maxAttempts: 1,
    requestHandler: {
      connectionTimeout: Math.min(5_000, timeoutMs),
      socketTimeout: timeoutMs,
      // Counts the upload too, which a large body on a narrow line needs time for.
      requestTimeout: 10 * timeoutMs,
      throwOnRequestTimeout: true,
    },
  });
}

/** Runs a request until it works, fails for good or was tried often enough; throws an EngineError. */
function retrying(uri: string, options: S3Options, region: () => Promise<string>) {
  const attempts = options.attempts ?? 5;
  const random = options.random ?? Math.random;
  const pause = options.sleep ?? sleep;
  return async <T>(what: string, request: () => Promise<T>): Promise<T> => {
    await region().catch(() => {
      throw noRegion(uri);
    });
    for (let n = 1; ; n++) {
      try {
        return await request();
      } catch (error) {
        if (error instanceof EngineError) throw error;
        if (!isRetryable(error) || n >= attempts) throw toEngineError(error, uri, what);
        await pause(backoffMs(n, random()));
      }
    }
  };
}

type Variant = Readonly<{ change: Partial<S3Options>; says: string }>;

/** Asks the store; when it fails for good, asks which other settings work, and names them. */
async function probe(store: BodyStore, place: Place, options: S3Options): Promise<void> {
  try {
    await probeStore(store);
  } catch (error) {
    // A server that is away for the moment is away with other settings too; one that has no such host may not be.
    if (isEngineError(error, "unavailable") && typeof error.details["status"] === "number") throw error;
    for (const { change, says } of variants(options)) {
      if (!(await works(place, { ...options, ...change, attempts: 1 }))) continue;
      const message = `${store.uri}: this endpoint needs ${says}; with it the probe succeeds`;
      throw new EngineError("config_invalid", message, { cause: error });
    }
    throw error;
  }
}

function variants({ forcePathStyle = false, checksums = false }: S3Options): readonly Variant[] {
  const path = { change: { forcePathStyle: !forcePathStyle }, says: `PERDURE_S3_FORCE_PATH_STYLE=${!forcePathStyle}` };
  const sums = { change: { checksums: !checksums }, says: `PERDURE_S3_CHECKSUMS=${!checksums}` };
  return [path, sums, { change: { ...path.change, ...sums.change }, says: `${path.says} and ${sums.says}` }];
}

async function works(place: Place, options: S3Options): Promise<boolean> {
  const store = createS3Store(place, options);
  const answer = probeStore(store).then(
    () => true,
    () => false,
  );
  return answer.finally(() => store.close());
}

function* slices<T>(items: readonly T[], size: number): Iterable<readonly T[]> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size);
}
