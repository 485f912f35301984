// Under which id a thread of another application is adopted.
import { v5 as uuidv5 } from "uuid";
import { isUuid, type ThreadId } from "../../core/ids.js";

/** Fixed for good: people compute ids with it. */
export const ADOPTED_THREADS = "4a1c3a1e-7d0b-4f6f-9a53-0c6d5f4e2b71";

/** A UUID keeps its id, in lower case. Any other id becomes the UUIDv5 of it in `ADOPTED_THREADS`. */
export function adoptedThreadId(sourceThreadId: string): ThreadId {
  const id = isUuid(sourceThreadId) ? sourceThreadId.toLowerCase() : uuidv5(sourceThreadId, ADOPTED_THREADS);
  return id as ThreadId;
}
