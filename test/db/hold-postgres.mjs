// Starts the embedded Postgres as `perdure dev` would, says where, and lives until it is killed.
// Usage: node hold-postgres.mjs <dist> <data dir>
import path from "node:path";
import { pathToFileURL } from "node:url";

const [dist, dataDir] = process.argv.slice(2);
const { startEmbeddedPostgres } = await import(pathToFileURL(path.join(dist, "db/embedded/server.js")).href);
const log = { debug() {}, info() {}, warn() {}, error() {} };
try {
  const { url, pid, adopted } = await startEmbeddedPostgres({ dataDir, log });
  console.log(`ready ${JSON.stringify({ url, pid, adopted })}`);
  setInterval(() => {}, 1_000_000);
} catch (error) {
  console.log(`${error.code}: ${error.message}`);
  process.exitCode = 1;
}
