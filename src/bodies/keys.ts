// What a key may look like: a relative path of plain segments, so that no key leaves its store's folder or prefix.
import { EngineError } from "../core/errors.js";
import type { TenantId, ThreadId } from "../core/ids.js";

const SEGMENT = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$/;
const MAX_KEY_LENGTH = 700;

/** Returns the key, or throws when it could mean a place outside of the store. */
export function checkKey(key: string): string {
  if (key.length > MAX_KEY_LENGTH || !key.split("/").every((segment) => SEGMENT.test(segment))) {
    throw new EngineError("internal", `${JSON.stringify(key.slice(0, 80))} can't be the key of a body`);
  }
  return key;
}

/** As `checkKey` for the beginning of keys: may be empty, may end with a slash or inside a segment. */
export function checkKeyPrefix(prefix: string): string {
  if (prefix !== "") checkKey(prefix.endsWith("/") ? prefix.slice(0, -1) : prefix);
  return prefix;
}

/** A byte range [start, end) holds at least one byte. */
export function checkRange(range: Readonly<{ start: number; end: number }>): void {
  if (
    Number.isSafeInteger(range.start) &&
    Number.isSafeInteger(range.end) &&
    range.start >= 0 &&
    range.end > range.start
  )
    return;
  throw new EngineError("internal", `[${range.start}, ${range.end}) is no byte range`);
}

export function bodyMissing(storeUri: string, key: string): EngineError {
  return new EngineError("body_missing", `${storeUri}/${key} is not in the object store`, { details: { key } });
}

/** What the keys of all objects of a thread start with; the name of a pack in it is a ULID, so they sort by age. */
export function threadPrefix({ tenantId, threadId }: Readonly<{ tenantId: TenantId; threadId: ThreadId }>): string {
  return `${tenantId}/${threadId}/`;
}
