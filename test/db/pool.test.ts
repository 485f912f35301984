import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Db, Sql } from "../../src/core/deps.js";
import { isTransientDbError } from "../../src/core/retry.js";
import { binaryArray, plainArray } from "../../src/db/arrays.js";
import { openDb } from "../../src/db/pool.js";
import { retryTransient } from "../../src/db/retry-transient.js";
import { createLog } from "../../src/observe/log.js";
import { createTestDatabase, type TestDatabase } from "../helpers/database.js";
import { startProxy, through } from "../helpers/proxy.js";
import { testClock } from "../helpers/stream.js";
import { until } from "../helpers/wait.js";

const log = createLog("silent");
let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = database.db;
});
afterAll(() => database.close());

const pid = async (): Promise<number> => {
  const { rows } = await db.query<{ pid: number }>("select pg_backend_pid() as pid");
  return rows[0]!.pid;
};

describe("values", () => {
  it("int8 arrives as a number, and one that a number can't hold is refused", async () => {
    const { rows } = await db.query("select 5::int8 as one, array[1, null, 3]::int8[] as many, '{}'::int8[] as none");
    expect(rows).toEqual([{ one: 5, many: [1, null, 3], none: [] }]);
    await expect(db.query("select 9007199254740993::int8")).rejects.toThrow(RangeError);
  });

  it("bytea, timestamptz and jsonb arrive as Buffer, Date and parsed", async () => {
    const { rows } = await db.query(
      `select '\\x00ff'::bytea as bytes, array['\\x01'::bytea] as many, '{"a":1}'::jsonb as json,
        '2026-01-02T03:04:05Z'::timestamptz as at`,
    );
    expect(rows).toEqual([
      { bytes: Buffer.from([0, 255]), many: [Buffer.from([1])], json: { a: 1 }, at: new Date("2026-01-02T03:04:05Z") },
    ]);
  });
});

describe("a parameter of many byte strings", () => {
  it("arrives as they are, empty ones and nulls too, alone and in a transaction", async () => {
    const bytes = [Buffer.alloc(0), null, Buffer.from([0, 255, 92, 34, 123]), Buffer.alloc(3_000, 7)];
    for (const items of [bytes, [], [null]]) {
      const ask = (sql: Sql) =>
        sql.query("select $1::bytea[] as items, $2::int as n", [binaryArray("bytea", items), 1]);
      expect((await ask(db)).rows).toEqual([{ items, n: 1 }]);
      expect((await db.tx(ask)).rows).toEqual([{ items, n: 1 }]);
    }
    const { rows } = await db.query("select cardinality($1::bytea[]) as n, array_lower($1::bytea[], 1) as first", [
      binaryArray("bytea", bytes),
    ]);
    expect(rows).toEqual([{ n: 4, first: 1 }]);
  });
});

describe("a parameter of many texts", () => {
  it("arrives as they are: quotes, backslashes, nothing, null, several bytes a character", async () => {
    const texts = ['a "quoted" \\ one', "", null, "null", "{1,2}", "ä€😀", "x".repeat(3_000)];
    const jsons = ['["\\"a\\"", 1]', null];
    const { rows } = await db.query("select $1::text[] as texts, $2::json[] as jsons, $3::int[] as ints", [
      binaryArray("text", texts),
      binaryArray("json", jsons),
      plainArray([1, null, -2]),
    ]);
    expect(rows).toEqual([{ texts, jsons: [['"a"', 1], null], ints: [1, null, -2] }]);
  });
});

describe("a statement's error is not the connection's", () => {
  it("the connection goes on after it", async () => {
    const before = await pid();
    await expect(db.query("select 1 / 0")).rejects.toMatchObject({ code: "22012" });
    expect(await pid()).toBe(before);
  });

  it("a value that can't be sent leaves it usable", async () => {
    const unsendable = {
      toPostgres() {
        throw new TypeError("no");
      },
    };
    await expect(db.query("select $1::text", [unsendable])).rejects.toThrow(TypeError);
    expect(await pid()).toBeGreaterThan(0);
  });
});

describe("transactions", () => {
  it("what throws is rolled back", async () => {
    const failing = db.tx(async (sql) => {
      await sql.query("insert into tenants (tenant_id) values ('gone')");
      throw new Error("changed my mind");
    });
    await expect(failing).rejects.toThrow("changed my mind");
    expect((await db.query("select from tenants where tenant_id = 'gone'")).rowCount).toBe(0);
  });

  it("a swallowed failure is not reported as a commit", async () => {
    const swallowing = db.tx(async (sql) => {
      await sql.query("select 1 / 0").catch(() => undefined);
    });
    await expect(swallowing).rejects.toMatchObject({ code: "internal" });
  });

  it("a statement sent after its end is refused", async () => {
    const late = await db.tx(async (sql) => () => sql.query("select 1"));
    await expect(late()).rejects.toMatchObject({ code: "internal" });
  });

  it("they are read committed, whatever the database's default is", async () => {
    await db.query("set default_transaction_isolation = 'serializable'");
    const { rows } = await db.tx((sql) => sql.query("show transaction_isolation"));
    await db.query("reset default_transaction_isolation");
    expect(rows).toEqual([{ transaction_isolation: "read committed" }]);
  });
});

describe("connections that are lost", () => {
  it("an idle one that the server ends is replaced without anybody noticing", async () => {
    const before = await pid();
    const other = openDb({ url: database.url, max: 1, log, applicationName: "killer" });
    await other.query("select pg_terminate_backend($1)", [before]);
    await other.close();
    const after = await retryTransient(pid, { clock: testClock, random: Math.random, deadlineMs: 5_000 });
    expect(after).not.toBe(before);
  });

  it("one that is ended in the middle of a transaction fails it as transient, and the process goes on", async () => {
    const ended = db.tx(async (sql) => {
      const { rows } = await sql.query<{ pid: number }>("select pg_backend_pid() as pid");
      await db.query("select pg_terminate_backend($1)", [rows[0]!.pid]);
      await sql.query("select 1");
    });
    const error = await ended.then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(isTransientDbError(error)).toBe(true);
    expect(await pid()).toBeGreaterThan(0);
  });

  it("one that leads to a read-only server is dropped, so that the next reaches the new primary", async () => {
    const [, name] = new URL(database.url).pathname.split("/");
    const url = database.url;
    await db.query(`alter database ${name} set default_transaction_read_only = on`);
    const failedOver = openDb({ url, max: 1, log, applicationName: "failover" });
    const write = () => failedOver.query("update tenants set max_running = max_running");
    await expect(write()).rejects.toMatchObject({ code: "25006" });
    await db.tx(async (sql) => {
      await sql.query("set transaction read write");
      await sql.query(`alter database ${name} reset default_transaction_read_only`);
    });
    expect((await write()).rowCount).toBe(1);
    await failedOver.close();
  });
});

describe("a network that fails", () => {
  it("refused, reset and silent connections are all transient, and work goes on when it is back", async () => {
    const proxy = await startProxy(database.url);
    const far = openDb({
      url: through(proxy, database.url),
      max: 2,
      log,
      applicationName: "far",
      statementTimeoutMs: 300,
    });
    // The client gives a silent connection up 5 s after the server should have.
    const ask = () => far.query<{ n: number }>("select 1 as n");
    expect((await ask()).rows).toEqual([{ n: 1 }]);

    proxy.faults.refusing = true;
    proxy.cut();
    await until("a refused connection is transient", () => ask().then(() => false, isTransientDbError));

    proxy.faults.refusing = false;
    expect((await retryTransient(ask, { clock: testClock, random: Math.random, deadlineMs: 5_000 })).rows).toEqual([
      { n: 1 },
    ]);

    proxy.faults.stalled = true;
    const error = await ask().then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(isTransientDbError(error)).toBe(true);
    proxy.faults.stalled = false;
    expect((await ask()).rows).toEqual([{ n: 1 }]);
    await far.close();
    await proxy.close();
  });

  it("a reply lost after the commit fails as transient, and the row is there", async () => {
    const proxy = await startProxy(database.url);
    const far = openDb({ url: through(proxy, database.url), max: 1, log, applicationName: "far" });
    await far.query("select 1");
    proxy.faults.loseReplyTo = "commit\0";
    const lost = far.tx((sql) => sql.query("insert into tenants (tenant_id) values ('kept')"));
    const error = await lost.then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(isTransientDbError(error)).toBe(true);
    expect(proxy.lostReplies()).toBe(1);
    expect((await db.query("select from tenants where tenant_id = 'kept'")).rowCount).toBe(1);
    await far.close();
    await proxy.close();
  });
});

describe("a prepared statement", () => {
  const single = () => openDb({ url: database.url, max: 1, log, applicationName: "prepared" });
  const kept = async (sql: Db) =>
    (await sql.query<{ name: string; statement: string }>("select name, statement from pg_prepared_statements")).rows;
  const BY_TENANT = "select max_running from tenants where tenant_id = $1";

  it("is kept by its connection, in and out of transactions; others are not", async () => {
    const one = single();
    const ask = (sql: Sql) => sql.query(BY_TENANT, ["default"], { prepared: true });
    const results = [await ask(one), await one.tx(ask), await ask(one)];
    expect(results.map(({ rowCount }) => rowCount)).toEqual([1, 1, 1]);
    await one.query("select $1::int", [1]);
    expect(await kept(one)).toEqual([{ name: expect.stringMatching(/^perdure_\w{40}$/), statement: BY_TENANT }]);
    await one.close();
  });

  it("that is unknown to the server is sent once more, and none is kept from then on", async () => {
    const one = single();
    const ask = () => one.query(BY_TENANT, ["default"], { prepared: true });
    await ask();
    await one.query("deallocate all"); // as a pooler does that hands out another connection
    expect((await ask()).rowCount).toBe(1);
    expect((await ask()).rowCount).toBe(1);
    expect(await kept(one)).toEqual([]);
    await one.close();
  });

  it("whose result a migration changed is sent once more, and kept again", async () => {
    const one = single();
    const ask = () => one.query("select n from changing", [], { prepared: true });
    await db.query("create table changing as select 1 as n");
    expect((await ask()).rows).toEqual([{ n: 1 }]);
    await db.query("alter table changing alter n type text");
    expect((await ask()).rows).toEqual([{ n: "1" }]);
    expect((await ask()).rows).toEqual([{ n: "1" }]);
    expect(await kept(one)).toHaveLength(1);
    await one.close();
  });

  it("is planned anew when its tables have grown", async () => {
    const one = single();
    const ask = () => one.query("select v from growing where id = $1", [1], { prepared: true });
    const now = vi.spyOn(performance, "now");
    await db.query("create table growing (id int primary key, v text)");
    await db.query("vacuum analyze growing");
    for (let n = 0; n < 10; n += 1) await ask();
    const plan = async () => {
      const [statement] = await kept(one);
      const { rows } = await one.query<{ "QUERY PLAN": string }>(`explain execute ${statement!.name}(1)`);
      return rows[0]!["QUERY PLAN"];
    };
    await db.query("alter table growing set (autovacuum_enabled = false)");
    await ask();
    expect(await plan()).toContain("Seq Scan");
    await db.query("insert into growing select n, 'x' from generate_series(1, 20000) n");
    expect(await plan()).toContain("Seq Scan");
    now.mockReturnValue(performance.now() + 31_000);
    await ask();
    expect(await plan()).toContain("Index Scan");
    now.mockRestore();
    await one.close();
  });
});

describe("what can't work", () => {
  it("a wrong database is a configuration error that says so", async () => {
    const url = new URL(database.url);
    url.pathname = "/no_such_database";
    const wrong = openDb({ url: url.toString(), max: 1, log, applicationName: "wrong" });
    await expect(wrong.query("select 1")).rejects.toMatchObject({
      code: "config_invalid",
      message: /3D000.*DATABASE_URL/,
    });
    await wrong.close();
  });

  it("no server is `unavailable`", async () => {
    const nobody = openDb({ url: "postgres://u:secret@127.0.0.1:1/x", max: 1, log, applicationName: "nobody" });
    const error: unknown = await nobody.query("select 1").catch((error: unknown) => error);
    expect(error).toMatchObject({ code: "unavailable", message: /ECONNREFUSED/ });
    expect(String(error)).not.toContain("secret");
    await nobody.close();
  });
});
