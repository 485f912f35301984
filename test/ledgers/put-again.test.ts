// A checkpoint that comes again after it was moved, and writes that come to it: nothing in its record is lost.
import { randomUUID } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  type Checkpoint,
  type CheckpointTuple,
  emptyCheckpoint,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Saver } from "../../src/checkpoint/saver.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { pruneThread } from "../../src/engine/commands/prune-thread.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { repackThread } from "../../src/engine/repack-thread.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { createTestSavers, type TestSavers } from "../helpers/savers.js";

let database: TestDatabase;
let savers: TestSavers;
beforeAll(async () => {
  database = await createTestDatabase();
  savers = createTestSavers(database.db);
});
afterAll(() => database.close());

let key: Readonly<{ tenantId: typeof DEFAULT_TENANT; threadId: ThreadId }>;
beforeEach(() => {
  key = { tenantId: DEFAULT_TENANT, threadId: randomUUID() as ThreadId };
});

const LONG = "a text that has a body of its own ".repeat(50);
const TASK = "task-a";
const resume = (value: unknown): PendingWrite => ["__resume__", value];

const configOf = (id?: string): RunnableConfig => ({
  configurable: { thread_id: key.threadId, checkpoint_ns: "", ...(id === undefined ? {} : { checkpoint_id: id }) },
});
const writing = async (): Promise<Saver> => savers.forLease(await savers.lease(key.threadId));

function checkpointOf(saver: Saver, values: Record<string, unknown>): Checkpoint {
  const channel_versions = Object.fromEntries(
    Object.keys(values).map((name) => [name, saver.getNextVersion(undefined)]),
  );
  return { ...emptyCheckpoint(), id: randomUUID(), channel_values: values, channel_versions };
}

async function put(saver: Saver, checkpoint: Checkpoint, step: number, parent?: string): Promise<void> {
  const metadata = { source: "loop", step, parents: {} } as const;
  await saver.put(configOf(parent), checkpoint, metadata, checkpoint.channel_versions);
}

async function moveAll(): Promise<void> {
  await savers.settle(key.threadId);
  await moveThread(savers.deps, key);
}

/** As a process with nothing in memory reads it. */
async function read(id: string): Promise<CheckpointTuple | undefined> {
  return savers.forAny({ bodies: savers.newReader() }).getTuple(configOf(id));
}

/** Two checkpoints, the second with writes of two kinds, all of it moved. */
async function movedThread(): Promise<{ first: Checkpoint; second: Checkpoint; expected: CheckpointTuple }> {
  const saver = await writing();
  const [first, second] = [checkpointOf(saver, { text: "one" }), checkpointOf(saver, { text: LONG, n: 2 })];
  await put(saver, first, 0);
  await put(saver, second, 1, first.id);
  await saver.putWrites(
    configOf(second.id),
    [
      ["text", `${LONG} written`],
      ["n", 3],
    ],
    TASK,
  );
  await saver.putWrites(configOf(second.id), [resume("first answer")], TASK);
  const expected = (await read(second.id))!;
  await moveAll();
  expect(expected.pendingWrites).toHaveLength(3);
  expect(await read(second.id)).toEqual(expected);
  return { first, second, expected };
}

const rows = async (text: string) => (await database.db.query(text, [key.threadId])).rows;

describe("a moved checkpoint that is put again", () => {
  it("keeps the writes in its record, before and after the next move, and shows what the last put said", async () => {
    const { first, second, expected } = await movedThread();
    await put(await writing(), second, 7, first.id);
    const again = { ...expected, metadata: { ...expected.metadata, step: 7 } };
    expect(await read(second.id)).toEqual(again);
    await moveAll();
    expect(await rows("select 1 from checkpoints where thread_id = $1 and head is not null")).toEqual([]);
    expect(await read(second.id)).toEqual(again);
  });

  it("takes later writes to those in its record: others keep the first, special ones are replaced", async () => {
    const { first, second, expected } = await movedThread();
    const saver = await writing();
    await saver.putWrites(
      configOf(second.id),
      [
        ["text", "too late"],
        ["n", "too late"],
        ["n", "new"],
      ],
      TASK,
    );
    await put(saver, second, 1, first.id);
    await saver.putWrites(configOf(second.id), [resume("second answer")], TASK);
    const [answer, ...others] = expected.pendingWrites!;
    expect(answer).toEqual([TASK, "__resume__", "first answer"]);
    const pendingWrites = [[TASK, "__resume__", "second answer"], ...others, [TASK, "n", "new"]];
    expect((await read(second.id))?.pendingWrites).toEqual(pendingWrites);
    await moveAll();
    expect(await rows("select 1 from checkpoint_writes where thread_id = $1")).toEqual([]);
    expect((await read(second.id))?.pendingWrites).toEqual(pendingWrites);
  });

  it("is read with its writes at the end of the run that put it again", async () => {
    const saver = await writing();
    const only = checkpointOf(saver, { n: 1 });
    await put(saver, only, 0);
    await saver.putWrites(configOf(only.id), [["n", 2]], TASK);
    await put(saver, only, 0);
    expect((await saver.atEnd(key.threadId).getTuple(configOf()))?.pendingWrites).toEqual([[TASK, "n", 2]]);
  });

  it("is whole when whoever puts it takes its values for stored", async () => {
    const { first, second, expected } = await movedThread();
    const saver = await writing();
    await put(saver, first, 0);
    const metadata = { source: "loop", step: 1, parents: {} } as const;
    await saver.put(configOf(first.id), second, metadata, {});
    expect(await read(second.id)).toEqual(expected);
    await moveAll();
    expect(await read(second.id)).toEqual(expected);
  });

  it("holds its pack and its bodies against a prune, and is whole after the repack", async () => {
    const { first, second, expected } = await movedThread();
    await put(await writing(), second, 1, first.id);
    await savers.settle(key.threadId);
    const policy = { keepLatest: 1, olderThanMs: null, outcomes: null };
    await pruneThread(savers.deps, { ...key, policy, thorough: true, dryRun: false, owner: "prune", leaseMs: 15_000 });
    expect(await read(first.id)).toBeUndefined();
    expect(await read(second.id)).toEqual(expected);
    for (const act of [() => repackThread(savers.deps, key, { graceMs: 0 }), moveAll]) {
      await act();
      await sweepOrphans(savers.deps, { graceMs: 0 });
      expect(await read(second.id)).toEqual(expected);
    }
  });
});
