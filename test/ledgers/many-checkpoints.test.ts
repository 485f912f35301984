// Reading any of many checkpoints costs a bounded number of statements, rows and store reads, moved or not.
import { randomUUID } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { v6 as uuidv6 } from "uuid";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createMemoryStore } from "../../src/bodies/memory.js";
import { createBodyReader } from "../../src/checkpoint/body-reader.js";
import { createPackReader } from "../../src/checkpoint/pack-reader.js";
import { createSaver } from "../../src/checkpoint/saver.js";
import type { Db } from "../../src/core/deps.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { createTestSavers } from "../helpers/savers.js";
import { size, SOAK_MS } from "../helpers/soak.js";

const CHECKPOINTS = size(1_000, 10_000);
const LOG = 20;
/** The checkpoint, the pack it is in, then each level of the list's tree: a small pack is read at once, a large one level by level. */
const STATEMENTS = 2 + 4;
const READS = 12;

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.close());

/** What a cold reader asked for. */
function counted(db: Db, store: ReturnType<typeof createMemoryStore>) {
  const asked = { statements: 0, rows: 0, reads: 0 };
  const sql: Pick<Db, "query"> = {
    async query(text, values) {
      const result = await db.query(text, values);
      asked.statements += 1;
      asked.rows += result.rowCount;
      return result as never;
    },
  };
  const bodies = {
    ...store,
    read: (...args: Parameters<typeof store.read>) => ((asked.reads += 1), store.read(...args)),
  };
  const packs = createPackReader(bodies);
  const reader = createBodyReader({ sql, bodies, packs, cacheBytes: 1 << 26 });
  return { asked, saver: createSaver({ sql, tenantId: DEFAULT_TENANT, bodies: reader, commit: null }) };
}

test(
  `reading any of ${CHECKPOINTS} checkpoints is as cheap as reading the first`,
  async () => {
    const store = createMemoryStore();
    const savers = createTestSavers(database.db, store);
    const threadId = randomUUID() as ThreadId;
    const saver = savers.forLease(await savers.lease(threadId));
    const configs: RunnableConfig[] = [];
    const puts: Promise<unknown>[] = [];
    let log: string[] = [];
    let version: string | undefined;
    for (let n = 0; n < CHECKPOINTS; n += 1) {
      // A window over a long history, as agents keep it.
      log = [...log, `line ${n} `.padEnd(100, ".")].slice(-LOG);
      version = saver.getNextVersion(version);
      const id = uuidv6({ msecs: 1_000_000 + n });
      const parent = configs.at(-1) ?? { configurable: { thread_id: threadId } };
      const checkpoint = { ...emptyCheckpoint(), id, channel_values: { log }, channel_versions: { log: version } };
      puts.push(saver.put(parent, checkpoint, { source: "loop", step: n, parents: {} }, { log: version }));
      configs.push({ configurable: { thread_id: threadId, checkpoint_ns: "", checkpoint_id: id } });
      if (puts.length === 500) await Promise.all(puts.splice(0));
    }
    await Promise.all(puts);

    const measure = async () => {
      for (const n of [LOG, Math.floor(CHECKPOINTS / 2), CHECKPOINTS - 1]) {
        const { asked, saver: cold } = counted(database.db, store);
        const tuple = await cold.getTuple(configs[n]!);
        expect((tuple?.checkpoint.channel_values["log"] as string[]).at(-1)).toMatch(new RegExp(`^line ${n} `));
        expect(asked.statements).toBeLessThanOrEqual(STATEMENTS);
        expect(asked.rows).toBeLessThan(2 * LOG + 10);
        expect(asked.reads).toBeLessThanOrEqual(READS);
      }
      const { asked, saver: cold } = counted(database.db, store);
      const page: unknown[] = [];
      for await (const tuple of cold.list(
        { configurable: { thread_id: threadId } },
        { before: configs[CHECKPOINTS / 2]!, limit: 10 },
      ))
        page.push(tuple);
      expect(page).toHaveLength(10);
      expect(asked.statements).toBeLessThanOrEqual(STATEMENTS);
      expect(asked.rows).toBeLessThan(10 * (2 * LOG + 10));
    };
    await measure();
    await savers.settle(threadId);
    while ((await moveThread(savers.deps, { tenantId: DEFAULT_TENANT, threadId })).more);
    await measure();
  },
  SOAK_MS,
);
