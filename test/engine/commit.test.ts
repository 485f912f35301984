// The group commit: many runs in one statement, each fenced by itself, and a lost reply is no lost lease.
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { CheckpointOp } from "../../src/checkpoint/ops.js";
import type { Lease } from "../../src/core/clock.js";
import type { Db } from "../../src/core/deps.js";
import { EngineError } from "../../src/core/errors.js";
import { type CommitWith, createCombiner } from "../../src/engine/commit.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { newThread, putRun, rowDeps } from "../helpers/thread-rows.js";

const OWNER = "test";
let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.close());
beforeEach(() => database.db.query("delete from checkpoint_writes"));

type Query = Db["query"];

/** The database, with something between it and who asks. */
function dbWith(around: (query: () => Promise<unknown>, text: string) => Promise<unknown>): Db {
  const query = ((text: string, values?: readonly unknown[]) =>
    around(() => database.db.query(text, values), text)) as Query;
  return { ...database.db, query };
}

const combinerOver = (db: Db) => createCombiner(rowDeps(db, undefined as never), OWNER);

async function runningRun(): Promise<Lease> {
  const thread = await newThread(database.db);
  const runId = await putRun(database.db, thread, { state: "running" });
  return { ...thread, runId, attempt: 1, owner: OWNER };
}

function write(lease: Lease, text: string, channel = "log"): CheckpointOp {
  const row = { ns: "", checkpointId: randomUUID(), taskId: "t", idx: 0, taskPath: "", channel, refs: [] };
  const writes = [{ ...row, data: Buffer.from(text) }];
  return { threadId: lease.threadId, nodes: [], values: [], writes, checkpoints: [], objects: [], progress: true };
}

async function written(): Promise<string[]> {
  const { rows } = await database.db.query<{ text: string }>(
    "select convert_from(data, 'utf8') as text from checkpoint_writes order by 1",
  );
  return rows.map(({ text }) => text);
}

const away = () => new EngineError("unavailable", "away");
const lively = new AbortController().signal;

test("what many runs store in one turn goes in one statement; a run that lost its lease fails alone", async () => {
  let statements = 0;
  const combiner = combinerOver(dbWith((query) => ((statements += 1), query())));
  const leases = await Promise.all([runningRun(), runningRun(), runningRun()]);
  await database.db.query("update runs set attempt = 2 where run_id = $1", [leases[1]?.runId]);
  const ends = await Promise.allSettled(
    leases.map((lease, i) => combiner.forLease(lease, lively)(write(lease, `${i}`))),
  );
  expect(ends.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect((ends[1] as PromiseRejectedResult).reason).toMatchObject({ code: "lease_lost" });
  expect(statements).toBe(1);
  expect(await written()).toEqual(["0", "2"]);
});

test.each(["before", "after"] as const)(
  "a connection that breaks %s the commit: it is sent again, and stored once",
  async (when) => {
    let failures = 0;
    const combiner = combinerOver(
      dbWith(async (query) => {
        const done = when === "after" || failures >= 2 ? await query() : undefined;
        if (failures++ < 2) throw away();
        return done;
      }),
    );
    const lease = await runningRun();
    const commit = combiner.forLease(lease, lively);
    await commit(write(lease, "first"));
    await commit(write(lease, "second"));
    expect(await written()).toEqual(["first", "second"]);
    const { rows } = await database.db.query("select commit_no from runs where run_id = $1", [lease.runId]);
    expect(rows).toEqual([{ commit_no: 2 }]);
  },
);

test("a lost reply and a takeover at once: the old attempt is refused, its successor's commits are its own", async () => {
  const lease = await runningRun();
  let failed = false;
  const combiner = combinerOver(
    dbWith(async (query) => {
      const done = await query();
      if (failed) return done;
      failed = true;
      await database.db.query("update runs set attempt = 2, commit_no = 0 where run_id = $1", [lease.runId]);
      throw away();
    }),
  );
  await expect(combiner.forLease(lease, lively)(write(lease, "old"))).rejects.toMatchObject({ code: "lease_lost" });
  await combiner.forLease({ ...lease, attempt: 2 }, lively)(write(lease, "new"));
  expect(await written()).toEqual(["new", "old"]);
});

test("after a failure nothing of the run is stored any more: no checkpoint stands on a missing one", async () => {
  const lease = await runningRun();
  const commit = combinerOver(database.db).forLease(lease, lively);
  const refused = commit(write(lease, "refused", "a\0b"));
  await expect(refused).rejects.toMatchObject({ code: "22021" });
  await expect(commit(write(lease, "later"))).rejects.toMatchObject({ code: "22021" });
  expect(await written()).toEqual([]);
});

test("a run whose rows the server refuses fails alone; its neighbours in the statement are stored", async () => {
  const [bad, good] = [await runningRun(), await runningRun()];
  const combiner = combinerOver(database.db);
  const ends = await Promise.allSettled([
    combiner.forLease(bad, lively)(write(bad, "bad", "a\0b")),
    combiner.forLease(good, lively)(write(good, "good")),
  ]);
  expect(ends.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
  expect(await written()).toEqual(["good"]);
});

test("a run whose row somebody has locked waits for it, in order; its neighbours in the statement don't", async () => {
  const [held, free] = [await runningRun(), await runningRun()];
  const combiner = combinerOver(database.db);
  const commits = [held, free].map((lease) => combiner.forLease(lease, lively)) as [CommitWith, CommitWith];
  let waiting: Promise<unknown> = Promise.resolve();
  await database.db.tx(async (sql) => {
    await sql.query("select 1 from runs where run_id = $1 for update", [held.runId]);
    waiting = Promise.all([commits[0](write(held, "held 1")), commits[0](write(held, "held 2"))]);
    await commits[1](write(free, "free 1"));
    const third = commits[0](write(held, "held 3"));
    waiting = Promise.all([waiting, third]);
    await commits[1](write(free, "free 2"));
    expect(await written()).toEqual(["free 1", "free 2"]);
  });
  await waiting;
  await combiner.idle();
  expect(await written()).toEqual(["free 1", "free 2", "held 1", "held 2", "held 3"]);
});

test("a run that is taken over under somebody's lock is refused, and nothing of it is written", async () => {
  const lease = await runningRun();
  const combiner = combinerOver(database.db);
  let refused: Promise<unknown> = Promise.resolve();
  await database.db.tx(async (sql) => {
    await sql.query("update runs set attempt = 2 where run_id = $1", [lease.runId]);
    refused = expect(combiner.forLease(lease, lively)(write(lease, "old"))).rejects.toMatchObject({
      code: "lease_lost",
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
  });
  await refused;
  expect(await written()).toEqual([]);
});

test("a commit gives up when its attempt is over while the database is away", async () => {
  const lease = await runningRun();
  const over = new AbortController();
  let tries = 0;
  const combiner = combinerOver(
    dbWith(() => {
      if ((tries += 1) === 3) over.abort();
      return Promise.reject(away());
    }),
  );
  await expect(combiner.forLease(lease, over.signal)(write(lease, "never"))).rejects.toMatchObject({
    code: "unavailable",
  });
  expect(tries).toBe(3);
  await combiner.idle();
});

const MB = 1_000_000;

/** Bytes of what statements carried: bodies and writes. */
function sizesOf(sizes: number[]): Db {
  const query: Query = (text, values = []) => {
    const buffers = values.flat().filter((value) => value instanceof Buffer) as Buffer[];
    sizes.push(buffers.reduce((sum, { length }) => sum + length, 0));
    return database.db.query(text, values);
  };
  return { ...database.db, query };
}

test("what one run stores at once is split when no statement should hold it: bodies first, the rest together", async () => {
  const sizes: number[] = [];
  const lease = await runningRun();
  const nodes = Array.from({ length: 40 }, () => {
    const data = randomBytes(MB);
    const hash = createHash("sha256").update(data).digest();
    return { key: hash.toString("base64url"), hash, kind: 2 as const, refs: [], data };
  });
  const op = write(lease, "together");
  const [row] = op.writes;
  const commit = combinerOver(sizesOf(sizes)).forLease(lease, lively);
  await Promise.all([commit({ ...op, nodes, writes: [row!, { ...row!, idx: 1 }] }), commit(write(lease, "after"))]);
  expect(sizes.length).toBeGreaterThan(2);
  expect(Math.max(...sizes)).toBeLessThan(17 * MB);
  const staged = await database.db.query("select 1 from staged_bodies where thread_id = $1", [lease.threadId]);
  expect(staged.rowCount).toBe(40);
  expect(await written()).toEqual(["after", "together", "together"]);
});

test("many runs with much to store share statements of a bounded size, each run's in its order", async () => {
  const sizes: number[] = [];
  const combiner = combinerOver(sizesOf(sizes));
  const leases = await Promise.all(Array.from({ length: 8 }, runningRun));
  const much = "x".repeat(3 * MB);
  await Promise.all(
    leases.flatMap((lease) => {
      const commit = combiner.forLease(lease, lively);
      return ["first", "second", "third"].map((name) => commit(write(lease, name + much)));
    }),
  );
  expect(Math.max(...sizes)).toBeLessThan(17 * MB);
  expect(sizes.length).toBeLessThan(10);
  const { rows } = await database.db.query("select run_id, commit_no from runs where run_id = any ($1)", [
    leases.map(({ runId }) => runId),
  ]);
  expect(rows).toHaveLength(8);
  expect((await written()).filter((text) => text.length > 3 * MB)).toHaveLength(24);
});
