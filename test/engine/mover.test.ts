// The mover: everything of a thread gets to the object store, whatever happens meanwhile, and nothing points nowhere.
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createMemoryStore } from "../../src/bodies/memory.js";
import type { Db, Deps } from "../../src/core/deps.js";
import { moveThread } from "../../src/engine/move-thread.js";
import { loadRunContent } from "../../src/engine/run-content.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { expectNoDanglingPointer, NOTHING, objectsOf, recordOf, rowsOf, smallThread } from "../helpers/moved.js";
import { searchTables } from "../helpers/search-tables.js";
import {
  newThread,
  putCheckpoint,
  putRun,
  putStream,
  putWrite,
  rowDeps,
  setRunState,
  stageNode,
} from "../helpers/thread-rows.js";

let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = database.db;
});
afterAll(() => database.close());

const open = (): Deps => rowDeps(db, createMemoryStore());

describe("moving a thread", () => {
  it("leaves none of its content in any table, and all of it in the bucket for gunzip to read", async () => {
    const mark = 'Grüße "an" \\ \u{1f600} alle\nZeile two';
    const deps = open();
    const key = await newThread(db);
    await stageNode(db, key, `node ${mark}`);
    const id = await putCheckpoint(db, key, {
      values: { messages: JSON.stringify(mark) },
      head: JSON.stringify({ f: 1, m: mark }),
    });
    await putWrite(db, key, id, { task: "t1", idx: 0, text: JSON.stringify({ deep: JSON.stringify(mark) }) });
    const run = await putRun(db, key, { state: "error", request: { input: mark }, error: { message: mark } });
    await putStream(db, key, run, 0, [{ token: mark }]);
    expect((await searchTables(db, mark)).map((found) => `${found.table}.${found.column}`)).toEqual([
      "channel_versions.data",
      "checkpoint_writes.data",
      "checkpoints.head",
      "runs.error",
      "runs.request",
      "staged_bodies.data",
      "stream_chunks.lines",
    ]);
    await moveThread(deps, key);
    expect(await searchTables(db, mark)).toEqual([]);
    const objects = await objectsOf(deps, key);
    expect(objects).toEqual([expect.stringMatching(/^default\/[0-9a-f-]{36}\/[0-9A-HJKMNP-TV-Z]{26}\.jsonl\.gz$/)]);
    const lines = gunzipSync(await deps.bodies.read(objects[0]!))
      .toString("utf8")
      .trimEnd()
      .split("\n");
    expect(lines.map((line) => Object.keys(JSON.parse(line) as object)[0])).toEqual([
      "h",
      "checkpoint",
      "run",
      "index",
    ]);
    expect(lines.filter((line) => line.includes("Grüße"))).toHaveLength(3);
  });

  it("keeps each checkpoint whole in its record", async () => {
    const deps = open();
    const { key, first, second, inner } = await smallThread(db, "whole");
    expect(await moveThread(deps, key)).toMatchObject({ packs: 1, checkpoints: 3, bodies: 1, runs: 1, more: false });
    expect(await recordOf(deps, key, first)).toMatchObject({
      head: { f: 1, m: "whole" },
      channels: ["messages"],
      values: [[0, '"value whole"']],
      writes: [["t1", 0, "", "messages", '"write whole"']],
    });
    expect(await recordOf(deps, key, second)).toMatchObject({
      values: [
        [0, '"value 2 whole"'],
        [1, "1"],
      ],
      writes: [],
    });
    expect(await recordOf(deps, key, inner, "sub:1")).toMatchObject({ values: [[0, '"inner whole"']] });
    expect(await rowsOf(deps, key)).toEqual(NOTHING);
    await expectNoDanglingPointer(deps, key);
  });

  it("does nothing when there is nothing left", async () => {
    const deps = open();
    const { key } = await smallThread(db, "again");
    await moveThread(deps, key);
    expect(await moveThread(deps, key)).toMatchObject({ packs: 0, more: false });
    expect(await objectsOf(deps, key)).toHaveLength(1);
  });

  it("leaves the newest checkpoint of each namespace, and what it names, to a running run", async () => {
    const deps = open();
    const { key, first, second, inner } = await smallThread(db, "busy");
    const { rows } = await db.query<{ version: string }>(
      "select version from channel_versions where thread_id = $1 and channel = 'other'",
      [key.threadId],
    );
    const newest = await putCheckpoint(db, key, { values: { messages: "3" }, kept: { other: rows[0]!.version } });
    const run = await putRun(db, key, { state: "running", request: { input: "running" } });
    await putStream(db, key, run, 0, ["token"]);
    await moveThread(deps, key);
    expect(await recordOf(deps, key, first)).toBeDefined();
    expect(await recordOf(deps, key, second)).toBeDefined();
    expect(await recordOf(deps, key, newest)).toBeUndefined();
    expect(await recordOf(deps, key, inner, "sub:1")).toBeUndefined();
    expect(await rowsOf(deps, key)).toEqual({ staged: 0, versions: 3, writes: 0, heads: 2, unfinished: 0 });
    expect(await loadRunContent(deps, key.tenantId, run)).toMatchObject({ request: { input: "running" } });
    expect((await db.query("select 1 from stream_chunks where run_id = $1", [run])).rowCount).toBe(1);

    await setRunState(db, run, "success");
    await moveThread(deps, key);
    const values = (await recordOf(deps, key, newest))?.values.map(([, text]) => text);
    expect(values?.sort()).toEqual(["1", "3"]);
    expect(await rowsOf(deps, key)).toEqual(NOTHING);
  });

  it("moves a very large thread in several packs", async () => {
    const deps = open();
    const key = await newThread(db);
    const ids: string[] = [];
    for (let n = 0; n < 120; n++) {
      await stageNode(db, key, `${n} ${"x".repeat(2_000)}`);
      ids.push(await putCheckpoint(db, key, { values: { messages: `"${n} ${"y".repeat(500)}"` } }));
    }
    const run = await putRun(db, key, { state: "success", request: { input: "long" } });
    for (let n = 0; n < 100; n++) await putStream(db, key, run, n * 10, Array(10).fill("z".repeat(300)));
    const moved = await moveThread(deps, key, { packBytes: 50_000 });
    expect(moved).toMatchObject({ checkpoints: 120, bodies: 120, runs: 1, more: false });
    expect(moved.packs).toBeGreaterThan(4);
    expect(await rowsOf(deps, key)).toEqual(NOTHING);
    await expectNoDanglingPointer(deps, key);
    for (const [n, id] of ids.entries()) {
      expect((await recordOf(deps, key, id))?.values).toEqual([[0, `"${n} ${"y".repeat(500)}"`]]);
    }
    expect((await loadRunContent(deps, key.tenantId, run)).stream).toHaveLength(1_000);
    expect(await moveThread(deps, (await smallThread(db, "cut")).key, { maxPacks: 1, packBytes: 1 })).toMatchObject({
      more: true,
    });
  });
});

describe("what comes after the move", () => {
  it("is merged into the record: special writes replace, others keep the first, in LangGraph's order", async () => {
    const deps = open();
    const key = await newThread(db);
    const id = await putCheckpoint(db, key, { values: { messages: '"v"' }, head: '{"f":1,"n":1}' });
    await putWrite(db, key, id, { task: "t1", idx: 0, path: "~b", text: '"first"' });
    await putWrite(db, key, id, { task: "t2", idx: -4, path: "~a", channel: "__resume__", text: '"one"' });
    await moveThread(deps, key);
    await putWrite(db, key, id, { task: "t1", idx: 0, path: "~b", text: '"again"' });
    await putWrite(db, key, id, { task: "t2", idx: -4, path: "~a", channel: "__resume__", text: '"two"' });
    await putWrite(db, key, id, { task: "t0", idx: 0, path: "~a", text: '"late"' });
    await moveThread(deps, key);
    expect(await recordOf(deps, key, id)).toEqual({
      head: { f: 1, n: 1 },
      channels: ["messages"],
      versions: [expect.any(String)],
      values: [[0, '"v"']],
      writes: [
        ["t0", 0, "~a", "messages", '"late"'],
        ["t2", -4, "~a", "__resume__", '"two"'],
        ["t1", 0, "~b", "messages", '"first"'],
      ],
    });
    expect(await rowsOf(deps, key)).toEqual(NOTHING);
    expect(await objectsOf(deps, key)).toHaveLength(2);
  });

  it("isn't lost when it comes while the pack is on its way", async () => {
    const deps = open();
    const { key, first } = await smallThread(db, "meanwhile");
    await putWrite(db, key, first, { task: "t9", idx: -4, channel: "__resume__", text: '"before"' });
    let later = "";
    const reached = async (step: string) => {
      if (step !== "uploaded" || later !== "") return;
      later = await putCheckpoint(db, key, { values: { messages: '"later"' } });
      await putWrite(db, key, first, { task: "t9", idx: -4, channel: "__resume__", text: '"after"' });
      await putWrite(db, key, first, { task: "t8", idx: 0, text: '"new"' });
      await stageNode(db, key, "a later node");
    };
    await moveThread(deps, key, { hooks: { reached } });
    const writes = (await recordOf(deps, key, first))?.writes.map(([task, , , , text]) => [task, text]);
    expect(writes).toHaveLength(3);
    expect(writes).toEqual(
      expect.arrayContaining([
        ["t8", '"new"'],
        ["t9", '"after"'],
        ["t1", '"write meanwhile"'],
      ]),
    );
    expect(await recordOf(deps, key, later)).toMatchObject({ values: [[0, '"later"']] });
    expect(await rowsOf(deps, key)).toEqual(NOTHING);
  });

  it("is a body that was moved before: it isn't moved again", async () => {
    const deps = open();
    const key = await newThread(db);
    await stageNode(db, key, "twice");
    await moveThread(deps, key);
    await stageNode(db, key, "twice");
    await stageNode(db, key, "once");
    await moveThread(deps, key);
    await stageNode(db, key, "twice");
    expect(await moveThread(deps, key)).toMatchObject({ packs: 0 });
    expect(await rowsOf(deps, key)).toEqual(NOTHING);
    const { rows } = await db.query("select block, pack_id from bodies where thread_id = $1", [key.threadId]);
    expect(rows).toHaveLength(2);
  });

  it("is the rest of a run that slept: its content stays in one piece through every move", async () => {
    const deps = open();
    const key = await newThread(db);
    const run = await putRun(db, key, { state: "sleeping", request: { input: "sleepy" } });
    await putStream(db, key, run, 0, ["a", "b"]);
    const whole = () => loadRunContent(deps, key.tenantId, run);
    await moveThread(deps, key);
    expect(await searchTables(db, "sleepy")).toEqual([]);
    expect(await whole()).toMatchObject({ request: { input: "sleepy" }, stream: [{ id: 0 }, { id: 1 }] });
    await setRunState(db, run, "running");
    await putStream(db, key, run, 1_000_000_000, ["c"]);
    expect((await whole()).stream.map((event) => event.data)).toEqual(["a", "b", "c"]);
    await setRunState(db, run, "error");
    await db.query("update runs set error = $2 where run_id = $1", [run, Buffer.from('{"message":"slept badly"}')]);
    const before = await whole();
    await moveThread(deps, key);
    expect(await searchTables(db, "slept badly")).toEqual([]);
    expect(await whole()).toEqual(before);
    expect(before.stream.map((event) => event.id)).toEqual([0, 1, 1_000_000_000]);
    expect(await loadRunContent(deps, key.tenantId, run, { stream: false })).toEqual({ ...before, stream: [] });
  });

  it("is a run that woke while it was being moved: what it did since stays", async () => {
    const deps = open();
    const key = await newThread(db);
    const run = await putRun(db, key, { state: "sleeping", request: { input: "q" } });
    let woken = false;
    const reached = async (step: string) => {
      if (step !== "uploaded" || woken) return;
      woken = true;
      await setRunState(db, run, "running");
      await setRunState(db, run, "error");
      await db.query("update runs set error = $2 where run_id = $1", [run, Buffer.from('{"message":"new"}')]);
    };
    await moveThread(deps, key, { hooks: { reached } });
    expect(await loadRunContent(deps, key.tenantId, run)).toMatchObject({ error: { message: "new" } });
    await moveThread(deps, key);
    expect(await loadRunContent(deps, key.tenantId, run)).toMatchObject({
      request: { input: "q" },
      error: { message: "new" },
    });
    expect(await searchTables(db, '"new"')).toEqual([]);
  });
});
