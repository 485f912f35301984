import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Lease } from "../../src/core/clock.js";
import type { Deps } from "../../src/core/deps.js";
import type { BodyReader } from "../../src/checkpoint/body-reader.js";
import { createReads } from "../../src/engine/reads.js";
import { createNotifier } from "../../src/db/listen.js";
import { awaitRun } from "../../src/engine/stream/await-run.js";
import { type ReadStreamOptions, readStream } from "../../src/engine/stream/reader.js";
import { createLog } from "../../src/observe/log.js";
import { insertStreamChunks } from "../../src/runs/stream-chunks.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { finishRun, makeRunningRun, openSink, testClock } from "../helpers/stream.js";

let database: TestDatabase;
/** Two processes: one writes, the other watches. */
let writer: Deps & { notifier: ReturnType<typeof createNotifier> };
let watcher: typeof writer;

beforeAll(async () => {
  database = await createTestDatabase();
  writer = process();
  watcher = process();
});
afterAll(async () => {
  await writer.notifier.close();
  await watcher.notifier.close();
  await database.close();
});

function process(): typeof writer {
  const log = createLog("silent");
  const notifier = createNotifier({
    db: database.db,
    listenUrl: database.url,
    log,
    clock: testClock,
    random: () => 0.5,
  });
  // Nothing here reaches for bodies or ids.
  return { db: database.db, notifier, log, clock: testClock, random: () => 0.5 } as unknown as typeof writer;
}

const stops: AbortController[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop.abort();
});

function watch(lease: Lease, options: Partial<ReadStreamOptions> = {}, deps: Deps = watcher) {
  const stop = new AbortController();
  stops.push(stop);
  const items = readStream(deps, {
    tenantId: lease.tenantId,
    runId: lease.runId,
    afterId: -1,
    signal: stop.signal,
    heartbeatMs: 60_000,
    pollMs: 60_000,
    ...options,
  });
  return { items, stop };
}

async function ids(items: AsyncIterable<{ kind: string; line?: { id: number } }>): Promise<number[]> {
  const seen: number[] = [];
  for await (const item of items) if (item.line !== undefined) seen.push(item.line.id);
  return seen;
}

const event = (n: number) => ({ event: "custom", json: String(n) });
const sinkOf = (lease: Lease) => openSink(writer, lease, new AbortController().signal);

describe("who watches a run", () => {
  it("sees in another process what comes, and the end", async () => {
    const lease = await makeRunningRun(database.db);
    const sink = sinkOf(lease);
    const { items } = watch(lease);
    const seen = ids(items);
    for (let n = 0; n < 50; n++) {
      await sink.push(event(n));
      if (n % 10 === 0) await sink.drain();
    }
    await sink.drain();
    await database.db.tx(async (sql) => {
      await insertStreamChunks(sql, lease, await sink.finish([event(50)]));
      await finishRun(sql, lease);
    });
    writer.notifier.notify("stream", lease.runId);
    expect(await seen).toEqual(Array.from({ length: 52 }, (_, n) => n));
  });

  it("comes back as often as it likes, each time with the last id, and sees each event once", async () => {
    const lease = await makeRunningRun(database.db);
    const sink = sinkOf(lease);
    const producer = (async () => {
      for (let n = 1; n <= 500; n++) {
        await sink.push(event(n));
        if (n % 7 === 0) await new Promise((resolve) => setTimeout(resolve, 3));
      }
      await sink.drain();
      await finishRun(database.db, lease);
      writer.notifier.notify("stream", lease.runId);
    })();
    const seen: number[] = [];
    let ended = false;
    for (let visit = 0; !ended; visit++) {
      const { items, stop } = watch(lease, { afterId: seen.at(-1) ?? -1 }, visit % 2 === 0 ? watcher : writer);
      let left = 40 + visit;
      ended = true;
      for await (const item of items) {
        if (item.kind === "line") seen.push(item.line.id);
        if (--left > 0) continue;
        ended = false;
        stop.abort();
      }
    }
    await producer;
    expect(seen).toEqual(Array.from({ length: 501 }, (_, n) => n));
  });

  it("gets the same events again as were seen live, to the letter", async () => {
    const lease = await makeRunningRun(database.db);
    const sink = sinkOf(lease);
    await sink.push({ event: "values", json: '{"b":1,"a":[1.50,"\\u0000"]}' });
    await sink.drain();
    await finishRun(database.db, lease);
    const lines = [];
    for await (const item of watch(lease, { afterId: 0 }).items) lines.push(item);
    expect(lines).toEqual([{ kind: "line", line: { id: 1, event: "values", json: '{"b":1,"a":[1.50,"\\u0000"]}' } }]);
  });

  it("without an id sees only what comes from then on, and of a finished run nothing", async () => {
    const lease = await makeRunningRun(database.db);
    const sink = sinkOf(lease);
    await sink.push(event(1));
    await sink.drain();
    const { items } = watch(lease, { afterId: undefined, heartbeatMs: 1 });
    // A heartbeat says that it is there and waits.
    expect((await items.next()).value).toEqual({ kind: "heartbeat" });
    await sink.push(event(2));
    await sink.drain();
    await finishRun(database.db, lease);
    writer.notifier.notify("stream", lease.runId);
    expect(await ids(items)).toEqual([2]);
    expect(await ids(watch(lease, { afterId: undefined }).items)).toEqual([]);
  });

  it("is let go when the run is cancelled from outside", async () => {
    const lease = await makeRunningRun(database.db);
    await sinkOf(lease).drain();
    const seen = ids(watch(lease).items);
    await finishRun(database.db, lease, "interrupted");
    writer.notifier.notify("stream", lease.runId);
    expect(await seen).toEqual([0]);
  });

  it("is let go when the run is deleted, and when it never was", async () => {
    const lease = await makeRunningRun(database.db);
    await sinkOf(lease).drain();
    const seen = ids(watch(lease).items);
    await database.db.query("delete from runs where run_id = $1", [lease.runId]);
    writer.notifier.notify("stream", lease.runId);
    await seen;
    expect(await ids(watch(lease).items)).toEqual([]);
  });

  it("hears of everything by polling when no notification comes", async () => {
    const lease = await makeRunningRun(database.db);
    const deaf = { ...watcher, notifier: { notify: () => {}, listen: () => () => {} } };
    const seen = ids(watch(lease, { pollMs: 20 }, deaf).items);
    await sinkOf(lease).drain();
    await finishRun(database.db, lease);
    expect(await seen).toEqual([0]);
  });

  it("gets heartbeats while the run sleeps, and the next attempt's events on the same stream", async () => {
    const lease = await makeRunningRun(database.db);
    await sinkOf(lease).drain();
    await database.db.query(
      "update runs set status = 'pending', lease_owner = null, lease_expires_at = null where run_id = $1",
      [lease.runId],
    );
    const { items } = watch(lease, { heartbeatMs: 5 });
    const kinds: string[] = [];
    for (let n = 0; n < 4; n++) kinds.push(((await items.next()).value as { kind: string }).kind);
    expect(kinds).toEqual(["line", "heartbeat", "heartbeat", "heartbeat"]);
    const second = { ...lease, attempt: 2, owner: "second" };
    await database.db.query(
      `update runs set status = 'running', attempt = 2, lease_owner = 'second', lease_expires_at = now() + interval '1 hour'
      where run_id = $1`,
      [lease.runId],
    );
    await sinkOf(second).drain();
    await finishRun(database.db, second);
    writer.notifier.notify("stream", lease.runId);
    expect(await ids(items)).toEqual([1_000_000_000]);
  });

  it("gets states whole that are stored in pieces, wherever it comes in", async () => {
    const lease = await makeRunningRun(database.db);
    const sink = sinkOf(lease);
    const states = Array.from({ length: 60 }, (_, n) =>
      JSON.stringify(Array.from({ length: n }, (__, i) => `${i} `.repeat(50))),
    );
    for (const json of states) {
      await sink.push({ event: "values", json });
      await sink.drain();
    }
    const live = watch(lease, { afterId: undefined, heartbeatMs: 1 });
    expect((await live.items.next()).value).toEqual({ kind: "heartbeat" });
    const last = JSON.stringify([...(JSON.parse(states.at(-1) ?? "") as string[]), "the last"]);
    await sink.push({ event: "values", json: last });
    await sink.drain();
    await finishRun(database.db, lease);
    writer.notifier.notify("stream", lease.runId);
    const texts = async (items: AsyncIterable<{ kind: string; line?: { json: string } }>) => {
      const seen: string[] = [];
      for await (const { line } of items) if (line !== undefined) seen.push(line.json);
      return seen;
    };
    expect(await texts(live.items)).toEqual([last]);
    for (const afterId of [0, 1, 30, 59, 60]) {
      expect(await texts(watch(lease, { afterId }).items)).toEqual([...states, last].slice(afterId));
    }
    const { rows } = await database.db.query<{ stored: number }>(
      "select sum(length(lines))::int as stored from stream_chunks where run_id = $1",
      [lease.runId],
    );
    expect(rows[0]?.stored).toBeLessThan(states.reduce((sum, { length }) => sum + length, 0) / 4);
  });

  it("reads a long stream page by page, however slowly", async () => {
    const lease = await makeRunningRun(database.db);
    for (let n = 0; n < 100; n++) {
      await insertStreamChunks(database.db, lease, [
        { id: n * 2, ...event(n) },
        { id: n * 2 + 1, ...event(n) },
      ]);
    }
    await finishRun(database.db, lease);
    expect(await ids(watch(lease, { afterId: 62 }).items)).toEqual(Array.from({ length: 137 }, (_, n) => n + 63));
  });

  it("stays through an outage of the database", async () => {
    const lease = await makeRunningRun(database.db);
    await sinkOf(lease).drain();
    let away = true;
    const shaky: Deps = {
      ...watcher,
      db: {
        ...watcher.db,
        query: (text, values) =>
          away ? Promise.reject(Object.assign(new Error("away"), { code: "57P01" })) : watcher.db.query(text, values),
      },
    };
    const { items } = watch(lease, { heartbeatMs: 5, pollMs: 10 }, shaky);
    expect((await items.next()).value).toEqual({ kind: "heartbeat" });
    await finishRun(database.db, lease);
    away = false;
    expect(await ids(items)).toEqual([0]);
  });
});

describe("who waits for a run", () => {
  it("gets it when it has ended, also from outside", async () => {
    const lease = await makeRunningRun(database.db);
    const waiting = awaitRun(
      { deps: watcher, reads: createReads(watcher, {} as BodyReader) },
      { ...lease, signal: new AbortController().signal, pollMs: 60_000 },
    );
    await finishRun(database.db, lease, "interrupted");
    writer.notifier.notify("ended", lease.runId);
    expect(await waiting).toMatchObject({ runId: lease.runId, status: "interrupted" });
  });

  it("can leave", async () => {
    const lease = await makeRunningRun(database.db);
    const stop = new AbortController();
    const waiting = awaitRun(
      { deps: watcher, reads: createReads(watcher, {} as BodyReader) },
      { ...lease, signal: stop.signal },
    );
    stop.abort();
    expect(await waiting).toBeUndefined();
  });

  it("is told when the run is deleted", async () => {
    const lease = await makeRunningRun(database.db);
    const waiting = awaitRun(
      { deps: watcher, reads: createReads(watcher, {} as BodyReader) },
      { ...lease, signal: new AbortController().signal, pollMs: 20 },
    );
    const refused = expect(waiting).rejects.toMatchObject({ code: "not_found" });
    await database.db.query("delete from runs where run_id = $1", [lease.runId]);
    await refused;
  });
});
