// PgBouncer in transaction mode between us and Postgres: no startup options, no session state, no LISTEN.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Db, Log } from "../../src/core/deps.js";
import { binaryArray } from "../../src/db/arrays.js";
import { createNotifier } from "../../src/db/listen.js";
import { checkSchema, migrate } from "../../src/db/migrate.js";
import { openDb } from "../../src/db/pool.js";
import { createLog } from "../../src/observe/log.js";
import { createEmptyDatabase, type TestDatabase } from "../helpers/database.js";
import { quietPort } from "../helpers/ports.js";
import { testClock } from "../helpers/stream.js";
import { until } from "../helpers/wait.js";

const log = createLog("silent");
const installed = (() => {
  try {
    execFileSync("pgbouncer", ["--version"]);
    return true;
  } catch {
    return false;
  }
})();

describe.skipIf(!installed).each([
  ["refuses startup options", ""],
  ["drops startup options", "ignore_startup_parameters = options"],
])("PgBouncer in transaction mode that %s (skipped where it is not installed)", (_, setting) => {
  let direct: TestDatabase;
  let pooler: { url: string; stop(): void };
  let db: Db;
  beforeAll(async () => {
    direct = await createEmptyDatabase();
    pooler = await startPooler(direct.url, setting);
    db = openDb({ url: pooler.url, max: 20, log, applicationName: "pooled" });
    await migrate(db);
  });
  afterAll(async () => {
    await db.close();
    pooler.stop();
    await direct.close();
  });

  it("finds its tables in statements and transactions, on whatever connection they land", async () => {
    await checkSchema(db);
    const single = () => db.query("select tenant_id from tenants where tenant_id = $1", ["default"]);
    const inTransaction = () => db.tx((sql) => sql.query("select tenant_id from tenants"));
    const all = await Promise.all(Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? single() : inTransaction())));
    expect(all.every(({ rowCount }) => rowCount === 1)).toBe(true);
  });

  it("takes many byte strings as one parameter", async () => {
    const items = [Buffer.from([0, 255]), null];
    expect((await db.query("select $1::bytea[] as items", [binaryArray("bytea", items)])).rows).toEqual([{ items }]);
  });

  it("keeps no statement prepared: the next transaction may be on another connection", async () => {
    const text = "select max_running from tenants where tenant_id = $1";
    const single = () => db.query(text, ["default"], { prepared: true });
    const inTransaction = () => db.tx((sql) => sql.query(text, ["default"], { prepared: true }));
    await Promise.all(Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? single() : inTransaction())));
    const kept = () => db.query<{ n: number }>("select count(*) as n, pg_sleep(0.02) from pg_prepared_statements");
    for (const { rows } of await Promise.all(Array.from({ length: 8 }, kept))) expect(rows[0]?.n).toBe(0);
  });

  it("has its limits, and leaks nothing of them into the pooler's connections", async () => {
    const limits = "select current_setting('statement_timeout') as statement";
    expect((await db.query(limits)).rows).toEqual([{ statement: "30s" }]);
    expect((await db.tx((sql) => sql.query(limits))).rows).toEqual([{ statement: "30s" }]);
    await expect(db.query("select 1 / 0")).rejects.toMatchObject({ code: "22012" });
    const { rows } = await direct.db.query(
      "select from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())",
    );
    expect(rows).toEqual([]);
  });

  it("says that LISTEN can't work there, and notifies all the same", async () => {
    const warnings: string[] = [];
    const warning: Log = { ...log, debug() {}, warn: (_fields, message) => warnings.push(message) };
    const notifier = createNotifier({ db, listenUrl: pooler.url, log: warning, clock: testClock, random: Math.random });
    const ear = createNotifier({ db, listenUrl: direct.url, log, clock: testClock, random: Math.random });
    const heard: unknown[] = [];
    notifier.listen("runs", () => undefined);
    ear.listen("runs", (id) => heard.push(id));
    await until("the direct one listens", () => heard.length > 0);
    await until("the pooled one has given up", () => warnings.length > 0);
    notifier.notify("runs", "a");
    await until("it was heard", () => heard.includes("a"));
    expect(warnings).toEqual([expect.stringContaining("PERDURE_LISTEN_URL")]);
    await notifier.close();
    await ear.close();
  });
});

async function startPooler(url: string, setting: string): Promise<{ url: string; stop(): void }> {
  const { hostname, port, username, password } = new URL(url);
  const home = mkdtempSync(path.join(os.tmpdir(), "perdure-pgbouncer-"));
  const config = path.join(home, "pgbouncer.ini");
  const listenPort = await quietPort();
  const login = `user=${username}${password && ` password=${password}`}`;
  writeFileSync(
    config,
    `[databases]
* = host=${hostname} port=${port} ${login}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${listenPort}
auth_type = any
pool_mode = transaction
default_pool_size = 4
unix_socket_dir =
${setting}
`,
  );
  chmodSync(home, 0o755);
  // It refuses to run as root.
  const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
  const child: ChildProcess = spawn("pgbouncer", [config], { ...user, stdio: "ignore" });
  const pooled = new URL(url);
  pooled.host = `127.0.0.1:${listenPort}`;
  await until("PgBouncer listens", () => canConnect(listenPort));
  return {
    url: pooled.toString(),
    stop() {
      child.kill("SIGKILL");
      rmSync(home, { recursive: true, force: true });
    },
  };
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}
