// The Postgres server of a test run: TEST_DATABASE_URL, or the embedded one in a folder that goes away with it.
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { isRunning } from "../../src/db/embedded/process.js";
import { startEmbeddedPostgres } from "../../src/db/embedded/server.js";
import { createLog } from "../../src/observe/log.js";

export type TestServer = Readonly<{ url: string; stop(): Promise<void> }>;

const PREFIX = "perdure-test-postgres-";
const log = createLog("silent");

export async function startTestServer(): Promise<TestServer> {
  const given = process.env["TEST_DATABASE_URL"];
  if (given) return { url: given, stop: async () => {} };
  await removeLeftovers();
  const home = await mkdtemp(path.join(os.tmpdir(), `${PREFIX}${process.pid}-`));
  const server = await startEmbeddedPostgres({
    dataDir: path.join(home, "data"),
    log,
    // Tests kill processes, not machines: what the kernel has is safe, and 2 cores are few.
    settings: { fsync: "off", max_connections: "300" },
  });
  return {
    url: server.url,
    async stop() {
      await server.stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** A run that was killed leaves its server running; the next one ends it. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(os.tmpdir())) {
    const pid = Number(name.startsWith(PREFIX) ? name.slice(PREFIX.length).split("-", 1)[0] : "NaN");
    if (Number.isNaN(pid) || isRunning(pid)) continue;
    const home = path.join(os.tmpdir(), name);
    await stopEmbedded(path.join(home, "data")).catch(() => undefined);
    await rm(home, { recursive: true, force: true });
  }
}

/** Stops the embedded server that some process left on a data dir, if it runs. */
export async function stopEmbedded(dataDir: string): Promise<void> {
  if (!existsSync(path.join(dataDir, "postmaster.pid"))) return;
  const server = await startEmbeddedPostgres({ dataDir, log });
  await server.stop();
}
