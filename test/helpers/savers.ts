// Savers on a real database, through the real group commit: each thread gets one running run the first time it is used.
import { randomUUID } from "node:crypto";
import { createMemoryStore } from "../../src/bodies/memory.js";
import { type BodyReader, createBodyReader } from "../../src/checkpoint/body-reader.js";
import { type Shape, SHAPE } from "../../src/checkpoint/codec/format.js";
import type { Commit } from "../../src/checkpoint/ops.js";
import { createPackReader } from "../../src/checkpoint/pack-reader.js";
import { createSaver, type Saver } from "../../src/checkpoint/saver.js";
import type { Lease } from "../../src/core/clock.js";
import type { BodyStore, Db, Deps } from "../../src/core/deps.js";
import { DEFAULT_TENANT, type RunId, type ThreadId } from "../../src/core/ids.js";
import { createCombiner } from "../../src/engine/commit.js";
import { rowDeps } from "./thread-rows.js";

export type TestSavers = Readonly<{
  deps: Deps;
  /** Everything that is read goes through it: a new one has an empty cache. */
  newReader(): BodyReader;
  /** A lease on a run of this thread; taking it again makes the next attempt and fences the former. */
  lease(threadId: string): Promise<Lease>;
  /** A saver as the executor makes it. */
  forLease(lease: Lease, options?: Readonly<{ bodies?: BodyReader; large?: boolean }>): Saver;
  /** Ends the thread's run, so that everything of it may be moved. */
  settle(threadId: string): Promise<void>;
  /** A saver for any thread: leases are taken when they are needed. */
  forAny(options?: Readonly<{ bodies?: BodyReader }>): Saver;
}>;

/** Much more becomes a node, and trees are deep. */
export const TINY: Shape = {
  leafChars: 50,
  leafBytes: 20,
  nodeChars: 100,
  arrayChars: 100,
  treeItems: 2,
  inlineBytes: 10,
  referenceWeight: 10,
  groupWeight: 30,
  fanout: 2,
};

export type SaverSettings = Readonly<{ shape?: Shape; largeBytes?: number }>;

export function createTestSavers(
  db: Db,
  store: BodyStore = createMemoryStore(),
  { shape = SHAPE, largeBytes = 1_048_576 }: SaverSettings = {},
): TestSavers {
  const deps = rowDeps(db, store);
  const owner = `test ${randomUUID()}`;
  const combiner = createCombiner(deps, owner);
  const runs = new Map<string, RunId>();
  const newReader = () =>
    createBodyReader({
      sql: db,
      bodies: store,
      packs: createPackReader(store, { cacheBytes: 8 << 20 }),
      cacheBytes: 64 << 20,
    });
  const reader = newReader();

  const lease = async (threadId: string): Promise<Lease> => {
    const runId = runs.get(threadId) ?? (randomUUID() as RunId);
    runs.set(threadId, runId);
    const { rows } = await db.query<{ attempt: number }>(
      `with thread as (
        insert into threads (tenant_id, thread_id) values ($1, $2) on conflict do nothing
      )
      insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, status, head, attempt, lease_owner,
        lease_expires_at)
      values ($1, $3, $2, gen_random_uuid(), 'test', 'running', true, 1, $4, now() + interval '1 hour')
      on conflict (tenant_id, run_id) do update
      set attempt = runs.attempt + 1, commit_no = 0, status = 'running', head = true, lease_owner = $4,
        lease_expires_at = now() + interval '1 hour', finished_at = null
      returning attempt`,
      [DEFAULT_TENANT, threadId, runId, owner],
    );
    const attempt = rows[0]?.attempt ?? 0;
    return { tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId, runId, attempt, owner };
  };

  const forever = new AbortController().signal;
  return {
    deps,
    newReader,
    lease,
    forLease(held, { bodies = reader, large = false } = {}) {
      const { tenantId, runId, attempt, threadId } = held;
      return createSaver({
        ...{ sql: db, tenantId, runId, attempt, bodies, shape },
        commit: combiner.forLease(held, forever),
        ...(large ? { largeBodies: { deps, threadId, fromBytes: largeBytes } } : {}),
      });
    },
    async settle(threadId) {
      await db.query(
        `update runs set status = 'success', head = false, lease_owner = null, lease_expires_at = null, finished_at = now()
        where thread_id = $1 and status = 'running'`,
        [threadId],
      );
    },
    forAny({ bodies = reader } = {}) {
      const commits = new Map<string, Promise<Commit>>();
      const commit: Commit = async (op) => {
        const known = commits.get(op.threadId) ?? lease(op.threadId).then((held) => combiner.forLease(held, forever));
        commits.set(op.threadId, known);
        await (await known)(op);
      };
      return createSaver({ sql: db, tenantId: DEFAULT_TENANT, bodies, commit, shape });
    },
  };
}
