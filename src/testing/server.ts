// Databases for tests: on a server that is given, or on an embedded one that lives as long as the process needs it.
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import type { Log } from "../core/deps.js";
import { startEmbeddedPostgres } from "../db/embedded/server.js";
import { openDb } from "../db/pool.js";

export type TestDatabase = Readonly<{ url: string; drop(): Promise<void> }>;
type Server = Readonly<{ url: string; stop(): Promise<void> }>;

let embedded: Promise<Server> | undefined;
let users = 0;

/** A new, empty database. `serverUrl` is of a server where databases may be made. */
export async function createDatabase(serverUrl: string | undefined, log: Log): Promise<TestDatabase> {
  const server = serverUrl === undefined ? await useEmbedded(log) : { url: serverUrl, stop: () => Promise.resolve() };
  const name = `perdure_testing_${randomUUID().replaceAll("-", "")}`;
  await onServer(server.url, log, `create database ${name}`);
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  return {
    url: url.toString(),
    async drop() {
      await onServer(server.url, log, `drop database if exists ${name} with (force)`);
      await server.stop();
    },
  };
}

async function onServer(url: string, log: Log, text: string): Promise<void> {
  const db = openDb({ url, max: 1, log, applicationName: "perdure testing" });
  try {
    await db.query(text);
  } finally {
    await db.close();
  }
}

/** One for the whole process, stopped by the last that uses it. */
async function useEmbedded(log: Log): Promise<Server> {
  users += 1;
  embedded ??= startServer(log);
  const { url, stop } = await embedded;
  return {
    url,
    async stop() {
      users -= 1;
      if (users > 0) return;
      embedded = undefined;
      await stop();
    },
  };
}

async function startServer(log: Log): Promise<Server> {
  const home = await mkdtemp(path.join(os.tmpdir(), "perdure-testing-"));
  // Nothing here has to survive the machine.
  const settings = { fsync: "off", full_page_writes: "off" };
  const server = await startEmbeddedPostgres({ dataDir: path.join(home, "data"), log, settings });
  return {
    url: server.url,
    async stop() {
      await server.stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}
