// A thread's objects all lie under one prefix, so that a thread is erased without knowing what it has.
import type { BodyStore } from "../core/deps.js";
import type { TenantId, ThreadId } from "../core/ids.js";

type Thread = Readonly<{ tenantId: TenantId; threadId: ThreadId }>;

const BATCH = 1_000;

/** What the keys of all objects of a thread start with; the name of a pack in it is a ULID, so they sort by age. */
export function threadPrefix({ tenantId, threadId }: Thread): string {
  return `${tenantId}/${threadId}/`;
}

/** Deletes every object of a thread; returns how many there were. */
export async function eraseThreadObjects(bodies: BodyStore, thread: Thread): Promise<number> {
  let erased = 0;
  let batch: string[] = [];
  const flush = async () => {
    await bodies.delete(batch);
    erased += batch.length;
    batch = [];
  };
  for await (const key of bodies.list(threadPrefix(thread))) {
    batch.push(key);
    if (batch.length === BATCH) await flush();
  }
  if (batch.length > 0) await flush();
  return erased;
}
