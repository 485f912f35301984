// The mover dies, meets others, finds no object store or a damaged one: nothing is lost, nothing points nowhere.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createMemoryStore } from "../../src/bodies/memory.js";
import { doomOldPacks } from "../../src/checkpoint/packs.js";
import type { BodyStore, Db, Deps } from "../../src/core/deps.js";
import { EngineError } from "../../src/core/errors.js";
import { deleteThread } from "../../src/engine/commands/delete-thread.js";
import { tickMover } from "../../src/engine/loops/mover.js";
import { type MoveStep, moveThread } from "../../src/engine/move-thread.js";
import { loadRunContent } from "../../src/engine/run-content.js";
import { sweepOrphans } from "../../src/engine/sweep-orphans.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { expectNoDanglingPointer, NOTHING, objectsOf, recordOf, rowsOf, smallThread } from "../helpers/moved.js";
import { searchTables } from "../helpers/search-tables.js";
import {
  newThread,
  putCheckpoint,
  putRun,
  putWrite,
  rowDeps,
  setMoveTimer,
  stageNode,
} from "../helpers/thread-rows.js";

let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = database.db;
});
afterAll(() => database.close());

const open = (bodies: BodyStore = createMemoryStore()): Deps => rowDeps(db, bodies);
const once = (at: MoveStep, act: () => Promise<void>) => {
  let done = false;
  return {
    reached: async (step: MoveStep) => {
      if (step !== at || done) return;
      done = true;
      await act();
    },
  };
};
const dies = (at: MoveStep) => once(at, () => Promise.reject(new Error(`died when ${at}`)));
const timer = async (threadId: string) =>
  (
    await db.query<{ status: string; attempts: number; due: boolean; last_error: string | null }>(
      "select status, attempts, due_at <= clock_timestamp() as due, last_error from timers where ref_id = $1",
      [threadId],
    )
  ).rows[0];

describe("a mover that dies", () => {
  it.each(["gathered", "announced", "uploaded", "committed"] as const)(
    "when it has %s loses nothing, and the next one goes on",
    async (step) => {
      const deps = open();
      const mark = `died-${step}`;
      const { key, first, run } = await smallThread(db, mark);
      const content = await loadRunContent(deps, key.tenantId, run);
      await expect(moveThread(deps, key, { hooks: dies(step) })).rejects.toThrow("died");
      await expectNoDanglingPointer(deps, key);
      expect((await searchTables(db, mark)).length === 0).toBe(step === "committed");
      expect(await loadRunContent(deps, key.tenantId, run)).toEqual(content);

      await moveThread(deps, key);
      expect(await searchTables(db, mark)).toEqual([]);
      expect(await recordOf(deps, key, first)).toMatchObject({ head: { m: mark } });
      expect(await loadRunContent(deps, key.tenantId, run)).toEqual(content);
      await expectNoDanglingPointer(deps, key);

      const before = (await objectsOf(deps, key)).length;
      expect(await sweepOrphans(deps, { graceMs: 60_000 })).toBe(0);
      expect(await objectsOf(deps, key)).toHaveLength(before);
      await sweepOrphans(deps, { graceMs: 0 });
      expect(await objectsOf(deps, key)).toHaveLength(1);
      expect(await rowsOf(deps, key)).toEqual(NOTHING);
      await expectNoDanglingPointer(deps, key);
    },
  );

  it("leaves its timer to the next after a while", async () => {
    const deps = open();
    const { key } = await smallThread(db, "left");
    await setMoveTimer(db, key);
    await tickMover(deps, { move: { hooks: dies("announced") } });
    expect(await timer(key.threadId)).toMatchObject({ status: "due", due: false, last_error: "internal" });
    await db.query("update timers set due_at = now() where ref_id = $1", [key.threadId]);
    expect(await tickMover(deps)).toBe(1);
    expect(await timer(key.threadId)).toMatchObject({ status: "fired", attempts: 2, last_error: null });
    expect(await searchTables(db, "left")).toEqual([]);
  });
});

describe("the sweep", () => {
  it("makes an upload that is older than the grace time fail its commit, never leave a pointer to nothing", async () => {
    const deps = open();
    const { key, first } = await smallThread(db, "slow");
    const sweep = once("uploaded", async () => void (await sweepOrphans(deps, { graceMs: 0 })));
    expect(await moveThread(deps, key, { hooks: sweep })).toMatchObject({ packs: 0 });
    expect(await objectsOf(deps, key)).toEqual([]);
    expect(await rowsOf(deps, key)).toMatchObject({ heads: 3, unfinished: 0 });
    await moveThread(deps, key);
    expect(await recordOf(deps, key, first)).toBeDefined();
    await expectNoDanglingPointer(deps, key);
  });

  it("leaves no way to commit what it has only doomed yet", async () => {
    const deps = open();
    const { key } = await smallThread(db, "doomed");
    const doom = once("uploaded", async () => void (await doomOldPacks(db, { graceMs: 0, limit: 10 })));
    expect(await moveThread(deps, key, { hooks: doom })).toMatchObject({ packs: 0 });
    expect(await objectsOf(deps, key)).toEqual([]);
    expect(await rowsOf(deps, key)).toMatchObject({ heads: 3, unfinished: 0 });
  });

  it("goes on where it died between the object and its row", async () => {
    const bodies = createMemoryStore();
    const deps = open(bodies);
    const { key } = await smallThread(db, "half");
    await expect(moveThread(deps, key, { hooks: dies("uploaded") })).rejects.toThrow("died");
    const down = open({ ...bodies, delete: () => Promise.reject(new EngineError("unavailable", "down")) });
    await expect(sweepOrphans(down, { graceMs: 0 })).rejects.toMatchObject({ code: "unavailable" });
    expect(await sweepOrphans(deps, { graceMs: 60_000 })).toBe(1);
    expect(await objectsOf(deps, key)).toEqual([]);
  });

  it("erases what arrives for a thread after it was deleted, once it can't be on its way any more", async () => {
    const deps = open();
    const { key } = await smallThread(db, "erased");
    const late = {
      reached: async (step: MoveStep) => {
        if (step === "announced") expect(await deleteThread(deps, key)).toBe(true);
        if (step === "uploaded") throw new Error("died");
      },
    };
    await expect(moveThread(deps, key, { hooks: late })).rejects.toThrow("died");
    expect(await objectsOf(deps, key)).toHaveLength(1);
    expect(await sweepOrphans(deps)).toBe(0);
    await db.query("update packs set delete_after = now() where thread_id = $1", [key.threadId]);
    expect(await sweepOrphans(deps)).toBe(1);
    expect(await objectsOf(deps, key)).toEqual([]);
    expect((await db.query("select 1 from packs where thread_id = $1", [key.threadId])).rowCount).toBe(0);
  });

  it("looks for nothing in the store, however many threads were deleted", async () => {
    const asked: string[] = [];
    const bodies = createMemoryStore();
    const deps = open({ ...bodies, list: (prefix) => (asked.push(prefix), bodies.list(prefix)) });
    for (let n = 0; n < 3; n += 1) {
      const { key } = await smallThread(db, `gone ${n}`);
      await moveThread(deps, key);
      expect(await objectsOf(open(bodies), key)).not.toEqual([]);
      expect(await deleteThread(deps, key)).toBe(true);
      expect(await objectsOf(open(bodies), key)).toEqual([]);
      expect((await db.query("select 1 from packs where thread_id = $1", [key.threadId])).rowCount).toBe(0);
    }
    await sweepOrphans(deps, { graceMs: 0 });
    expect(asked).toEqual([]);
  });
});

describe("others at the same time", () => {
  it("four movers of one thread move everything once", async () => {
    const deps = open();
    const { key, first } = await smallThread(db, "crowd");
    const moved = await Promise.all(Array.from({ length: 4 }, () => moveThread(deps, key)));
    expect(moved.reduce((sum, one) => sum + one.checkpoints, 0)).toBe(3);
    expect(moved.reduce((sum, one) => sum + one.bodies, 0)).toBe(1);
    expect(await objectsOf(deps, key)).toHaveLength(moved.reduce((sum, one) => sum + one.packs, 0));
    expect(await rowsOf(deps, key)).toEqual(NOTHING);
    expect(await recordOf(deps, key, first)).toBeDefined();
    await expectNoDanglingPointer(deps, key);
  });

  it("a thread deleted while its pack is on its way leaves no object and no row", async () => {
    const deps = open();
    const { key } = await smallThread(db, "deleted");
    const remove = once("uploaded", async () => {
      await db.query("insert into tombstones (tenant_id, thread_id) values ($1, $2)", [key.tenantId, key.threadId]);
      await db.query("delete from packs where thread_id = $1", [key.threadId]);
      await db.query("delete from threads where thread_id = $1", [key.threadId]);
    });
    expect(await moveThread(deps, key, { hooks: remove })).toMatchObject({ packs: 0 });
    expect(await objectsOf(deps, key)).toEqual([]);
    expect((await db.query("select 1 from packs where thread_id = $1", [key.threadId])).rowCount).toBe(0);
  });

  it("a move asked for while one is under way is done after it", async () => {
    const deps = open();
    const { key } = await smallThread(db, "asked");
    await setMoveTimer(db, key);
    await tickMover(deps, { move: { hooks: once("committed", () => setMoveTimer(db, key, 0)) } });
    expect(await timer(key.threadId)).toMatchObject({ status: "due", due: true });
    await stageNode(db, key, "asked for later");
    await tickMover(deps);
    expect(await timer(key.threadId)).toMatchObject({ status: "fired" });
    expect(await searchTables(db, "asked for later")).toEqual([]);
  });

  it("a run that starts while the pack is on its way keeps the checkpoint it works on", async () => {
    const deps = open();
    const { key, first, second, inner } = await smallThread(db, "starts");
    const start = once("uploaded", async () => void (await putRun(db, key, { state: "running" })));
    await moveThread(deps, key, { hooks: start });
    expect(await recordOf(deps, key, first)).toBeDefined();
    expect(await recordOf(deps, key, second)).toBeUndefined();
    expect(await recordOf(deps, key, inner, "sub:1")).toBeUndefined();
    expect(await rowsOf(deps, key)).toMatchObject({ heads: 2, versions: 3 });
  });

  it("no transaction is open while the object store is waited for", async () => {
    const bodies = createMemoryStore();
    let open_ = -1;
    const deps = open({
      ...bodies,
      create: async (key, bytes) => {
        const { rows } = await db.query<{ n: number }>(
          "select count(*) as n from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'",
        );
        open_ = rows[0]?.n ?? -1;
        return bodies.create(key, bytes);
      },
    });
    await moveThread(deps, (await smallThread(db, "idle")).key);
    expect(open_).toBe(0);
  });
});

describe("an object store that fails", () => {
  it("makes moves wait, longer each time, and is forgiven when it is back", async () => {
    const bodies = createMemoryStore();
    let down = true;
    const deps = open({
      ...bodies,
      create: (key, bytes) =>
        down ? Promise.reject(new EngineError("unavailable", "down")) : bodies.create(key, bytes),
    });
    const threads = [await smallThread(db, "outage"), await smallThread(db, "outage")];
    for (const { key } of threads) await setMoveTimer(db, key);
    expect(await tickMover(deps)).toBe(2);
    for (const { key } of threads) {
      expect(await timer(key.threadId)).toMatchObject({ status: "due", due: false, last_error: "unavailable" });
      await expectNoDanglingPointer(deps, key);
    }
    expect(await tickMover(deps)).toBe(0);
    down = false;
    await db.query("update timers set due_at = now() where status = 'due'");
    expect(await tickMover(deps)).toBe(2);
    expect(await searchTables(db, "outage")).toEqual([]);
  });

  it("lost the pack of an old checkpoint: its late writes stay, all else is moved", async () => {
    const deps = open();
    const { key, first } = await smallThread(db, "lost");
    await moveThread(deps, key);
    await deps.bodies.delete(await objectsOf(deps, key));
    await putWrite(db, key, first, { task: "t5", idx: 0, text: '"late"' });
    const next = await putCheckpoint(db, key, { values: { messages: '"next"' } });
    await moveThread(deps, key);
    expect(await recordOf(deps, key, next)).toMatchObject({ values: [[0, '"next"']] });
    expect(await rowsOf(deps, key)).toEqual({ ...NOTHING, writes: 1 });
    await expect(recordOf(deps, key, first)).rejects.toMatchObject({ code: "body_missing" });
  });

  it("damaged one: noticed by hash, naming the object", async () => {
    const bodies = createMemoryStore();
    const deps = open(bodies);
    const { key, first, run } = await smallThread(db, "flipped");
    await moveThread(deps, key);
    const [object] = await objectsOf(deps, key);
    const bytes = Buffer.from(await bodies.read(object!));
    bytes[40] = (bytes[40] ?? 0) ^ 1;
    await bodies.delete([object!]);
    await bodies.create(object!, bytes);
    const damaged = { code: "body_corrupt", details: { key: object } };
    await expect(recordOf(deps, key, first)).rejects.toMatchObject(damaged);
    await expect(loadRunContent(deps, key.tenantId, run)).rejects.toMatchObject(damaged);
  });

  it("a staged body that doesn't match its hash stays, all else is moved", async () => {
    const deps = open();
    const key = await newThread(db);
    const hash = await stageNode(db, key, "right");
    await stageNode(db, key, "other");
    await db.query("update staged_bodies set data = 'wrong' where thread_id = $1 and hash = $2", [key.threadId, hash]);
    await moveThread(deps, key);
    expect(await rowsOf(deps, key)).toEqual({ ...NOTHING, staged: 1 });
  });
});
