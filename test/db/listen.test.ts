import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Clock } from "../../src/core/clock.js";
import type { Db, Notifier } from "../../src/core/deps.js";
import { createNotifier } from "../../src/db/listen.js";
import { openDb } from "../../src/db/pool.js";
import { createLog } from "../../src/observe/log.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { startProxy, through } from "../helpers/proxy.js";
import { testClock } from "../helpers/stream.js";
import { until } from "../helpers/wait.js";

const log = createLog("silent");
let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.close());

type Open = Notifier & { close(): Promise<void> };
function open(listenUrl: string | null = database.url, db: Db = database.db, clock: Clock = testClock): Open {
  return createNotifier({ db, listenUrl, log, clock, random: Math.random });
}

/** A notifier that listens to `runs`, with what it heard; `undefined` stands for "some may have been missed". */
async function listening(url = database.url): Promise<{ notifier: Open; heard: (string | undefined)[] }> {
  const notifier = open(url);
  const heard: (string | undefined)[] = [];
  notifier.listen("runs", (id) => heard.push(id));
  await until("it listens", () => heard.length > 0);
  return { notifier, heard };
}

describe("a notification", () => {
  it("reaches every process once, its own as well, and only who listens to the topic", async () => {
    const here = await listening();
    const there = await listening();
    here.notifier.notify("timers", "b");
    here.notifier.notify("runs", "a");
    await until("both have heard", () => here.heard.length > 1 && there.heard.length > 1);
    there.notifier.notify("runs");
    await until("both have heard again", () => here.heard.length > 2 && there.heard.length > 2);
    expect(here.heard).toEqual([undefined, "a", undefined]);
    expect(there.heard).toEqual([undefined, "a", undefined]);
    await here.notifier.close();
    await there.notifier.close();
  });

  it("a burst of them goes out as a few statements, each below Postgres' limit", async () => {
    const there = await listening();
    let statements = 0;
    const counting: Db = { ...database.db, query: (text, values) => (statements++, database.db.query(text, values)) };
    const here = open(null, counting);
    const ids = Array.from({ length: 2_000 }, () => crypto.randomUUID());
    for (const id of ids) here.notify("stream", id);
    for (const id of ids) here.notify("runs", id);
    await until("all have been heard", () => there.heard.length > 2_000);
    expect(there.heard.slice(1)).toEqual(ids);
    expect(statements).toBeLessThan(5);
    await here.close();
    await there.notifier.close();
  });

  it("costs no statement while nobody else listens, and is sent again as soon as somebody does", async () => {
    let statements = 0;
    const counting: Db = { ...database.db, query: (text, values) => (statements++, database.db.query(text, values)) };
    // It counts who listens every few seconds; here they are shorter.
    const fast: Clock = { ...testClock, sleep: (ms, signal) => testClock.sleep(ms / 20, signal) };
    const here = open(database.url, counting, fast);
    const heard: (string | undefined)[] = [];
    here.listen("runs", (id) => heard.push(id));
    await until("it listens", () => heard.length > 0);
    await until("it knows that it is alone", async () => {
      const before = statements;
      here.notify("runs", "alone");
      await new Promise((resolve) => setTimeout(resolve, 50));
      return statements === before;
    });
    expect(heard.at(-1)).toBe("alone");
    const there = await listening();
    await until("there hears it", () => {
      here.notify("runs", "together");
      return there.heard.includes("together");
    });
    await here.close();
    await there.notifier.close();
  });

  it("that can't be sent troubles nobody", async () => {
    const nowhere = openDb({ url: "postgres://x@127.0.0.1:1/x", max: 1, log, applicationName: "nowhere" });
    const notifier = open(null, nowhere);
    const heard: unknown[] = [];
    notifier.listen("runs", (id) => heard.push(id));
    notifier.notify("runs", "a");
    await notifier.close();
    expect(heard).toEqual(["a"]);
    await nowhere.close();
  });

  it("a listener that throws does not keep it from the others", async () => {
    const notifier = open(null);
    const heard: unknown[] = [];
    notifier.listen("runs", () => {
      throw new Error("no");
    });
    notifier.listen("runs", (id) => heard.push(id));
    notifier.notify("runs", "a");
    await notifier.close();
    expect(heard).toEqual(["a"]);
  });
});

describe("the listening connection", () => {
  it("comes back after a break and says that some may have been missed", async () => {
    const proxy = await startProxy(database.url);
    const { notifier, heard } = await listening(through(proxy, database.url));
    proxy.cut();
    await until("it listens again", () => heard.length > 1);
    const sender = open(null);
    sender.notify("runs", "after");
    await until("it hears again", () => heard.length > 2);
    expect(heard).toEqual([undefined, undefined, "after"]);
    await sender.close();
    await notifier.close();
    await proxy.close();
  });

  it("waits for a server that isn't there yet", async () => {
    const proxy = await startProxy(database.url);
    proxy.faults.refusing = true;
    const notifier = open(through(proxy, database.url));
    const heard: unknown[] = [];
    notifier.listen("runs", (id) => heard.push(id));
    proxy.faults.refusing = false;
    await until("it listens", () => heard.length > 0);
    await notifier.close();
    await proxy.close();
  });

  it("is gone after close, even when it never got through", async () => {
    const notifier = open("postgres://x@127.0.0.1:1/x");
    notifier.listen("runs", () => undefined);
    await notifier.close();
  });
});
