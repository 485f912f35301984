// The savers that are compared on long threads, opened alike. Ours is the one a worker has: a lease, the fence, the group
// commit, and a mover for what is finished.
import { stat } from "node:fs/promises";
import path from "node:path";
import type { RunnableConfig } from "@langchain/core/runnables";
import { type BaseCheckpointSaver, MemorySaver } from "@langchain/langgraph";
import { BaseCheckpointSaver as Base, type Checkpoint } from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import pg from "pg";
import { createFsStore } from "../../../src/bodies/fs.js";
import { migrateDatabase } from "../../../src/cli/migrate.js";
import { DEFAULT_TENANT, type ThreadId } from "../../../src/core/ids.js";
import { openDb } from "../../../src/db/pool.js";
import { moveThread } from "../../../src/engine/move-thread.js";
import { createLog } from "../../../src/observe/log.js";
import { createTestSavers } from "../../helpers/savers.js";

export type SaverName = "no-op" | "MemorySaver" | "PostgresSaver sync" | "PostgresSaver async" | "perdure";

export type OpenedSaver = Readonly<{
  /** For the run of one thread. */
  saver(threadId: string): BaseCheckpointSaver;
  /** For reads, as a process has it that has just started. */
  coldSaver(): BaseCheckpointSaver;
  /** Returns the bytes of the objects in the store. */
  move(threadId: string): Promise<number>;
}>;

type Place = Readonly<{ saver: SaverName; url: string | null; bodies: string | null }>;

export async function openSaver({ saver, url, bodies }: Place): Promise<OpenedSaver> {
  if (saver === "no-op") return only(asLangGraph(new NoSaver()));
  if (saver === "MemorySaver") return only(new MemorySaver());
  if (url === null) throw new Error(`${saver} needs a database`);
  if (saver === "perdure") return openOurs(url, bodies ?? "");
  const postgres = new PostgresSaver(new pg.Pool({ connectionString: url, max: 12 }));
  await postgres.setup();
  return only(postgres);
}

// LangGraph's type fixes versions to numbers; its code compares whatever the saver makes.
const asLangGraph = (saver: Base<string>) => saver as unknown as BaseCheckpointSaver;
const nothingToMove = (): Promise<number> => Promise.reject(new Error("this saver has nothing to move"));
const only = (saver: BaseCheckpointSaver): OpenedSaver => ({
  saver: () => saver,
  coldSaver: () => saver,
  move: nothingToMove,
});

async function openOurs(url: string, folder: string): Promise<OpenedSaver> {
  const log = createLog("warn");
  await migrateDatabase(url, log);
  const db = openDb({ url, max: 10, log, applicationName: "perdure bench" });
  const store = createFsStore(folder);
  const savers = createTestSavers(db, store);
  return {
    saver: () => asLangGraph(savers.forAny()),
    coldSaver: () => asLangGraph(savers.forAny({ bodies: savers.newReader() })),
    async move(threadId) {
      await db.query(
        `update runs set status = 'success', head = false, lease_owner = null, lease_expires_at = null, finished_at = now()
        where thread_id = $1`,
        [threadId],
      );
      const key = { tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId };
      while ((await moveThread(savers.deps, key)).more);
      let bytes = 0;
      for await (const object of store.list(`${DEFAULT_TENANT}/${threadId}/`)) {
        bytes += (await stat(path.join(folder, object))).size;
      }
      return bytes;
    },
  };
}

/** Keeps nothing: what is left is LangGraph's own work. */
class NoSaver extends Base<string> {
  override getNextVersion(current: string | number | undefined): string {
    return String(Number(current ?? 0) + 1).padStart(10, "0");
  }
  override getTuple(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
  override async *list(): AsyncGenerator<never> {}
  override put(config: RunnableConfig, checkpoint: Checkpoint): Promise<RunnableConfig> {
    return Promise.resolve({ configurable: { ...config.configurable, checkpoint_id: checkpoint.id } });
  }
  override putWrites(): Promise<void> {
    return Promise.resolve();
  }
  override deleteThread(): Promise<void> {
    return Promise.resolve();
  }
}
