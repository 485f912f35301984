// Bodies wherever they are: large ones in objects of their own, damaged and missing ones named, nothing read twice.
import { randomUUID } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createMemoryStore } from "../../src/bodies/memory.js";
import type { Saver } from "../../src/checkpoint/saver.js";
import type { BodyStore, Db } from "../../src/core/deps.js";
import { EngineError } from "../../src/core/errors.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { createTestSavers, type TestSavers } from "../helpers/savers.js";

let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = database.db;
});
afterAll(() => database.close());

let store: WatchedStore;
let savers: TestSavers;
let threadId: string;
let root: RunnableConfig;
beforeEach(() => {
  store = watched(createMemoryStore());
  savers = createTestSavers(db, store);
  threadId = randomUUID();
  root = { configurable: { thread_id: threadId } };
});

const large = (mark: string, chars = 1_500_000) => `${mark} `.repeat(Math.ceil(chars / (mark.length + 1)));
const META = { source: "loop", step: 0, parents: {} } as const;

function put(saver: Saver, values: Record<string, unknown>, config = root): Promise<RunnableConfig> {
  const versions = Object.fromEntries(Object.keys(values).map((name) => [name, saver.getNextVersion(undefined)]));
  return saver.put(
    config,
    { ...emptyCheckpoint(), channel_values: values, channel_versions: versions },
    META,
    versions,
  );
}

const leased = async (large = true): Promise<Saver> => savers.forLease(await savers.lease(threadId), { large });
const cold = (): Saver => savers.forAny({ bodies: savers.newReader() });

async function valuesOf(config: RunnableConfig): Promise<Record<string, unknown> | undefined> {
  return (await cold().getTuple(config))?.checkpoint.channel_values;
}

async function rows(text: string): Promise<Record<string, unknown>[]> {
  return (await db.query(text, [threadId])).rows;
}

const moveAll = () => moveThread(savers.deps, { tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId });

describe("a body over 1 MiB", () => {
  it("is in the store before the checkpoint that names it is in Postgres, once, and comes back", async () => {
    const saver = await leased();
    const values = { text: large("a"), bytes: Buffer.alloc(2_000_000, 7), again: [large("a")] };
    const stored = await put(saver, values);
    const read = (await valuesOf(stored)) as typeof values;
    // Compared by hand: the matcher takes seconds for megabytes.
    expect([read.text === values.text, read.bytes.equals(values.bytes), read.again[0] === values.text]).toEqual(
      Array(3).fill(true),
    );
    expect(await rows("select kind, status, body_kind from packs where thread_id = $1 order by body_kind")).toEqual([
      { kind: "object", status: "stored", body_kind: 0 },
      { kind: "object", status: "stored", body_kind: 2 },
    ]);
    expect(store.created).toHaveLength(2);
    // No hash is in the name.
    for (const key of store.created) expect(key).toMatch(new RegExp(`^default/${threadId}/objects/[0-9a-f-]{36}$`));
    expect(await rows("select hash from staged_bodies where thread_id = $1")).toEqual([]);
    // Another run of the thread brings the same text: it is there.
    await put(await leased(), { text: large("a") }, stored);
    expect(store.created).toHaveLength(2);
  });

  it("may be JSON: what it names is found, what is around it is small, and it is there once", async () => {
    const saver = await leased();
    const facts = Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [`fact ${i}`, `it is ${i}`]));
    const half = `${"x".repeat(1_200_000)}\ud800`;
    const values = { file: { facts, note: "n".repeat(5_000), more: Array.from({ length: 9 }, (_, n) => n) }, half };
    const stored = await put(saver, values);
    const read = (await valuesOf(stored)) as typeof values;
    expect(JSON.stringify(read) === JSON.stringify(values)).toBe(true);
    expect(await rows("select body_kind, status from packs where thread_id = $1")).toEqual([
      { body_kind: 1, status: "stored" },
      { body_kind: 1, status: "stored" },
    ]);
    expect(await rows("select max(octet_length(data)) as most from channel_versions where thread_id = $1")).toEqual([
      { most: expect.toSatisfy((most: number) => most < 400) as number },
    ]);
    // Its neighbour changes, it doesn't: another process stores the neighbour only.
    const later = await put(await leased(), { ...values, file: { ...values.file, note: "changed" } }, stored);
    expect(store.created).toHaveLength(2);
    expect(((await valuesOf(later)) as typeof values).file.note).toBe("changed");
    await moveAll();
    expect(JSON.stringify(await valuesOf(stored)) === JSON.stringify(values)).toBe(true);
  });

  it("holds up what comes after it, in order, and is waited for by a flush", async () => {
    const saver = await leased();
    const hold = store.holdNextCreate();
    const first = put(saver, { text: large("b") });
    const second = first.then((config) => put(saver, { n: 2 }, config));
    const writes = saver.putWrites(
      { configurable: { thread_id: threadId, checkpoint_id: randomUUID() } },
      [["n", 1]],
      "task",
    );
    const flushed = saver.flushed();
    await hold.reached;
    expect(await rows("select 1 from checkpoints where thread_id = $1")).toEqual([]);
    expect(await rows("select 1 from checkpoint_writes where thread_id = $1")).toEqual([]);
    hold.release();
    await Promise.all([writes, flushed]);
    expect(await rows("select 1 from checkpoints where thread_id = $1")).toHaveLength(1);
    await second;
  });

  it("goes to Postgres while the store is away", async () => {
    store.failCreates(new EngineError("unavailable", "the store is away"));
    const stored = await put(await leased(), { text: large("c") });
    expect(await rows("select kind from staged_bodies where thread_id = $1")).toEqual([{ kind: 0 }]);
    expect(await valuesOf(stored)).toEqual({ text: large("c") });
  });

  it("that was given up before its commit fails the run and leaves nothing that names it", async () => {
    const saver = await leased();
    const hold = store.holdNextCreate();
    const refused = put(saver, { text: large("d") });
    await hold.reached;
    await db.query("update packs set status = 'doomed' where thread_id = $1", [threadId]);
    hold.release();
    await expect(refused).rejects.toMatchObject({ code: "body_missing" });
    for (const table of ["checkpoints", "channel_versions", "staged_bodies", "bodies"]) {
      expect(await rows(`select 1 from ${table} where thread_id = $1`)).toEqual([]);
    }
  });

  it("of a run that lost its lease stays pending, to be swept", async () => {
    const saver = await leased();
    await savers.lease(threadId);
    await expect(put(saver, { text: large("e") })).rejects.toMatchObject({ code: "lease_lost" });
    expect(await rows("select status from packs where thread_id = $1")).toEqual([{ status: "pending" }]);
  });

  it("of 20 MB comes back, staged or not, moved or not", async () => {
    const values = { text: large("f", 20_000_000), list: [{ text: large("g", 3_000_000) }] };
    for (const withStore of [true, false]) {
      threadId = randomUUID();
      root = { configurable: { thread_id: threadId } };
      const stored = await put(await leased(withStore), values);
      expect((await valuesOf(stored))?.["text"] === values.text).toBe(true);
      await moveAll();
      expect((await valuesOf(stored))?.["text"] === values.text).toBe(true);
    }
  });
});

describe("a body that can't be read", () => {
  const values = { messages: Array.from({ length: 40 }, (_, i) => `text ${i} ${"x".repeat(1_100)}`) };

  it("is named with its thread when its object is gone, moved or large", async () => {
    const stored = await put(await leased(), { ...values, text: large("h") });
    await moveAll();
    for (const key of [...store.created]) await store.delete([key]);
    const error = await valuesOf(stored).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "body_missing", details: { thread_id: threadId } });
    expect((error as Error).message).toMatch(/Body [\w-]{43} of thread/);
  });

  it("is named when its staged row is damaged, and when its row is gone", async () => {
    const stored = await put(await leased(), values);
    await db.query("update staged_bodies set data = data || '!'::bytea where thread_id = $1 and kind = 0", [threadId]);
    await expect(valuesOf(stored)).rejects.toMatchObject({ code: "body_corrupt", details: { thread_id: threadId } });
    await db.query("delete from staged_bodies where thread_id = $1 and kind = 0", [threadId]);
    await expect(valuesOf(stored)).rejects.toMatchObject({ code: "body_missing", details: { thread_id: threadId } });
  });

  it("is named when its object was changed", async () => {
    const stored = await put(await leased(), { text: large("i") });
    const [key] = store.created;
    await store.delete([key!]);
    await store.create(key!, Buffer.from("something else"));
    await expect(valuesOf(stored)).rejects.toMatchObject({ code: "body_corrupt" });
  });
});

describe("a reader", () => {
  it("reads a moved body once per process", async () => {
    const stored = await put(await leased(), { text: large("j") });
    const reader = savers.newReader();
    for (let i = 0; i < 3; i++) await savers.forAny({ bodies: reader }).getTuple(stored);
    expect(store.reads).toBe(1);
  });
});

type WatchedStore = BodyStore & {
  readonly created: string[];
  readonly reads: number;
  holdNextCreate(): Readonly<{ reached: Promise<void>; release(): void }>;
  failCreates(error: Error): void;
};

function watched(inner: BodyStore): WatchedStore {
  const created: string[] = [];
  let reads = 0;
  let failure: Error | undefined;
  let hold: { reach(): void; released: Promise<void> } | undefined;
  return {
    ...inner,
    created,
    get reads() {
      return reads;
    },
    async create(key, bytes) {
      if (failure !== undefined) throw failure;
      const held = hold;
      hold = undefined;
      held?.reach();
      await held?.released;
      const isNew = await inner.create(key, bytes);
      created.push(key);
      return isNew;
    },
    async read(key, range) {
      reads++;
      return inner.read(key, range);
    },
    holdNextCreate() {
      let release = (): void => {};
      let reach = (): void => {};
      const released = new Promise<void>((resolve) => (release = resolve));
      const reached = new Promise<void>((resolve) => (reach = resolve));
      hold = { reach, released };
      return { reached, release };
    },
    failCreates(error) {
      failure = error;
    },
  };
}
