import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Lease } from "../../src/core/clock.js";
import type { Db, Sql } from "../../src/core/deps.js";

import { createStreamAppender, createStreamSink, type StreamSink } from "../../src/engine/stream/sink.js";
import { parseLines, readStreamPage, type StreamLine } from "../../src/runs/stream-chunks.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { makeRunningRun, openSink, testClock } from "../helpers/stream.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.close());

/** What `push` and `drain` need, with the statements counted and, when asked for, failing. */
function partsOf(db: Db) {
  const statements: string[] = [];
  const notified: string[] = [];
  let fail: (text: string) => Error | undefined = () => undefined;
  const watched: Db = {
    ...db,
    async query(text, values) {
      const error = fail(text);
      if (error !== undefined) throw error;
      statements.push(text);
      return db.query(text, values);
    },
  };
  return {
    statements,
    notified,
    failWith: (next: typeof fail) => void (fail = next),
    deps: {
      db: watched,
      clock: testClock,
      random: () => 0,
      notifier: { notify: (_topic: string, id?: string) => void notified.push(id ?? ""), listen: () => () => {} },
    },
  };
}

const noAbort = () => new AbortController().signal;
const event = (n: number) => ({ event: "custom", json: JSON.stringify({ n }) });

async function stored(sql: Sql, lease: Lease): Promise<readonly StreamLine[]> {
  const page = await readStreamPage(sql, { ...lease, afterId: -1, maxRows: 10_000 });
  return page?.lines ?? [];
}

describe("a run's events", () => {
  it("start with metadata, are numbered from 0 without gaps, and come back as they were", async () => {
    const lease = await makeRunningRun(database.db);
    const { deps } = partsOf(database.db);
    const sink = openSink(deps, lease, noAbort());
    const awkward = { nul: "a\u0000b", surrogate: "\ud800", line: "a\nb\u2028c", quote: '"}', number: 1.5 };
    await sink.push({ event: "values|a:b", json: JSON.stringify(awkward) });
    await sink.drain();
    expect(await sink.finish([{ event: "error", json: "{}" }])).toEqual([{ id: 2, event: "error", json: "{}" }]);
    expect(await stored(database.db, lease)).toEqual([
      { id: 0, event: "metadata", json: JSON.stringify({ run_id: lease.runId, attempt: 1 }) },
      { id: 1, event: "values|a:b", json: JSON.stringify(awkward) },
    ]);
  });

  it("that nobody watches wait for the settling, which gets those that are not stored yet", async () => {
    const lease = await makeRunningRun(database.db);
    const { deps, statements } = partsOf(database.db);
    const sink = openSink(deps, lease, noAbort(), { watched: false });
    await sink.push(event(1));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await sink.finish([event(2)])).map(({ id, event: name }) => [id, name])).toEqual([
      [0, "metadata"],
      [1, "custom"],
      [2, "custom"],
    ]);
    expect(statements).toEqual([]);
  });

  it("that many runs store at the same time share statements, and one of them that lost its lease fails alone", async () => {
    const leases = await Promise.all(Array.from({ length: 20 }, () => makeRunningRun(database.db)));
    const { deps, statements } = partsOf(database.db);
    const append = createStreamAppender(deps);
    const sinks = leases.map((lease, i) => {
      const own = i === 7 ? { ...lease, owner: "somebody else" } : lease;
      return createStreamSink(deps, own, noAbort(), { append, watched: true });
    });
    const drained = await Promise.allSettled(sinks.map((sink) => sink.drain()));
    expect(drained.map(({ status }) => status).filter((status) => status === "rejected")).toHaveLength(1);
    expect(drained[7]).toMatchObject({ reason: { code: "lease_lost" } });
    for (const [i, lease] of leases.entries()) expect(await stored(database.db, lease)).toHaveLength(i === 7 ? 0 : 1);
    expect(statements.length).toBeLessThan(4);
  });

  it("of a later attempt have higher ids", async () => {
    const lease = await makeRunningRun(database.db, { attempt: 3 });
    const sink = openSink(partsOf(database.db).deps, lease, noAbort());
    await sink.drain();
    expect((await stored(database.db, lease)).map(({ id }) => id)).toEqual([2_000_000_000]);
  });

  it("are batched: 2,000 tokens take few statements and few notifications", async () => {
    const lease = await makeRunningRun(database.db);
    const parts = partsOf(database.db);
    const sink = openSink(parts.deps, lease, noAbort());
    for (let n = 0; n < 2_000; n++) {
      await sink.push(event(n));
      if (n % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await sink.drain();
    expect(parts.statements.length).toBeLessThan(100);
    expect(parts.notified.length).toBe(parts.statements.length);
    expect(new Set(parts.notified)).toEqual(new Set([lease.runId]));
    const lines = await stored(database.db, lease);
    expect(lines.slice(1).map(({ json }) => (JSON.parse(json) as { n: number }).n)).toEqual(
      Array.from({ length: 2_000 }, (_, n) => n),
    );
  });

  it("larger than a batch are stored whole", async () => {
    const lease = await makeRunningRun(database.db);
    const sink = openSink(partsOf(database.db).deps, lease, noAbort());
    const large = ["€", "ß", "x"].map((letter) => JSON.stringify(letter.repeat(200_000)));
    for (const json of large) await sink.push({ event: "custom", json });
    await sink.drain();
    expect((await stored(database.db, lease)).slice(1).map(({ json }, n) => json === large[n])).toEqual([
      true,
      true,
      true,
    ]);
  });
});

describe("the fence", () => {
  it.each([
    ["another attempt", { attempt: 2 }],
    ["another owner", { owner: "somebody else" }],
  ])("refuses events of %s", async (_name, other) => {
    const lease = await makeRunningRun(database.db);
    const sink = openSink(partsOf(database.db).deps, { ...lease, ...other }, noAbort());
    await expect(sink.drain()).rejects.toMatchObject({ code: "lease_lost" });
    await expect(sink.push(event(1))).rejects.toMatchObject({ code: "lease_lost" });
    expect(await stored(database.db, lease)).toEqual([]);
  });

  it("refuses events of a run that was cancelled in between, and keeps those before", async () => {
    const lease = await makeRunningRun(database.db);
    const sink = openSink(partsOf(database.db).deps, lease, noAbort());
    await sink.push(event(1));
    await sink.drain();
    await database.db.query(
      `update runs set status = 'interrupted', lease_owner = null, lease_expires_at = null, head = false,
        finished_at = now() where run_id = $1`,
      [lease.runId],
    );
    await sink.push(event(2));
    await expect(sink.drain()).rejects.toMatchObject({ code: "lease_lost" });
    expect(await stored(database.db, lease)).toHaveLength(2);
  });

  it("holds against a takeover that commits while the append waits for the run's row", async () => {
    const lease = await makeRunningRun(database.db);
    const { deps } = partsOf(database.db);
    let sink: StreamSink | undefined;
    await database.db.tx(async (sql) => {
      await sql.query("update runs set attempt = attempt + 1 where run_id = $1", [lease.runId]);
      sink = openSink(deps, lease, noAbort());
      await waitForLockWaiter(database.db);
    });
    await expect(sink?.drain()).rejects.toMatchObject({ code: "lease_lost" });
    expect(await stored(database.db, lease)).toEqual([]);
  });
});

describe("a database that goes away", () => {
  it("delays events and loses none", async () => {
    const lease = await makeRunningRun(database.db);
    const parts = partsOf(database.db);
    let failures = 3;
    parts.failWith(() => (failures-- > 0 ? Object.assign(new Error("away"), { code: "57P01" }) : undefined));
    const sink = openSink(parts.deps, lease, noAbort());
    await sink.push(event(1));
    await sink.drain();
    expect((await stored(database.db, lease)).map(({ id }) => id)).toEqual([0, 1]);
  });

  it("and answers nothing although it stored: the repetition changes nothing", async () => {
    const lease = await makeRunningRun(database.db);
    const parts = partsOf(database.db);
    let lost = true;
    const { query } = parts.deps.db;
    parts.deps.db = {
      ...parts.deps.db,
      async query(text, values) {
        const result = await query(text, values);
        if (lost) {
          lost = false;
          throw Object.assign(new Error("reply lost"), { code: "ECONNRESET" });
        }
        return result as never;
      },
    };
    const sink = openSink(parts.deps, lease, noAbort());
    await sink.push(event(1));
    await sink.drain();
    expect((await stored(database.db, lease)).map(({ id }) => id)).toEqual([0, 1]);
  });

  it("by a crash, taking rows that were not on disk yet: they are stored again under their ids", async () => {
    const lease = await makeRunningRun(database.db);
    const sink = openSink(partsOf(database.db).deps, lease, noAbort());
    for (let n = 1; n <= 3; n++) {
      await sink.push(event(n));
      await sink.drain();
    }
    await database.db.query("delete from stream_chunks where run_id = $1 and first_id > 0", [lease.runId]);
    await sink.push(event(4));
    await sink.drain();
    expect((await stored(database.db, lease)).map(({ id }) => id)).toEqual([0, 1, 2, 3, 4]);
  });

  it("is not waited for once the run is aborted", async () => {
    const lease = await makeRunningRun(database.db);
    const parts = partsOf(database.db);
    parts.failWith(() => Object.assign(new Error("away"), { code: "57P01" }));
    const abort = new AbortController();
    const sink = openSink(parts.deps, lease, abort.signal);
    const drained = expect(sink.drain()).rejects.toThrow("heartbeat lost");
    abort.abort(new Error("heartbeat lost"));
    await drained;
  });

  it("makes who pushes wait when too much is not stored yet", async () => {
    const lease = await makeRunningRun(database.db);
    const parts = partsOf(database.db);
    let away = true;
    parts.failWith(() => (away ? Object.assign(new Error("away"), { code: "57P01" }) : undefined));
    const sink = openSink(parts.deps, lease, noAbort());
    const mega = (letter: string) => ({ event: "custom", json: JSON.stringify(letter.repeat(1024 * 1024)) });
    for (const letter of "abc") await sink.push(mega(letter));
    let waited = true;
    const pushed = sink.push(mega("d")).then(() => (waited = false));
    await new Promise((resolve) => setImmediate(resolve));
    expect(waited).toBe(true);
    away = false;
    await pushed;
    await sink.drain();
    expect(await stored(database.db, lease)).toHaveLength(5);
  });
});

it("appends don't wait for the disk, and no other statement does the same", async () => {
  const lease = await makeRunningRun(database.db);
  const seen: string[] = [];
  await database.db.tx(async (sql) => {
    const show = async () => {
      const { rows } = await sql.query<{ value: string }>("select current_setting('synchronous_commit') as value");
      seen.push(rows[0]?.value ?? "");
    };
    await show();
    const sink = openSink({ ...partsOf(database.db).deps, db: { ...database.db, query: sql.query } }, lease, noAbort());
    await sink.drain();
    await show();
  });
  expect(seen).toEqual(["on", "off"]);
  const { rows } = await database.db.query<{ value: string }>("select current_setting('synchronous_commit') as value");
  expect(rows[0]?.value).toBe("on");
});

it("a row's lines are cut without parsing their data", () => {
  expect(parseLines('{"id":7,"event":"a\\"b","data":{"data":"}"}}\n{"id":8,"event":"c","data":null}')).toEqual([
    { id: 7, event: 'a"b', json: '{"data":"}"}' },
    { id: 8, event: "c", json: "null" },
  ]);
});

async function waitForLockWaiter(db: Db): Promise<void> {
  for (;;) {
    const { rows } = await db.query<{ waiting: boolean }>(
      `select exists (
        select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
      ) as waiting`,
    );
    if (rows[0]?.waiting === true) return;
  }
}
