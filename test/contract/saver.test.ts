// LangGraph's conformance suites, both of them, through the real commit statement on Postgres.
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type CheckpointListOptions,
  type CheckpointTuple,
  uuid5,
} from "@langchain/langgraph-checkpoint";
import { deltaChannelHistoryTests, validate } from "@langchain/langgraph-checkpoint-validation";
import type { Saver } from "../../src/checkpoint/saver.js";
import { isUuid } from "../../src/core/ids.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { createTestSavers } from "../helpers/savers.js";

const databases = new Map<BaseCheckpointSaver, TestDatabase>();

const initializer = {
  checkpointerName: "perdure",
  beforeAllTimeout: 60_000,
  async createCheckpointer() {
    const database = await createTestDatabase();
    const saver = new AnyThreadId(createTestSavers(database.db).forAny()) as unknown as BaseCheckpointSaver;
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

/** The suites call threads "1" and "thread-1"; ours are UUIDs, and anything else is no thread. */
class AnyThreadId extends BaseCheckpointSaver<string> {
  private readonly names = new Map<string, string>();

  constructor(private readonly inner: Saver) {
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
