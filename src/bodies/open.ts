// Chooses the object store by its URI.
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { BodyStore } from "../core/deps.js";
import { EngineError } from "../core/errors.js";
import { createFsStore } from "./fs.js";
import { createMemoryStore } from "./memory.js";
import { createS3Store, type S3Options } from "./s3.js";

export type BodyStoreOptions = Readonly<{ s3?: S3Options }>;

const S3_URI = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/;
const PREFIX_SEGMENT = /^[A-Za-z0-9_-][A-Za-z0-9._=-]*$/;

/**
 * Opens a store without touching it; `probe()` asks whether it works.
 *
 *     const bodies = openBodyStore("s3://bucket/prefix", { s3: { forcePathStyle: true } });
 */
export function openBodyStore(uri: string, options: BodyStoreOptions = {}): BodyStore {
  if (uri === "memory:") return createMemoryStore();
  if (uri.startsWith("file:")) return createFsStore(folderOf(uri));
  if (uri.startsWith("s3:")) return createS3Store(bucketOf(uri), options.s3 ?? {});
  throw new EngineError(
    "config_invalid",
    "the bodies URI must be s3://bucket/prefix, file:///absolute/path or memory: (PERDURE_BODIES)",
  );
}

function folderOf(uri: string): string {
  try {
    const folder = fileURLToPath(uri);
    if (uri.startsWith("file:///") && folder !== path.parse(folder).root) return path.resolve(folder);
  } catch {
    // Said below: whatever is wrong with it, the right form is the answer.
  }
  throw new EngineError("config_invalid", "a bodies folder is written file:///absolute/path (PERDURE_BODIES)");
}

/** Never repeats the URI: a wrong one may hold a password. */
function bucketOf(uri: string): Readonly<{ bucket: string; prefix: string }> {
  const [, bucket, rest = ""] = S3_URI.exec(uri) ?? [];
  const prefix = rest.replace(/\/+$/, "");
  const wellFormed = prefix === "" || prefix.split("/").every((segment) => PREFIX_SEGMENT.test(segment));
  if (bucket !== undefined && wellFormed) return { bucket, prefix };
  throw new EngineError(
    "config_invalid",
    "a bodies bucket is written s3://bucket or s3://bucket/prefix, with plain names and without credentials (PERDURE_BODIES)",
  );
}
