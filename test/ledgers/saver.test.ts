// What the saver writes and reads, rule by rule, on a real database.
import { randomUUID } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import { type ChannelVersions, emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { v6 as uuidv6 } from "uuid";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { newestCheckpointOfRun } from "../../src/checkpoint/queries.js";
import { createSaver, type Saver } from "../../src/checkpoint/saver.js";
import type { CheckpointOp } from "../../src/checkpoint/ops.js";
import type { Db } from "../../src/core/deps.js";
import { isEngineError } from "../../src/core/errors.js";
import { DEFAULT_TENANT, type ThreadId } from "../../src/core/ids.js";
import { openDb } from "../../src/db/pool.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { createLog } from "../../src/observe/log.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { createTestSavers, type TestSavers } from "../helpers/savers.js";

let database: TestDatabase;
let db: Db;
let savers: TestSavers;
beforeAll(async () => {
  database = await createTestDatabase();
  db = database.db;
  savers = createTestSavers(db);
});
afterAll(() => database.close());

let threadId: string;
let root: RunnableConfig;
beforeEach(() => {
  threadId = randomUUID();
  root = { configurable: { thread_id: threadId } };
});

const META = { source: "loop", step: 0, parents: {} } as const;

type Put = Readonly<{ id?: string; values?: Record<string, unknown>; versions?: ChannelVersions; changed?: string[] }>;

async function put(saver: Saver, config: RunnableConfig, { id, values = {}, versions, changed }: Put = {}) {
  const all =
    versions ?? Object.fromEntries(Object.keys(values).map((name) => [name, saver.getNextVersion(undefined)]));
  const checkpoint = { ...emptyCheckpoint(), id: id ?? uuid6(0), channel_values: values, channel_versions: all };
  const fresh = Object.fromEntries((changed ?? Object.keys(all)).map((name) => [name, all[name]!]));
  return saver.put(config, checkpoint, META, fresh);
}

async function count(table: string): Promise<number> {
  const { rows } = await db.query<{ n: number }>(`select count(*) as n from ${table} where thread_id = $1`, [threadId]);
  return rows[0]!.n;
}

describe("versions", () => {
  it("are never made twice, grow from each other and go on from numbers", () => {
    const saver = savers.forAny();
    const versions = Array.from({ length: 1_000 }, () => saver.getNextVersion("0000000007.000000000000001"));
    expect(new Set(versions).size).toBe(1_000);
    expect(versions.every((version) => version.startsWith("0000000008."))).toBe(true);
    expect(saver.getNextVersion(11)).toMatch(/^0000000012\.\d{15}$/);
    expect(saver.getNextVersion(undefined)).toMatch(/^0000000001\./);
  });
});

describe("the newest checkpoint", () => {
  it("is the one committed last, whatever the clocks of the machines that made the ids said", async () => {
    const saver = savers.forAny();
    const now = Date.now();
    const first = await put(saver, root, { id: uuidv6({ msecs: now }) });
    const behind = await put(saver, first, { id: uuidv6({ msecs: now - 10_000 }) });
    expect((await savers.forAny().getTuple(root))?.config).toEqual(behind);
    const listed = [];
    for await (const { config } of saver.list(root)) listed.push(config);
    expect(listed).toEqual([behind, first]);
  });

  it("of a run is its own, not the thread's", async () => {
    const held = await savers.lease(threadId);
    const own = await put(savers.forLease(held), root);
    expect(await newestCheckpointOfRun(db, held)).toBe(own.configurable?.["checkpoint_id"]);
    expect(await newestCheckpointOfRun(db, { ...held, runId: randomUUID() as never })).toBeUndefined();
    expect(await newestCheckpointOfRun(db, held, "sub:1")).toBeUndefined();
  });
});

describe("writes", () => {
  const TASK = randomUUID();

  it("come in the order of task path, task and position, by code point", async () => {
    const saver = savers.forAny();
    const config = await put(saver, root);
    await saver.putWrites(
      config,
      [
        ["a", 1],
        ["a", 2],
      ],
      "task-b",
      "~\u{10000}",
    );
    await saver.putWrites(config, [["a", 3]], "task-a", "~\uffff");
    await saver.putWrites(config, [["a", 4]], "task-c");
    const tuple = await saver.getTuple(config);
    expect(tuple?.pendingWrites).toEqual([
      ["task-c", "a", 4],
      ["task-a", "a", 3],
      ["task-b", "a", 1],
      ["task-b", "a", 2],
    ]);
  });

  it("stay as they were first put, and special ones are replaced", async () => {
    const saver = savers.forAny();
    const config = await put(saver, root);
    for (const attempt of [1, 2]) {
      await saver.putWrites(
        config,
        [
          ["a", attempt],
          ["__error__", { message: `e${attempt}` }],
        ],
        TASK,
      );
    }
    expect((await saver.getTuple(config))?.pendingWrites).toEqual([
      [TASK, "__error__", { message: "e2" }],
      [TASK, "a", 1],
    ]);
  });

  it("may come before the checkpoint they belong to, also in a namespace", async () => {
    const saver = savers.forAny();
    const config = { configurable: { thread_id: threadId, checkpoint_ns: "sub:1", checkpoint_id: uuid6(0) } };
    await saver.putWrites(config, [["a", 1]], TASK);
    await put(
      saver,
      { configurable: { thread_id: threadId, checkpoint_ns: "sub:1" } },
      { id: config.configurable.checkpoint_id },
    );
    expect((await saver.getTuple(config))?.pendingWrites).toEqual([[TASK, "a", 1]]);
  });

  it("count as progress when a task made something, not when something happened to it or to the input", async () => {
    const ops: CheckpointOp[] = [];
    const saver = createSaver({
      sql: db,
      tenantId: DEFAULT_TENANT,
      bodies: savers.newReader(),
      commit: async (op) => void ops.push(op),
    });
    const config = { configurable: { thread_id: threadId, checkpoint_id: uuid6(0) } };
    const none = "00000000-0000-0000-0000-000000000000";
    for (const channel of ["a", "__no_writes__", "__error__", "__error_source_node__", "__interrupt__", "__resume__"]) {
      await saver.putWrites(config, [[channel, 1]], TASK);
    }
    await saver.putWrites(config, [["a", 1]], none);
    expect(ops.map(({ progress }) => progress)).toEqual([true, true, false, false, false, false, false]);
  });
});

describe("put", () => {
  it("writes what changed, and on a checkpoint that this saver didn't put everything", async () => {
    const first = savers.forAny();
    const versions = { a: first.getNextVersion(undefined), b: first.getNextVersion(undefined) };
    const parent = await put(first, root, { values: { a: 1, b: 2 }, versions });
    const next = { ...versions, a: first.getNextVersion(versions.a) };
    const child = await put(first, parent, { values: { a: 3, b: 2 }, versions: next, changed: ["a"] });
    expect(await count("channel_versions")).toBe(3);
    await db.query("delete from channel_versions where thread_id = $1", [threadId]);
    const third = { ...next, a: first.getNextVersion(next.a) };
    const grandchild = await put(savers.forAny(), child, { values: { a: 4, b: 2 }, versions: third, changed: ["a"] });
    expect((await first.getTuple(grandchild))?.checkpoint.channel_values).toEqual({ a: 4, b: 2 });
  });

  it("of a copy of the first checkpoint keeps its values, also when those were moved", async () => {
    const first = await put(savers.forAny(), root, { values: { a: [1, 2] } });
    await savers.settle(threadId);
    await moveThread(savers.deps, { tenantId: DEFAULT_TENANT, threadId: threadId as ThreadId });
    // LangGraph's `__copy__`: under the copied one's parent, here none, with no new version.
    const editor = savers.forAny();
    const { checkpoint } = (await editor.getTuple(first))!;
    const copy = await editor.put(root, { ...checkpoint, id: uuid6(1) }, { ...META, source: "fork" }, {});
    expect((await savers.forAny().getTuple(copy))?.checkpoint.channel_values).toEqual({ a: [1, 2] });
  });

  it("for the second time in one turn leaves the checkpoint before its child", async () => {
    const saver = savers.forAny();
    const [id, childId] = [uuid6(0), uuid6(1)];
    const child = { configurable: { ...root.configurable, checkpoint_ns: "", checkpoint_id: childId } };
    await Promise.all([
      put(saver, root, { id }),
      put(saver, { configurable: { ...root.configurable, checkpoint_id: id } }, { id: childId }),
      put(saver, root, { id }),
    ]);
    expect((await saver.getTuple(root))?.config).toEqual(child);
  });

  it("after the thread was deleted stands on nothing that was there before", async () => {
    const saver = savers.forAny();
    const versions = { a: saver.getNextVersion(undefined) };
    const first = await put(saver, root, { values: { a: "kept".repeat(1_000) }, versions });
    await saver.deleteThread(threadId);
    const again = await put(saver, first, { values: { a: "kept".repeat(1_000) }, versions, changed: [] });
    expect((await savers.forAny().getTuple(again))?.checkpoint.channel_values).toEqual({ a: "kept".repeat(1_000) });
  });

  it("may be repeated for the same checkpoint, and the last one stands", async () => {
    const saver = savers.forAny();
    const id = uuid6(0);
    await put(saver, root, { id, values: { a: 1 } });
    const again = await put(saver, root, { id, values: { a: 1, b: 2 } });
    expect((await saver.getTuple(again))?.checkpoint.channel_values).toEqual({ a: 1, b: 2 });
    expect(await count("checkpoints")).toBe(1);
  });

  it("keeps the run's metadata and configuration beside LangGraph's, for filters and history", async () => {
    const saver = savers.forAny();
    const config = {
      configurable: {
        ...root.configurable,
        model: "small",
        prompt: "p".repeat(65),
        nested: { a: 1 },
        fn: () => 1,
        __pregel_x: 1,
        langgraph_auth_user: { secret: 1 },
      },
      metadata: {
        run_id: randomUUID(),
        team: "red",
        thread_id: threadId,
        langgraph_step: 1,
        when: new Date() as never,
      },
    };
    const stored = await put(saver, config);
    const expected = { ...META, run_id: config.metadata.run_id, team: "red", model: "small" };
    expect((await saver.getTuple(stored))?.metadata).toEqual({ ...expected, prompt: "p".repeat(65), nested: { a: 1 } });
    const { rows } = await db.query("select metadata, step, source from checkpoints where thread_id = $1", [threadId]);
    expect(rows).toEqual([{ metadata: expected, step: 0, source: "loop" }]);
    for (const [filter, found] of [
      [{ team: "red", source: "loop" }, 1],
      [{ team: "blue" }, 0],
      [{ note: "a\u0000b" }, 0],
    ] as const) {
      const list = [];
      for await (const tuple of saver.list(root, { filter })) list.push(tuple);
      expect(list).toHaveLength(found);
    }
  });

  it("takes NUL and lone surrogates in content and metadata, and refuses them in names", async () => {
    const saver = savers.forAny();
    const odd = "a\u0000b\ud83d";
    const stored = await saver.put(
      root,
      {
        ...emptyCheckpoint(),
        channel_values: { a: odd, b: { [odd]: `${odd}${"x".repeat(2_000)}` } },
        channel_versions: { a: "1", b: "1" },
      },
      { ...META, note: odd, [odd]: 1 } as never,
      { a: "1", b: "1" },
    );
    await saver.putWrites(stored, [["a", odd]], randomUUID());
    const tuple = await savers.forAny().getTuple(stored);
    expect(tuple?.checkpoint.channel_values).toEqual({ a: odd, b: { [odd]: `${odd}${"x".repeat(2_000)}` } });
    expect(tuple?.metadata).toEqual({ ...META, note: odd, [odd]: 1 });
    expect(tuple?.pendingWrites?.[0]?.[2]).toBe(odd);
    for (const name of ["a\u0000", "\ud83d"]) {
      const refused = savers.forAny().putWrites(stored, [[name, 1]], randomUUID());
      await expect(refused).rejects.toMatchObject({ code: "value_unsupported" });
    }
  });
});

describe("list", () => {
  it("takes `before` across namespaces, and a limit of nothing", async () => {
    const saver = savers.forAny();
    const inSub = { configurable: { thread_id: threadId, checkpoint_ns: "sub" } };
    const sub = [await put(saver, inSub), await put(saver, inSub)];
    const parent = await put(saver, root);
    const later = await put(saver, inSub);
    const ids = async (options: Parameters<Saver["list"]>[1]) => {
      const found = [];
      for await (const { config } of saver.list(inSub, options)) found.push(config);
      return found;
    };
    expect(await ids({ before: parent, limit: 1 })).toEqual([sub[1]]);
    expect(await ids({ before: parent })).toEqual([sub[1], sub[0]]);
    expect(await ids({})).toEqual([later, sub[1], sub[0]]);
    expect(await ids({ limit: 0 })).toEqual([]);
  });

  it("goes through more than a page", async () => {
    const saver = savers.forAny();
    let config = root;
    for (let i = 0; i < 100; i++) config = await put(saver, config, { values: { i } });
    const found = [];
    for await (const { checkpoint } of saver.list(root)) found.push(checkpoint.channel_values["i"]);
    expect(found).toEqual(Array.from({ length: 100 }, (_, i) => 99 - i));
  });
});

describe("a saver", () => {
  it("whose lease was taken writes nothing any more, and says so to everyone who waits", async () => {
    const zombie = savers.forLease(await savers.lease(threadId));
    const before = await put(zombie, root, { values: { a: 1 } });
    const heir = savers.forLease(await savers.lease(threadId));
    const lost = await put(zombie, before, { values: { a: "late" } }).catch((error: unknown) => error);
    expect(isEngineError(lost, "lease_lost")).toBe(true);
    await expect(zombie.putWrites(before, [["a", "late"]], randomUUID())).rejects.toBe(lost);
    await expect(zombie.flushed()).rejects.toBe(lost);
    const after = await put(heir, before, { values: { a: 2 } });
    expect((await heir.getTuple(root))?.config).toEqual(after);
    expect([await count("checkpoints"), await count("checkpoint_writes"), await count("channel_versions")]).toEqual([
      2, 0, 2,
    ]);
    await heir.flushed();
  });

  it("sends writes and checkpoint of one turn together, and is flushed when they are durable", async () => {
    const ops: CheckpointOp[] = [];
    const commits: (() => void)[] = [];
    const saver = createSaver({
      sql: db,
      tenantId: DEFAULT_TENANT,
      bodies: savers.newReader(),
      commit: (op) => new Promise<void>((resolve) => (ops.push(op), commits.push(resolve))),
    });
    const writes = saver.putWrites({ configurable: { thread_id: threadId, checkpoint_id: uuid6(0) } }, [["a", 1]], "t");
    const checkpoint = put(saver, root, { values: { a: 1 } });
    expect(ops).toHaveLength(2);
    let flushed = false;
    const flush = saver.flushed().then(() => (flushed = true));
    commits[0]?.();
    await writes;
    expect(flushed).toBe(false);
    commits[1]?.();
    await Promise.all([checkpoint, flush]);
  });

  it("after a value it had to refuse takes no later step, and its flush fails", async () => {
    const saver = savers.forAny();
    const refused = put(saver, root, { values: { a: { fn: () => 1 } } });
    await expect(refused).rejects.toMatchObject({ code: "value_unsupported", details: { path: "a.fn" } });
    await expect(put(saver, root)).rejects.toMatchObject({ code: "value_unsupported" });
    await expect(saver.flushed()).rejects.toMatchObject({ code: "value_unsupported" });
    expect(await count("checkpoints")).toBe(0);
  });

  it("has its commits and its reads of a head kept prepared", async () => {
    const one = openDb({ url: database.url, max: 1, log: createLog("silent"), applicationName: "one" });
    const saver = createTestSavers(one).forAny();
    await put(saver, root, { values: { a: 1 } });
    await saver.getTuple(root);
    const { rows } = await one.query<{ statement: string }>("select statement from pg_prepared_statements");
    const kept = (text: string) => rows.filter(({ statement }) => statement.includes(text));
    expect(kept("insert into checkpoints ")).toHaveLength(1);
    expect(kept("with recursive only_channels")).toHaveLength(1);
    await one.close();
  });

  it("without a commit only reads", async () => {
    const reader = createSaver({ sql: db, tenantId: DEFAULT_TENANT, bodies: savers.newReader(), commit: null });
    const stored = await put(savers.forAny(), root, { values: { a: 1 } });
    expect((await reader.getTuple(root))?.config).toEqual(stored);
    await expect(put(reader, root)).rejects.toMatchObject({ code: "internal" });
    await expect(reader.putWrites(stored, [["a", 1]], "t")).rejects.toMatchObject({ code: "internal" });
    await expect(reader.deleteThread(threadId)).rejects.toMatchObject({ code: "internal" });
    await reader.flushed();
  });

  it("of another tenant finds nothing, and malformed ids find nothing", async () => {
    const stored = await put(savers.forAny(), root);
    const other = createSaver({ sql: db, tenantId: "other" as never, bodies: savers.newReader(), commit: null });
    expect(await other.getTuple(stored)).toBeUndefined();
    for (const configurable of [{ thread_id: "x\u0000" }, { thread_id: threadId, checkpoint_id: "x" }, {}]) {
      expect(await savers.forAny().getTuple({ configurable })).toBeUndefined();
    }
    await expect(put(savers.forAny(), { configurable: { thread_id: "x" } })).rejects.toMatchObject({
      code: "bad_request",
    });
  });
});
