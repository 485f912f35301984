// LangGraph's conformance suites, both of them, through the real commit statement on Postgres, also with everything moved.
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type CheckpointListOptions,
  type CheckpointTuple,
  uuid5,
} from "@langchain/langgraph-checkpoint";
import { deltaChannelHistoryTests, validate } from "@langchain/langgraph-checkpoint-validation";
import { expect } from "vitest";
import { createMemoryStore } from "../../src/bodies/memory.js";
import { createSaver, type Saver } from "../../src/checkpoint/saver.js";
import type { Db } from "../../src/core/deps.js";
import { DEFAULT_TENANT, isUuid, type ThreadId } from "../../src/core/ids.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { rowsOf } from "../helpers/moved.js";
import { createTestSavers, TINY } from "../helpers/savers.js";
import { size } from "../helpers/soak.js";

const databases = new Map<BaseCheckpointSaver, TestDatabase>();

/** Both suites over a saver of a new database. */
function conforms(checkpointerName: string, saverOf: (db: Db) => AnySaver): void {
  const initializer = {
    checkpointerName,
    beforeAllTimeout: 60_000,
    async createCheckpointer() {
      const database = await createTestDatabase();
      const saver = new AnyThreadId(saverOf(database.db)) as unknown as BaseCheckpointSaver;
      databases.set(saver, database);
      return saver;
    },
    async destroyCheckpointer(saver: BaseCheckpointSaver) {
      await databases.get(saver)?.close();
      databases.delete(saver);
    },
  };
  validate(initializer);
  deltaChannelHistoryTests(initializer);
}

conforms("perdure", (db) => createTestSavers(db).forAny());
if (size(0, 1) === 1) conforms("perdure with trees of two, and everything moved after each put", everythingMoved);

type AnySaver = Pick<
  Saver,
  "getNextVersion" | "getTuple" | "list" | "put" | "putWrites" | "deleteThread" | "getDeltaChannelHistory"
>;

/** Each write is a run of its own, and afterwards Postgres holds no body, value or write of it; nothing is cached. */
function everythingMoved(db: Db): AnySaver {
  const savers = createTestSavers(db, createMemoryStore(), { shape: TINY, largeBytes: 60 });
  const reader = () =>
    createSaver({ sql: db, tenantId: DEFAULT_TENANT, bodies: savers.newReader(), commit: null, shape: TINY });
  const inRun = async <T>(config: RunnableConfig, write: (saver: Saver) => Promise<T>): Promise<T> => {
    const threadId = config.configurable?.["thread_id"] as ThreadId;
    const saver = savers.forLease(await savers.lease(threadId), { large: true, bodies: savers.newReader() });
    const written = await write(saver);
    await savers.settle(threadId);
    await moveThread(savers.deps, { tenantId: DEFAULT_TENANT, threadId });
    const { staged, versions, writes } = await rowsOf(savers.deps, { tenantId: DEFAULT_TENANT, threadId });
    expect([staged, versions, writes]).toEqual([0, 0, 0]);
    return written;
  };
  return {
    getNextVersion: (current) => reader().getNextVersion(current),
    getTuple: (config) => reader().getTuple(config),
    list: (config, options) => reader().list(config, options),
    getDeltaChannelHistory: (options) => reader().getDeltaChannelHistory(options),
    put: (config, ...rest) => inRun(config, (saver) => saver.put(config, ...rest)),
    putWrites: (config, ...rest) => inRun(config, (saver) => saver.putWrites(config, ...rest)),
    deleteThread: (threadId) =>
      inRun({ configurable: { thread_id: threadId } }, (saver) => saver.deleteThread(threadId)),
  };
}

/** The suites call threads "1" and "thread-1"; ours are UUIDs, and anything else is no thread. */
class AnyThreadId extends BaseCheckpointSaver<string> {
  private readonly names = new Map<string, string>();

  constructor(private readonly inner: AnySaver) {
    super();
  }

  override getNextVersion(current: string | undefined): string {
    return this.inner.getNextVersion(current);
  }
  override async getTuple(config: RunnableConfig) {
    return this.fromOurs(await this.inner.getTuple(this.toOurs(config)));
  }
  override async *list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    for await (const tuple of this.inner.list(this.toOurs(config), options)) yield this.fromOurs(tuple)!;
  }
  override async put(config: RunnableConfig, ...rest: [never, never, never]) {
    return this.fromConfig(await this.inner.put(this.toOurs(config), ...rest));
  }
  override async putWrites(config: RunnableConfig, ...rest: [never, never, never]) {
    await this.inner.putWrites(this.toOurs(config), ...rest);
  }
  override async deleteThread(threadId: string) {
    await this.inner.deleteThread(this.ourId(threadId));
  }
  override async getDeltaChannelHistory(options: { config: RunnableConfig; channels: string[] }) {
    return this.inner.getDeltaChannelHistory({ ...options, config: this.toOurs(options.config) });
  }

  private ourId(threadId: string): string {
    if (isUuid(threadId)) return threadId;
    const id = uuid5(threadId, "6ba7b810-9dad-11d1-80b4-00c04fd430c8");
    this.names.set(id, threadId);
    return id;
  }
  private toOurs(config: RunnableConfig): RunnableConfig {
    const threadId: unknown = config.configurable?.["thread_id"];
    if (typeof threadId !== "string") return config;
    return { ...config, configurable: { ...config.configurable, thread_id: this.ourId(threadId) } };
  }
  private fromConfig(config: RunnableConfig): RunnableConfig {
    const threadId = config.configurable?.["thread_id"] as string;
    return { ...config, configurable: { ...config.configurable, thread_id: this.names.get(threadId) ?? threadId } };
  }
  private fromOurs(tuple: CheckpointTuple | undefined): CheckpointTuple | undefined {
    if (tuple === undefined) return undefined;
    const { parentConfig } = tuple;
    return {
      ...tuple,
      config: this.fromConfig(tuple.config),
      ...(parentConfig === undefined ? {} : { parentConfig: this.fromConfig(parentConfig) }),
    };
  }
}
